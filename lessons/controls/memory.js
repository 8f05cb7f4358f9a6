// Model states of each ZeRO stage, drawn anew at every move of a slider. Native inputs; an SVG picture; a table that says the same.

/** Bytes on one of `ranks` ranks: the formula of labs/planner/zero.py, held against it by a test. */
export function modelStates(parameters, stage, ranks, cost) {
  const shard = Math.ceil(parameters / ranks);
  return {
    parameters: cost.parameters * (stage >= 3 ? shard : parameters),
    gradients: cost.gradients * (stage >= 2 ? shard : parameters),
    optimizer_states: cost.optimizer_states * (stage >= 1 ? shard : parameters),
  };
}

const SVG = "http://www.w3.org/2000/svg";
const ORDER = ["parameters", "optimizer_states", "gradients"];
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function mark(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function render({ model, el }) {
  const { lang, dir, locale, limits, stages, costs, looks, words } = model.get("state");
  const number = (value, digits = 3) =>
    new Intl.NumberFormat(locale, { maximumSignificantDigits: digits }).format(value);
  const bytes = (count) => {
    let power = 0;
    while (count >= 1000 && power < UNITS.length - 1) [count, power] = [count / 1000, power + 1];
    return `${number(count)}\u202f${UNITS[power]}`;
  };

  const root = element("div", { class: "shardwise-memory", lang, dir });
  const fields = element("fieldset", {}, element("legend", {}, words.title));
  // A slider's place is the logarithm of its value, to three digits; ranks are whole.
  const slider = (name, step, round) => {
    const [low, high] = limits[name].map(Math.log10);
    const output = element("output", { dir: "ltr" });
    const input = element("input", { type: "range", min: low, max: high, step, dir: "ltr" });
    input.value = Math.log10(model.get("choice")[name]);
    const value = () => round(10 ** Number(input.value));
    const line = element("label", {}, element("span", {}, words[name]), input, output);
    const show = () => {
      output.textContent = number(value(), name === "ranks" ? 4 : 3);
      input.setAttribute("aria-valuetext", output.textContent);
    };
    input.addEventListener("input", () => { show(); draw(); });
    input.addEventListener("change", keep);
    show();
    fields.append(line);
    return value;
  };
  const parameters = slider("parameters", 0.005, (value) => Math.round(Number(value.toPrecision(3))));
  const ranks = slider("ranks", 0.001, Math.round);
  const select = element("select", { dir: "ltr" });
  for (const name of Object.keys(costs)) select.append(element("option", { value: name }, name));
  select.value = model.get("choice").precision;
  select.addEventListener("change", () => { draw(); keep(); });
  fields.append(element("label", {}, element("span", {}, words.precision), select));

  const legend = element("p", { class: "legend" });
  for (const state of ORDER) {
    const swatch = element("i", { "aria-hidden": "true", class: state });
    swatch.style.backgroundColor = looks[state].colour;
    legend.append(element("span", {}, swatch, looks[state].name));
  }

  const picture = mark("svg", { viewBox: "0 0 640 150", "aria-hidden": "true", direction: "ltr" });
  const bars = stages.map(({ name }, index) => {
    const y = 8 + index * 36;
    const label = mark("text", { x: 118, y: y + 15, "text-anchor": "end", direction: dir === "rtl" ? "rtl" : "ltr" });
    if (dir === "rtl") label.setAttribute("text-anchor", "start");
    label.textContent = name;
    const parts = ORDER.map((state) => mark("rect", { y, height: 20, fill: looks[state].colour, class: state }));
    const total = mark("text", { y: y + 15 });
    picture.append(label, ...parts, total);
    return { parts, total };
  });

  const table = element("table");
  const head = element("tr", {}, element("th", { scope: "col" }, words.stage));
  for (const state of ORDER) head.append(element("th", { scope: "col" }, looks[state].name));
  head.append(element("th", { scope: "col" }, words.total));
  const body = element("tbody");
  const cells = stages.map(({ name }) => {
    const row = element("tr", {}, element("th", { scope: "row" }, name));
    const own = [...ORDER, "total"].map(() => element("td", { dir: "ltr" }));
    row.append(...own);
    body.append(row);
    return own;
  });
  table.append(element("thead", {}, head), body);

  function draw() {
    const cost = costs[select.value];
    const states = stages.map(({ stage }) => modelStates(parameters(), stage, ranks(), cost));
    const totals = states.map((own) => ORDER.reduce((sum, state) => sum + own[state], 0));
    const scale = 420 / totals[0];
    states.forEach((own, index) => {
      let x = 130;
      ORDER.forEach((state, place) => {
        bars[index].parts[place].setAttribute("x", x);
        bars[index].parts[place].setAttribute("width", own[state] * scale);
        cells[index][place].textContent = bytes(own[state]);
        x += own[state] * scale;
      });
      bars[index].total.setAttribute("x", x + 8);
      bars[index].total.textContent = cells[index][ORDER.length].textContent = bytes(totals[index]);
    });
  }

  function keep() {
    model.set("choice", { parameters: parameters(), ranks: ranks(), precision: select.value });
    model.save_changes();
  }

  // JupyterLab would take the arrow keys for itself.
  root.addEventListener("keydown", (event) => event.stopPropagation());
  root.append(fields, legend, picture, table);
  draw();
  el.append(root);
}

export default { render };
