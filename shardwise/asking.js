// One question with one typed answer. The state comes from Python; an answer goes back as a message.
function render({ model, el }) {
  const field = Object.assign(document.createElement("input"), { type: "text", autocomplete: "off" });
  const id = `shardwise-ask-${crypto.randomUUID()}`;
  const form = document.createElement("form");
  const label = document.createElement("label");
  const row = document.createElement("div");
  const unit = document.createElement("bdi");
  const button = Object.assign(document.createElement("button"), { type: "submit" });
  const said = document.createElement("p");
  field.id = id;
  label.htmlFor = id;
  row.className = "row";
  unit.className = "unit";
  unit.dir = "ltr";
  unit.id = `${id}-unit`;
  said.id = `${id}-said`;
  said.setAttribute("role", "status");
  row.append(field, unit, button);
  form.append(label, row, said);
  el.classList.add("shardwise-ask");
  el.append(form);

  const show = () => {
    const state = model.get("state");
    form.dir = state.dir;
    form.lang = state.lang;
    label.textContent = state.label;
    unit.textContent = state.unit;
    unit.hidden = !state.unit;
    button.textContent = state.button;
    said.textContent = state.said;
    said.className = state.wrong ? "said wrong" : "said";
    field.dir = state.numeric ? "ltr" : "auto";
    field.className = state.numeric ? "numeric" : "";
    if (state.numeric) field.inputMode = "text";
    field.setAttribute("aria-invalid", String(state.wrong));
    field.setAttribute("aria-describedby", `${unit.id} ${said.id}`);
    if (document.activeElement !== field) field.value = state.value;
  };
  const answer = (event) => {
    event.preventDefault();
    model.send({ do: "answer", answer: field.value });
  };
  // JupyterLab takes keys for itself; while one types here they are the field's.
  const own = (event) => event.stopPropagation();
  form.addEventListener("submit", answer);
  el.addEventListener("keydown", own);
  model.on("change:state", show);
  show();
  return () => {
    model.off("change:state", show);
    el.removeEventListener("keydown", own);
  };
}
export default { render };
