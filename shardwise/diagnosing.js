// Three questions of radio buttons. What is right is known in Python only; a choice goes there and its meaning comes back.
function render({ model, el }) {
  const form = document.createElement("form");
  const own = crypto.randomUUID();
  const fields = new Map();
  const button = Object.assign(document.createElement("button"), { type: "submit" });
  const ending = document.createElement("p");
  ending.setAttribute("role", "status");
  ending.className = "ending";
  el.classList.add("shardwise-diagnosis");
  el.append(form);

  const build = (part) => {
    const field = document.createElement("fieldset");
    const legend = document.createElement("legend");
    legend.innerHTML = part.question;
    field.append(legend);
    for (const choice of part.choices) {
      const label = document.createElement("label");
      const radio = Object.assign(document.createElement("input"), { type: "radio", name: `${own}-${part.key}`, value: choice.key });
      const words = document.createElement("span");
      words.innerHTML = choice.html;
      radio.checked = part.chosen === choice.key;
      label.append(radio, words);
      field.append(label);
    }
    const said = document.createElement("p");
    said.setAttribute("role", "status");
    field.append(said);
    form.append(field);
    fields.set(part.key, { field, said });
  };
  const show = () => {
    const state = model.get("state");
    form.dir = state.dir;
    form.lang = state.lang;
    for (const part of state.parts) {
      if (!fields.has(part.key)) build(part);
      const { said } = fields.get(part.key);
      said.className = part.verdict ? (part.right ? "said right" : "said wrong") : "said";
      said.innerHTML = part.verdict ? `<strong>${part.verdict}</strong> ${part.feedback}` : "";
    }
    button.textContent = state.button;
    ending.textContent = state.ending;
    form.append(button, ending);
  };
  const answer = (event) => {
    event.preventDefault();
    const chosen = {};
    for (const [key, { field }] of fields) {
      const picked = field.querySelector("input:checked");
      if (picked) chosen[key] = picked.value;
    }
    model.send({ do: "answer", chosen });
  };
  // JupyterLab takes the arrow keys for itself; here they choose.
  const keep = (event) => event.stopPropagation();
  form.addEventListener("submit", answer);
  el.addEventListener("keydown", keep);
  model.on("change:state", show);
  show();
  return () => {
    model.off("change:state", show);
    el.removeEventListener("keydown", keep);
  };
}
export default { render };
