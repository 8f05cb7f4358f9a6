// Draws the memory of all ranks while they run. Words, numbers and colours come from Python ready to show; this file knows geometry only.

const WIDTH_OF_ROW = 9; // rank, seconds, phase, six categories from the bottom of the stack
const PANEL = 150, ABOVE = 22, STRIP = 9, BELOW = 30, MARGIN = 16, GUTTER = 62, BETWEEN = 26;
const CALM = 1000; // milliseconds between drawings for readers who ask for reduced motion

function pattern(context, look, ratio) {
  const tile = document.createElement("canvas");
  const side = Math.round(6 * ratio);
  tile.width = tile.height = side;
  const ink = tile.getContext("2d");
  ink.scale(side / 6, side / 6);
  ink.fillStyle = look.colour;
  ink.fillRect(0, 0, 6, 6);
  ink.strokeStyle = ink.fillStyle = look.ink;
  ink.lineWidth = 1.2;
  const lines = {
    plain: [],
    dots: [],
    rising: [[-1, 7, 7, -1], [-1, 1, 1, -1], [5, 7, 7, 5]],
    level: [[0, 3, 6, 3]],
    crossed: [[0, 0, 6, 6], [6, 0, 0, 6]],
    upright: [[3, 0, 3, 6]],
  }[look.pattern];
  ink.beginPath();
  for (const [x1, y1, x2, y2] of lines) {
    ink.moveTo(x1, y1);
    ink.lineTo(x2, y2);
  }
  ink.stroke();
  if (look.pattern === "dots") {
    for (const at of [1.5, 4.5]) {
      ink.beginPath();
      ink.arc(at, at, 1, 0, 2 * Math.PI);
      ink.fill();
    }
  }
  const made = context.createPattern(tile, "repeat");
  made.setTransform(new DOMMatrix().scale(1 / ratio));
  return made;
}

// A rank's rows, made as few as there are pixels: in each column the highest and the last.
function condensed(rows, start, end, columns) {
  const kept = [];
  const width = (end - start) / columns || 1;
  let column = null, highest = null, last = null;
  const close = () => {
    if (highest !== null && highest !== last) kept.push(highest);
    if (last !== null) kept.push(last);
  };
  for (const row of rows) {
    const at = row.seconds < start ? -1 : Math.floor((row.seconds - start) / width);
    if (at !== column) {
      if (column === -1) {
        if (last !== null) kept.push({ ...last, seconds: start });
      } else {
        close();
      }
      column = at;
      highest = null;
    }
    if (highest === null || row.total >= highest.total) highest = row;
    last = row;
  }
  if (column === -1 && last !== null) kept.push({ ...last, seconds: start });
  else close();
  return kept;
}

function render({ model, el }) {
  const setup = model.get("setup");
  const rightToLeft = setup.direction === "rtl";
  const root = document.createElement("section");
  root.className = "shardwise-live";
  root.dir = setup.direction;
  root.lang = setup.language;
  root.setAttribute("aria-label", setup.name);

  const legend = document.createElement("ul");
  for (const { label, sign } of setup.legend) {
    const item = document.createElement("li");
    item.innerHTML = sign;
    item.append(label);
    legend.append(item);
  }
  const canvas = document.createElement("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", setup.name);
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  status.textContent = setup.waiting;
  root.append(legend, canvas, status);
  el.append(root);

  const context = canvas.getContext("2d");
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  const series = setup.ranks.map(() => []);
  let scene = { start: 0, end: 1, highest: 1, ticks: [[0, "0"]], peaks: {}, time: "" };
  let asked = false, drawn = 0, gone = false;

  function draw() {
    asked = false;
    if (gone) return;
    drawn = performance.now();
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth || 760;
    const across = series.length > 1 && width >= 480 ? 2 : 1;
    const rowHeight = ABOVE + PANEL + STRIP + BELOW;
    const height = rowHeight * Math.ceil(series.length / across);
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(root);
    const fills = setup.looks.map((look) => (look.pattern === "plain" ? look.colour : pattern(context, look, ratio)));
    const panelWidth = (width - 2 * MARGIN - GUTTER - (across - 1) * BETWEEN) / across;
    series.forEach((rows, rank) => {
      const left = MARGIN + GUTTER + (rank % across) * (panelWidth + BETWEEN);
      const top = Math.floor(rank / across) * rowHeight + ABOVE;
      panel(rows, rank, { left, top, width: panelWidth, first: rank % across === 0 }, fills, style, ratio);
    });
  }

  function text(words, x, y, side, { weight = 400, size = 11, quiet = false, ltr = false, style }) {
    context.font = `${weight} ${size}px ${style.fontFamily}`;
    context.direction = ltr ? "ltr" : setup.direction;
    context.textAlign = side;
    context.globalAlpha = quiet ? 0.72 : 1;
    context.fillStyle = style.color;
    context.fillText(words, x, y);
    context.globalAlpha = 1;
  }

  function panel(rows, rank, box, fills, style, ratio) {
    const { left, top, width } = box;
    const bottom = top + PANEL;
    const x = (seconds) => left + (width * (seconds - scene.start)) / (scene.end - scene.start || 1);
    const y = (size) => bottom - (PANEL * size) / scene.highest;
    const reading = rightToLeft ? [left + width, "right"] : [left, "left"];
    text(setup.ranks[rank], reading[0], top - 8, reading[1], { weight: 600, size: 12, style });
    context.lineWidth = 1;
    context.strokeStyle = style.color;
    for (const [size, label] of scene.ticks) {
      context.globalAlpha = size ? 0.13 : 0.45;
      context.beginPath();
      context.moveTo(left, Math.round(y(size)) + 0.5);
      context.lineTo(left + width, Math.round(y(size)) + 0.5);
      context.stroke();
      context.globalAlpha = 1;
      if (box.first) text(label, left - 8, y(size) + 4, "right", { quiet: true, ltr: true, style });
    }

    const kept = condensed(rows, scene.start, scene.end, Math.round(width));
    for (let level = fills.length - 1; level >= 0; level--) {
      if (!kept.some((row) => row.sizes[level])) continue;
      context.beginPath();
      context.moveTo(x(kept[0].seconds), bottom);
      let before = bottom;
      for (const row of kept) {
        const at = x(row.seconds), up = y(row.heights[level]);
        context.lineTo(at, before);
        context.lineTo(at, up);
        before = up;
      }
      context.lineTo(left + width, before);
      context.lineTo(left + width, bottom);
      context.closePath();
      context.fillStyle = fills[level];
      context.fill();
    }

    context.fillStyle = style.color;
    let phase = -1, since = 0;
    const mark = (until) => {
      if (phase >= 0 && until > scene.start) {
        const { strength, height } = setup.phases[phase];
        const from = x(Math.max(since, scene.start));
        context.globalAlpha = strength;
        context.fillRect(from, bottom + 2, Math.max(x(until) - from, 0.5), height);
        context.globalAlpha = 1;
      }
    };
    for (const row of rows) {
      if (row.phase !== phase) {
        mark(row.seconds);
        phase = row.phase;
        since = row.seconds;
      }
    }
    mark(scene.end);

    text("0", left, bottom + STRIP + 16, "left", { quiet: true, ltr: true, style });
    text(scene.time, left + width, bottom + STRIP + 16, "right", { quiet: true, ltr: true, style });
    if (setup.formula) {
      context.strokeStyle = style.color;
      context.lineWidth = 1.8;
      context.setLineDash(setup.dash);
      context.beginPath();
      context.moveTo(left, y(setup.formula));
      context.lineTo(left + width, y(setup.formula));
      context.stroke();
      context.setLineDash([]);
    }
    let peak = null;
    for (const row of kept) if (peak === null || row.total > peak.total) peak = row;
    if (peak !== null && scene.peaks[rank]) {
      const at = Math.max(x(peak.seconds), left), late = at > left + width / 2;
      context.beginPath();
      context.arc(at, y(peak.total), 2.6, 0, 2 * Math.PI);
      context.fillStyle = style.color;
      context.fill();
      text(scene.peaks[rank], at + (late ? -7 : 7), y(peak.total) - 5, late ? "right" : "left", { style });
    }
  }

  function ask() {
    if (asked || gone) return;
    asked = true;
    const wait = calm.matches ? Math.max(0, drawn + CALM - performance.now()) : 0;
    if (wait) setTimeout(() => requestAnimationFrame(draw), wait);
    else requestAnimationFrame(draw);
  }

  function receive(content, buffers) {
    const view = buffers[0];
    const numbers = new Float64Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
    if (content.again) for (const rows of series) rows.length = 0;
    for (let at = 0; at + WIDTH_OF_ROW <= numbers.length; at += WIDTH_OF_ROW) {
      const sizes = Array.from(numbers.subarray(at + 3, at + WIDTH_OF_ROW));
      let total = 0;
      const heights = sizes.map((size) => (total += size));
      series[numbers[at]]?.push({ seconds: numbers[at + 1], phase: numbers[at + 2], sizes, heights, total });
    }
    scene = content;
    if (content.status) status.textContent = content.status;
    root.dataset.rows = series.reduce((sum, rows) => sum + rows.length, 0);
    ask();
  }

  const watcher = new ResizeObserver(ask);
  watcher.observe(root);
  model.on("msg:custom", receive);
  ask();
  return () => {
    gone = true;
    watcher.disconnect();
    model.off("msg:custom", receive);
  };
}

export default { render };
