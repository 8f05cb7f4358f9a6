// A view of one quiz session: it draws what Python says and sends back what was chosen. It knows no key.

const MARKS = {
  right: "M3 9l4 4 8-9",
  wrong: "M4 4l10 10M14 4L4 14",
  open: "M9 1.6a7.4 7.4 0 1 0 .01 0",
  missed: "M9 1.6a7.4 7.4 0 1 0 .01 0M5.6 9.2l2.3 2.3 4.4-5",
};

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "html") made.innerHTML = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function mark(kind, label) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 18 18");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  svg.setAttribute("class", `quiz-mark quiz-${kind}`);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", MARKS[kind]);
  svg.append(path);
  return svg;
}

function render({ model, el }) {
  const status = element("div", { role: "status", class: "quiz-status" });
  const body = element("div");
  const foot = element("div");
  // The form and its live region stay; only what is in them changes, so that screen readers hear every change.
  const form = element("form", { novalidate: true }, body, status, foot);
  const root = element("div", { class: "quiz", "data-lm-suppress-shortcuts": "true" }, form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const state = model.get("state");
    if (state.phase === "question") send({ do: "answer", answer: answer(state) });
  });
  // JupyterLab takes arrow keys, Enter and letters for itself; what is typed here stays here.
  root.addEventListener("keydown", (event) => event.stopPropagation());
  el.append(root);
  const scope = Math.random().toString(36).slice(2);
  let draft = { id: null };
  let shown = null;

  function send(content) {
    model.send(content);
  }

  function draw() {
    const state = model.get("state");
    const moved = shown !== null && (shown.id !== state.id || shown.phase !== state.phase);
    if (draft.id !== state.id) draft = { id: state.id, order: (state.offered ?? []).map((each) => each.key) };
    root.lang = state.lang;
    root.dir = state.dir;
    body.replaceChildren(...(state.phase === "result" ? [result(state)] : [progress(state), question(state)]));
    foot.replaceChildren(...(state.phase === "result" ? [] : [buttons(state), report(state)]));
    announce(state);
    const told = state.reported && state.reported.text !== shown?.reported?.text;
    shown = state;
    if (told) form.querySelector(".quiz-kept")?.focus();
    if (moved) form.querySelector("[data-focus]")?.focus();
  }

  function announce(state) {
    status.className = "quiz-status";
    if (state.error) {
      status.classList.add("quiz-error");
      status.replaceChildren(element("p", {}, state.error));
    } else if (state.phase === "graded") {
      const { correct, verdict, feedback } = state.graded;
      status.classList.add(correct ? "quiz-is-right" : "quiz-is-wrong");
      status.replaceChildren(
        element("p", { class: "quiz-verdict" }, mark(correct ? "right" : "wrong", ""), verdict),
        element("div", { html: feedback }),
      );
      status.querySelector("svg").setAttribute("aria-hidden", "true");
      status.querySelector("svg").removeAttribute("aria-label");
    } else {
      status.replaceChildren();
    }
  }

  function question(state) {
    const done = state.phase === "graded";
    const legend = element(
      "legend",
      { tabindex: "-1", "data-focus": !done },
      element("span", { class: "quiz-progress" }, state.progress),
      element("div", { class: "quiz-text", html: state.text }),
    );
    const draw = { choice, several, fault, order, match, number, bytes: number }[state.form];
    return element(
      "fieldset",
      {},
      legend,
      state.code && state.form !== "fault" ? code(state) : null,
      element("p", { class: "quiz-prompt" }, state.prompt),
      ...draw(state, done),
    );
  }

  function buttons(state) {
    const button = state.phase === "graded"
      ? element("button", { type: "button", class: "quiz-main", "data-focus": true, onclick: () => send({ do: "next" }) },
          state.last ? state.labels.finish : state.labels.next)
      : element("button", { type: "submit", class: "quiz-main" }, state.labels.check);
    return element("div", { class: "quiz-row" }, button);
  }

  function answer(state) {
    const data = new FormData(form);
    switch (state.form) {
      case "several": return data.getAll("answer");
      case "order": return draft.order;
      case "match": return Object.fromEntries(state.offered.map((row) => [row.key, data.get(row.key) ?? ""]));
      default: return data.get("answer") ?? "";
    }
  }

  function progress(state) {
    return element("progress", { max: state.total, value: state.number - (state.phase === "graded" ? 0 : 1), "aria-label": state.progress });
  }

  function code(state) {
    return element("pre", { class: "quiz-code", dir: "ltr", tabindex: "0", "aria-label": state.labels.code }, element("code", {}, state.code));
  }

  function note(state, key) {
    return state.graded?.notes.find((each) => each.key === key);
  }

  function marked(state, key) {
    const found = note(state, key);
    if (!found) return null;
    if (found.chosen) return mark(found.right ? "right" : "wrong", state.labels[found.right ? "right-mark" : "wrong-mark"]);
    return found.right ? mark("missed", state.labels["missed-mark"]) : null;
  }

  function options(state, done, type) {
    const given = [state.given ?? draft.chosen ?? []].flat();
    const list = element("div", { class: "quiz-options" }, ...state.offered.map((option) => {
      const found = note(state, option.key);
      const input = element("input", { type, name: "answer", value: option.key, id: `${scope}-${option.key}`, disabled: done, checked: given.includes(option.key) });
      input.addEventListener("change", () => {
        draft.chosen = [...list.querySelectorAll("input:checked")].map((each) => each.value);
      });
      const open = found && found.right && !found.chosen && found.html;
      return element("div", { class: "quiz-option" },
        element("label", { for: input.id }, input, element("bdi", { html: option.html }), marked(state, option.key)),
        open ? element("p", { class: "quiz-note", html: found.html }) : null);
    }));
    const others = (state.graded?.notes ?? []).filter((each) => !each.right && each.html);
    const rest = others.length
      ? element("details", {}, element("summary", {}, state.labels["other-options"]),
          element("dl", {}, ...others.flatMap((each) => [
            element("dt", {}, element("bdi", { html: state.offered.find((option) => option.key === each.key).html })),
            element("dd", { html: each.html }),
          ])))
      : null;
    return [list, rest];
  }

  function choice(state, done) {
    return options(state, done, "radio");
  }

  function several(state, done) {
    return options(state, done, "checkbox");
  }

  function fault(state, done) {
    const byLine = new Map(state.offered.map((option) => [option.line, option]));
    const given = state.given ?? draft.chosen;
    const lines = state.code.split("\n").map((line, index) => {
      const option = byLine.get(index + 1);
      const text = element("code", {}, line || " ");
      if (!option) return element("div", { class: "quiz-line" }, element("span", { class: "quiz-no-choice" }), text);
      const input = element("input", { type: "radio", name: "answer", value: option.key, id: `${scope}-${option.key}`, disabled: done, checked: given === option.key });
      input.addEventListener("change", () => { draft.chosen = option.key; });
      return element("label", { class: "quiz-line", for: input.id }, input, text, marked(state, option.key));
    });
    const notes = (state.graded?.notes ?? []).filter((each) => each.html).map((each) => {
      const option = state.offered.find((one) => one.key === each.key);
      return [element("dt", {}, element("bdi", { html: option.html }), marked(state, each.key)), element("dd", { html: each.html })];
    });
    const label = element("p", { class: "quiz-hidden", id: `${scope}-code` }, state.labels.code);
    return [
      label,
      element("div", { class: "quiz-code quiz-lines", dir: "ltr", role: "group", "aria-labelledby": label.id }, ...lines),
      notes.length ? element("details", {}, element("summary", {}, state.labels["other-options"]), element("dl", {}, ...notes.flat())) : null,
    ];
  }

  function order(state, done) {
    const byKey = new Map(state.offered.map((step) => [step.key, step]));
    const keys = state.given ?? draft.order;
    const list = element("ol", { class: "quiz-order" });
    function fill(focused, direction) {
      list.replaceChildren(...keys.map((key, place) => {
        const step = byKey.get(key);
        const move = (by, label, path) => {
          const button = element("button", { type: "button", "aria-label": label, disabled: done || place + by < 0 || place + by >= keys.length, "data-key": key, "data-by": by,
            onclick: () => shift(key, by) });
          button.append(arrow(path));
          return button;
        };
        const row = element("li", {},
          element("bdi", { html: step.html }), marked(state, key),
          done ? null : element("span", { class: "quiz-moves" }, move(-1, step.up, "M4 11l5-5 5 5"), move(1, step.down, "M4 7l5 5 5-5")));
        row.addEventListener("keydown", (event) => {
          if (!done && event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
            event.preventDefault();
            shift(key, event.key === "ArrowUp" ? -1 : 1);
          }
        });
        return row;
      }));
      if (focused) {
        const wanted = list.querySelector(`button[data-key="${focused}"][data-by="${direction}"]:not(:disabled)`);
        (wanted ?? list.querySelector(`button[data-key="${focused}"]:not(:disabled)`))?.focus();
      }
    }
    function shift(key, by) {
      const from = keys.indexOf(key);
      const to = from + by;
      if (to < 0 || to >= keys.length) return;
      keys.splice(to, 0, ...keys.splice(from, 1));
      draft.order = keys;
      fill(key, by);
      status.className = "quiz-status quiz-quiet";
      status.textContent = byKey.get(key).moved[to];
    }
    fill();
    const right = state.graded && !state.graded.correct
      ? element("div", {}, element("p", { class: "quiz-prompt" }, state.labels["right-answer"]),
          element("ol", { class: "quiz-right-order" }, ...state.graded.key.map((line) => element("li", { html: line.replace(/^\d+\. /, "") }))))
      : null;
    return [list, right];
  }

  function arrow(path) {
    const svg = mark("missed", "");
    svg.removeAttribute("aria-label");
    svg.removeAttribute("role");
    svg.setAttribute("aria-hidden", "true");
    svg.setAttribute("class", "quiz-arrow");
    svg.firstChild.setAttribute("d", path);
    return svg;
  }

  function match(state, done) {
    const given = state.given ?? draft.matched ?? {};
    return [element("div", { class: "quiz-match" }, ...state.offered.map((row) => {
      const id = `${scope}-${row.key}`;
      const select = element("select", { id, name: row.key, disabled: done },
        element("option", { value: "" }, state.labels.choose),
        ...state.answers.map((each) => element("option", { value: each.key, selected: given[row.key] === each.key }, each.text)));
      select.addEventListener("change", () => { draft.matched = { ...draft.matched, [row.key]: select.value }; });
      return element("div", { class: "quiz-pair" },
        element("label", { for: id }, element("bdi", { html: row.html })), select, marked(state, row.key));
    }))];
  }

  function number(state, done) {
    const input = element("input", { type: "text", inputmode: "text", name: "answer", id: `${scope}-number`, dir: "ltr", autocomplete: "off", disabled: done, value: state.given ?? draft.typed ?? "" });
    input.addEventListener("input", () => { draft.typed = input.value; });
    return [
      element("p", { class: "quiz-number" }, element("label", { for: input.id }, state.label), " ", input),
    ];
  }

  function report(state) {
    const { labels, reported } = state;
    const id = `${scope}-report`;
    const line = element("input", { type: "text", id, readonly: true, dir: "ltr", value: state.report, onfocus: (event) => event.target.select() });
    const remark = element("textarea", { id: `${scope}-remark`, rows: 3, maxlength: 4000, dir: "auto" });
    remark.value = draft.remark ?? "";
    remark.addEventListener("input", () => { draft.remark = remark.value; });
    const folded = element("details", { class: "quiz-report", open: draft.reporting },
      element("summary", {}, labels.report),
      element("label", { for: remark.id }, labels["report-remark"]), remark,
      element("div", { class: "quiz-row" },
        element("button", { type: "button", class: "quiz-make-report", onclick: () => send({ do: "report", remark: remark.value }) }, labels["report-make"])),
      element("div", { class: "quiz-reported" }, ...(reported ? ready(state) : [])),
      element("label", { for: id }, labels["report-explained"]), line);
    folded.addEventListener("toggle", () => { draft.reporting = folded.open; });
    return folded;
  }

  function ready(state) {
    const { labels, reported } = state;
    const id = `${scope}-report-text`;
    const text = element("textarea", { id, rows: 6, readonly: true, dir: "auto" });
    text.value = reported.text;
    const copy = element("button", { type: "button", onclick: async () => {
      text.select();
      try { await navigator.clipboard.writeText(text.value); } catch { document.execCommand("copy"); }
      copy.textContent = labels["report-copied"];
    } }, labels["report-copy"]);
    return [
      element("p", { tabindex: "-1", class: "quiz-kept" }, reported.kept),
      element("label", { for: id }, labels["report-text"]), text,
      element("div", { class: "quiz-row quiz-ways" }, copy,
        element("a", { href: reported.mail }, labels["report-mail"]),
        reported.issue ? element("a", { href: reported.issue, target: "_blank", rel: "noopener noreferrer" }, labels["report-issue"]) : null),
    ];
  }

  function lessonAt(state, unit) {
    // Beside this notebook, or, where the address does not say where that is, in the language's folder.
    const name = `${unit}.ipynb`;
    if (/\.ipynb$/.test(location.pathname)) return name;
    const data = document.getElementById("jupyter-config-data");
    const base = data ? JSON.parse(data.textContent).baseUrl ?? "/" : null;
    return base === null ? name : `${base}lab/tree/${state.lang}/${name}`;
  }

  function noted(state, note) {
    return element("div", { class: "quiz-note" },
      element("p", { html: note.html }),
      ...note.more.map((each) => element("p", { html: each })),
      note.lesson ? element("p", {}, element("a", { href: lessonAt(state, note.lesson) }, note.label)) : null);
  }

  function result(state) {
    const { labels } = state;
    const table = state.profile.length
      ? element("table", {},
          element("caption", {}, labels.profile),
          element("thead", {}, element("tr", {}, ...["objective-column", "share-column", "result-column"].map((name) => element("th", { scope: "col" }, labels[name])))),
          element("tbody", {}, ...state.profile.map((each) => element("tr", {},
            element("th", { scope: "row", html: each.html }),
            element("td", {}, element("bdi", { dir: "ltr" }, each.share)),
            element("td", {}, decorated(each.mastered ? "right" : "open"), " ", each.word)))))
      : null;
    return element("div", { class: "quiz-result" },
      element("div", { class: "quiz-ending", tabindex: "-1", "data-focus": true, html: state.ending }),
      table,
      ...state.notes.map((note) => noted(state, note)),
      state.again ? element("button", { type: "button", class: "quiz-main", onclick: () => send({ do: "again" }) }, labels.again) : null);
  }

  function decorated(kind) {
    const svg = mark(kind, "");
    svg.removeAttribute("role");
    svg.removeAttribute("aria-label");
    svg.setAttribute("aria-hidden", "true");
    return svg;
  }

  model.on("change:state", draw);
  draw();
  return () => model.off("change:state", draw);
}

export default { render };
