
// Fields and what they make: a choice goes to Python, which sends the figures back, or why there are none. `offer` is of saving.js, before this.

const SETTLED = 700; // milliseconds without a change after which the notebook keeps the figures
const PATIENCE = 4000; // and after which it is said that nothing answers

function made(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function render({ model, el }) {
  const { lang, dir, name, words, fields, first } = model.get("setup");
  const id = crypto.randomUUID();
  const root = made("section", { class: "shardwise-controls", lang, dir, "aria-label": name });
  const set = made("fieldset", {}, made("legend", {}, name));
  const grid = made("div", { class: "fields" });
  const refused = made("p", { class: "refused", role: "status" });
  const figures = made("div", { class: "figures" });
  const told = made("p", { class: "told", role: "status" }); // for who does not see the figures

  let choice = { ...first };
  const past = [];
  const put = {}; // by field: show its value

  const list = (field, input) => {
    for (const { value, label } of field.among) input.append(made("option", { value }, label));
    input.addEventListener("change", () => change(field.name, input.value, true));
    put[field.name] = (value) => { input.value = value; };
    return [input];
  };

  const number = (field, input) => {
    input.type = "text";
    input.inputMode = "numeric";
    input.autocomplete = "off";
    input.placeholder = field.empty;
    const ladder = field.among.map(({ value }) => Number(value));
    const slider = made("input", {
      type: "range", min: 0, max: ladder.length - 1, step: 1, dir: "ltr", "aria-label": `${field.label}, ${words.slider}`,
    });
    const place = (value) => {
      if (!ladder.length) return;
      const wanted = Number(value) || 0;
      const near = ladder.reduce((best, each, at) => (Math.abs(each - wanted) < Math.abs(ladder[best] - wanted) ? at : best), 0);
      slider.value = near;
      slider.setAttribute("aria-valuetext", value || field.empty);
    };
    slider.addEventListener("input", () => {
      input.value = ladder[slider.value];
      slider.setAttribute("aria-valuetext", input.value);
      change(field.name, input.value, false);
    });
    slider.addEventListener("change", keep);
    input.addEventListener("input", () => { place(input.value); change(field.name, input.value, false); });
    input.addEventListener("change", keep);
    put[field.name] = (value) => { input.value = value; place(value); };
    return ladder.length ? [slider, input] : [input];
  };

  for (const field of fields) {
    const input = made(field.kind === "list" ? "select" : "input", { id: `${id}-${field.name}`, name: field.name, dir: field.kind === "list" ? dir : "ltr" });
    const parts = field.kind === "list" ? list(field, input) : number(field, input);
    const row = made("div", { class: `field ${field.kind}` }, made("label", { for: input.id }, field.label), ...parts);
    grid.append(row);
  }
  const undo = made("button", { type: "button", class: "undo" }, words.undo);
  const reset = made("button", { type: "button", class: "reset" }, words.reset);
  set.append(grid, made("div", { class: "buttons" }, undo, reset));
  root.append(set, refused, figures, told);
  el.append(root);

  // --- what was chosen before

  let kept = { ...choice }; // the choice that the next change is taken back to

  function keep() {
    if (fields.every(({ name }) => kept[name] === choice[name])) return;
    past.push(kept);
    kept = { ...choice };
    buttons();
  }

  function buttons() {
    undo.disabled = !past.length;
    reset.disabled = fields.every(({ name }) => choice[name] === first[name]);
  }

  function back(to) {
    choice = { ...to };
    kept = { ...to };
    for (const { name } of fields) put[name](choice[name]);
    ask();
    buttons();
  }

  undo.addEventListener("click", () => {
    const unfinished = !fields.every(({ name }) => kept[name] === choice[name]);
    if (unfinished) back(kept);
    else if (past.length) back(past.pop());
    if (undo.disabled) reset.focus();
  });
  reset.addEventListener("click", () => {
    keep();
    past.push({ ...choice });
    back(first);
    undo.focus();
  });

  // --- asking and showing: one question at a time, and then the latest

  let turn = 0, open = false, next = false, settling = 0, waiting = 0;

  function change(name, value, whole) {
    choice[name] = value;
    if (whole) keep();
    buttons();
    ask();
  }

  function ask() {
    if (open) {
      next = true;
      return;
    }
    open = true;
    next = false;
    model.send({ do: "choose", choice, turn: ++turn });
    figures.setAttribute("aria-busy", "true");
    clearTimeout(settling);
    clearTimeout(waiting);
    waiting = setTimeout(() => { open = false; refused.textContent = words.waits; }, PATIENCE);
  }

  function show() {
    const shown = model.get("shown");
    if (shown.turn === turn) {
      open = false;
      clearTimeout(waiting);
    }
    refused.textContent = shown.refused;
    figures.hidden = Boolean(shown.refused);
    root.dataset.turn = shown.turn;
    figures.removeAttribute("aria-busy");
    if (shown.html) {
      const unfolded = [...figures.querySelectorAll("details")].map((each) => each.open);
      figures.innerHTML = shown.html;
      figures.querySelectorAll("details").forEach((each, at) => { each.open = Boolean(unfolded[at]); });
      figures.querySelectorAll("figure[data-save-svg]").forEach(offer);
    }
    if (next) ask();
    else if (shown.turn) settling = setTimeout(settle, SETTLED);
  }

  function settle() {
    model.send({ do: "settle" });
    const figure = figures.hidden ? null : figures.querySelector("figure");
    told.textContent = figure ? figure.getAttribute("aria-label").split(/[.؟!](?= |$)/)[0] : "";
  }

  model.on("change:shown", show);
  // JupyterLab would take the keys for itself.
  root.addEventListener("keydown", (event) => event.stopPropagation());
  for (const { name } of fields) put[name](choice[name]);
  buttons();
  show();
  return () => {
    model.off("change:shown", show);
    clearTimeout(settling);
    clearTimeout(waiting);
  };
}

export default { render };
