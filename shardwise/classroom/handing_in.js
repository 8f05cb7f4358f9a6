// Choose, look, hand in. The state comes from Python; a click goes back as a message.
const element = (name, properties = {}, ...inside) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...inside);
  return made;
};

// Asks the page to save what is open of the assignment, and waits for that, but not long.
const saved = async place => {
  const waits = [];
  document.dispatchEvent(new CustomEvent("shardwise:save", { detail: { place, wait: each => waits.push(each) } }));
  await Promise.race([Promise.allSettled(waits), new Promise(done => setTimeout(done, 5000))]);
};

function render({ model, el }) {
  const panel = element("section");
  el.classList.add("shardwise-hand-in");
  el.append(panel);
  const send = message => model.send(message);
  const look = async (button, id) => {
    button.disabled = true;
    await saved(model.get("state").place + id + "/");
    send({ do: "look", id });
  };

  const show = () => {
    const state = model.get("state");
    const had = panel.contains(document.activeElement);
    const heading = element("h3", { textContent: state.title, tabIndex: -1 });
    panel.replaceChildren(heading);
    panel.dir = state.dir;
    panel.lang = state.lang;
    panel.className = state.step + (state.warn ? " warn" : "");
    if (state.step === "choose") {
      const list = element("div", { className: "row" });
      for (const each of state.choices) {
        const button = element("button", { type: "button", textContent: each.name });
        button.dataset.assignment = each.id;
        button.addEventListener("click", () => look(button, each.id));
        list.append(button);
      }
      panel.append(list);
      return;
    }
    const lines = state.lines.map(each => element("li", { textContent: each }));
    const told = element("div", {}, element("ul", {}, ...lines));
    if (state.step !== "look") told.setAttribute("role", "status");
    panel.append(told);
    const row = element("div", { className: "row" });
    if (state.step === "look") {
      const button = element("button", { type: "button", className: "do", textContent: state.do });
      button.addEventListener("click", () => {
        row.querySelectorAll("button").forEach(each => (each.disabled = true));
        button.textContent = state.working;
        send({ do: "hand-in", id: state.id });
      });
      row.append(button);
    }
    const back = element("button", { type: "button", className: "quiet", textContent: state.back });
    back.addEventListener("click", () => send({ do: "choose" }));
    row.append(back);
    panel.append(row);
    if (had) heading.focus();
  };
  // JupyterLab takes keys for itself; here they are the buttons'.
  const own = event => event.stopPropagation();
  el.addEventListener("keydown", own);
  model.on("change:state", show);
  show();
  return () => {
    model.off("change:state", show);
    el.removeEventListener("keydown", own);
  };
}
export default { render };
