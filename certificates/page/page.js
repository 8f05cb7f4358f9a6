// What the reader sees and does. Every text goes in as text, never as markup.

const at = (id) => document.getElementById(id);
const state = { language: "en", bytes: null, judged: null, notice: null };

const say = (id, values = {}) =>
  (LANGUAGES[state.language].messages[id] ?? LANGUAGES.en.messages[id]).replace(/\{(\w+)\}/g, (_, name) => `\u2068${values[name]}\u2069`);

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function show() {
  const { direction } = LANGUAGES[state.language];
  document.documentElement.lang = state.language;
  document.documentElement.dir = direction;
  document.title = `${say("page-title")} - Shardwise`;
  for (const element of document.querySelectorAll("[data-say]")) element.textContent = say(element.dataset.say);
  at("language").setAttribute("aria-label", say("page-language-choice"));
  at("notice").hidden = !state.notice;
  at("notice").textContent = state.notice ? say(state.notice) : "";
  at("result").hidden = !state.judged;
  if (state.judged) showJudged(state.judged);
}

function showJudged({ verdict, steps, credential, sha256 }) {
  const result = at("result");
  result.dataset.verdict = verdict;
  at("verdict").textContent = say(`verdict-${verdict}`);
  at("meaning").textContent = say(`verdict-${verdict}-meaning`);
  at("steps").replaceChildren(
    ...steps.map((each) => {
      const item = make("li", undefined, { "data-step": each.step, "data-result": each.result, "data-reason": each.reason });
      const sign = { pass: "\u2713", fail: "\u2715", "not-checked": "\u2013" }[each.result];
      item.append(make("span", sign, { class: "sign", "aria-hidden": "true" }));
      const words = make("div");
      const name = make("p", undefined, { class: "name" });
      name.append(make("strong", say(`step-${each.step}`)), make("span", say(`result-${each.result}`), { class: "state" }));
      words.append(name, make("p", say(each.reason, shown(each.values)), { class: "detail" }));
      item.append(words);
      return item;
    }),
  );
  at("signed").hidden = !credential;
  const { facts, details } = credential ? claims(credential, sha256) : { facts: [], details: [] };
  at("facts").replaceChildren(...facts.flat());
  at("details").replaceChildren(...details.flat());
}

const shown = (values) => ("date" in values ? { ...values, date: day(values.date) } : values);

const day = (text) =>
  new Intl.DateTimeFormat(`${LANGUAGES[state.language].locale}-u-nu-latn`, { dateStyle: "long", timeZone: "UTC" }).format(
    new Date(text.slice(0, 10)),
  );

function claims(credential, sha256) {
  const subject = credential.credentialSubject;
  const achievement = subject.achievement;
  const evidence = byName(credential.evidence, "genre", "narrative") ?? new Map();
  const names = byName(achievement.resultDescription, "id", "name") ?? new Map();
  const results = byName(subject.result, "resultDescription", "value") ?? new Map();
  const percent = (id) => (results.has(id) ? `${results.get(id)}%` : "-");
  const objectives = [...results.keys()].filter((id) => id.includes(":objective:"));
  const conditions = evidence.get("supervised") === "yes" ? "conditions-supervised" : "conditions-unsupervised";
  return {
    facts: [
      row(say("page-holder"), subject.identifier.find((each) => each.identityType === "name")?.identityHash ?? "-", "holder"),
      row(say("page-unit"), achievement.name),
      row(say("issued-on"), day(credential.validFrom)),
      row(say("result-mastery"), percent(`${achievement.id}:mastery`)),
      row(say("result-quiz"), percent(`${achievement.id}:quiz`)),
      row(say("exercises-passed"), evidence.get("checks") ?? "-"),
      row(say("conditions"), say(conditions)),
    ],
    details: [
      ...objectives.map((id) => row(names.get(id) ?? "-", percent(id))),
      row(say("page-language"), languageName(achievement.inLanguage)),
      row(say("course-version"), achievement.version),
      row(say("page-issuer-id"), credential.issuer.id, "code"),
      row(say("page-id"), credential.id, "code"),
      row(say("page-hash"), sha256, "code"),
    ],
  };
}

const languageName = (code) => {
  try {
    return new Intl.DisplayNames([state.language], { type: "language" }).of(code);
  } catch {
    return code;
  }
};

function row(label, value, kind = "value") {
  const data = make("dd", undefined, { class: kind });
  data.append(make("bdi", value));
  const term = make("dt");
  term.append(make("bdi", label));
  return [term, data];
}

async function judge(bytes) {
  state.bytes = bytes;
  state.notice = (await knowsEd25519()) ? null : "page-no-ed25519";
  state.judged = state.notice ? null : await verify(bytes, at("email").value);
  show();
  at(state.notice ? "notice" : "verdict").focus();
}

async function knowsEd25519() {
  try {
    await crypto.subtle.importKey("raw", new Uint8Array(32), { name: "Ed25519" }, false, ["verify"]);
    return true;
  } catch {
    return false;
  }
}

async function judgeFile(file) {
  if (!file) return;
  at("chosen").textContent = file.name;
  try {
    await judge(new Uint8Array(await file.slice(0, RULES.file_bytes + 1).arrayBuffer()));
  } catch {
    state.notice = "page-file-unreadable";
    state.judged = null;
    show();
  }
}

async function judgeFragment() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  if (LANGUAGES[fragment.get("lang")]) choose(fragment.get("lang"));
  const compact = fragment.get("c");
  if (!compact) return;
  let token = "";
  try {
    token = await expand(compact);
  } catch {
    token = "?";
  }
  await judge(new TextEncoder().encode(token));
}

function choose(language) {
  state.language = language;
  at("language").value = language;
  show();
}

for (const [code, { name }] of Object.entries(LANGUAGES)) at("language").append(make("option", name, { value: code, lang: code }));
choose(navigator.languages.map((each) => each.split("-")[0]).find((each) => LANGUAGES[each]) ?? "en");
at("page").hidden = false;

at("language").addEventListener("change", () => choose(at("language").value));
at("file").addEventListener("change", () => judgeFile(at("file").files[0]));
at("verify").addEventListener("click", () => judge(new TextEncoder().encode(at("paste").value)));
at("email").addEventListener("change", () => state.bytes && judge(state.bytes));
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  at("drop").classList.add("over");
});
document.addEventListener("dragleave", () => at("drop").classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  at("drop").classList.remove("over");
  judgeFile(event.dataTransfer.files[0]);
});
addEventListener("hashchange", judgeFragment);
judgeFragment();
