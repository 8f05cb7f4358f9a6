// What the reader sees and does. Every text goes in as text, never as markup.

const at = (id) => document.getElementById(id);
const state = { language: "en", bytes: null, judged: null, notice: null, trust: NOBODY, listed: null };
// An issuer's own page has its keys in it and may ask its server; any other is given a list by the reader, and asks nobody.
const ask = PINNED ? askServer : null;
if (PINNED) state.trust = readTrust(new TextEncoder().encode(JSON.stringify(PINNED)));

const say = (id, values = {}) =>
  (LANGUAGES[state.language].messages[id] ?? LANGUAGES.en.messages[id]).replace(/\{(\w+)\}/g, (_, name) => `\u2068${values[name]}\u2069`);

const listed = (names) => new Intl.ListFormat(LANGUAGES[state.language].locale, { type: "conjunction" }).format(names);

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// An issuer's name from the reader's own list, in the reader's language.
const nameOf = ({ names }) => names[state.language] ?? names.en ?? Object.values(names)[0];

function show() {
  const { direction } = LANGUAGES[state.language];
  document.documentElement.lang = state.language;
  document.documentElement.dir = direction;
  document.title = `${say("page-title")} - Shardwise`;
  for (const element of document.querySelectorAll("[data-say]")) element.textContent = say(element.dataset.say);
  at("language").setAttribute("aria-label", say("page-language-choice"));
  at("listed").textContent = state.listed === null ? "" : say("page-trust-loaded", { count: state.listed });
  const pinned = PINNED && { issuer: nameOf(PINNED.issuers[0]) };
  at("intro").textContent = pinned ? say("page-intro-issuer", pinned) : say("page-intro");
  if (pinned) document.title = `${say("page-title")} - ${pinned.issuer}`;
  at("notice").hidden = !state.notice;
  at("notice").textContent = state.notice ? say(state.notice) : "";
  at("result").hidden = !state.judged;
  if (state.judged) showJudged(state.judged);
}

function showJudged({ verdict, steps, credential, sha256, issuer, endorsers, stranger }) {
  const result = at("result");
  result.dataset.verdict = verdict;
  const names = { issuer: issuer && nameOf(issuer), endorsers: listed(endorsers.map(nameOf)) };
  at("verdict").textContent = say(`verdict-${verdict}`, names);
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
  at("stranger").hidden = !stranger;
  if (stranger) {
    const { domain, fingerprint, address, did } = stranger;
    at("stranger-facts").replaceChildren(
      ...row(say("page-domain"), domain, "holder"),
      ...(fingerprint ? row(say("page-fingerprint"), fingerprint, "code") : []),
      ...row(say("page-issuer-id"), did, "code"),
    );
    at("confirm").textContent = say(fingerprint ? "page-confirm" : "page-confirm-keyless", { domain, address });
  }
  at("signed").hidden = !credential;
  const { facts, details } = credential ? claims(credential, sha256) : { facts: [], details: [] };
  at("facts").replaceChildren(...facts.flat());
  at("details").replaceChildren(...details.flat());
}

function shown(values) {
  const words = { ...values };
  if ("date" in values) words.date = day(values.date);
  if ("issuer" in values) words.issuer = nameOf(values.issuer);
  return words;
}

const day = (text) =>
  new Intl.DateTimeFormat(`${LANGUAGES[state.language].locale}-u-nu-latn`, { dateStyle: "long", timeZone: "UTC" }).format(
    new Date(text.slice(0, 10)),
  );

function claims(credential, sha256) {
  const { facts, details } = isExam(credential) ? examClaims(credential) : unitClaims(credential);
  const achievement = credential.credentialSubject.achievement;
  return {
    facts,
    details: [
      ...details,
      row(say("page-language"), languageName(achievement.inLanguage)),
      row(say("course-version"), achievement.version),
      row(say("page-issuer-id"), credential.issuer.id, "code"),
      row(say("page-id"), credential.id, "code"),
      row(say("page-hash"), sha256, "code"),
    ],
  };
}

function examClaims(credential) {
  const subject = credential.credentialSubject;
  const achievement = subject.achievement;
  const evidence = byName(credential.evidence, "genre", "narrative") ?? new Map();
  const names = byName(achievement.resultDescription, "id", "name") ?? new Map();
  const results = resultsOf(credential) ?? new Map();
  const scored = (id) => {
    const [value, mark] = results.get(id) ?? [];
    if (value === undefined) return "-";
    return mark === undefined ? `${value}%` : say("score-of-mark", { score: `${value}%`, mark: `${mark}%` });
  };
  const part = (kind) => [...results.keys()].filter((id) => id.startsWith(`${achievement.id}:${kind}:`));
  const [holder, other] = subject.identifier.filter((each) => each.identityType === "name");
  const [attempt, most] = (evidence.get("attempt-number") ?? "").split("/");
  const practical = `${achievement.id}:labs`;
  const awarded = credential.awardedDate ?? credential.validFrom;
  return {
    facts: [
      row(say("page-holder"), holder?.identityHash ?? "-", "holder"),
      ...(other ? [row(say("page-holder-other"), other.identityHash, "holder")] : []),
      row(say("page-exam"), achievement.name),
      row(say("awarded-on"), day(awarded)),
      ...(awarded.slice(0, 10) === credential.validFrom.slice(0, 10)
        ? []
        : [row(say("issued-on"), day(credential.validFrom))]),
      row(say("expires-on"), credential.validUntil ? day(credential.validUntil) : say("expires-never")),
      row(say("result-quiz"), scored(`${achievement.id}:quiz`)),
      ...(results.has(practical) ? [row(say("result-labs"), scored(practical))] : []),
      row(say("conditions"), say(evidence.get("supervised") === "yes" ? "conditions-supervised" : "conditions-unsupervised")),
      row(say("attempt"), most ? say("attempt-of", { attempt, attempts: most }) : attempt),
      row(say("items"), say(evidence.get("items") === "public" ? "items-public" : "items-private")),
    ],
    details: [
      ...[...part("objective"), ...part("lab")].map((id) => row(names.get(id) ?? "-", scored(id))),
      ...(evidence.has("replaces") ? [row(say("page-replaces"), evidence.get("replaces"), "code")] : []),
    ],
  };
}

function unitClaims(credential) {
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
    details: objectives.map((id) => row(names.get(id) ?? "-", percent(id))),
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
  if (!state.notice && ask) showWaiting();
  state.judged = state.notice ? null : await verify(bytes, at("email").value, { trust: state.trust, ask });
  show();
  at(state.notice ? "notice" : "verdict").focus();
}

// While the issuer's server is asked.
function showWaiting() {
  at("notice").hidden = false;
  at("notice").textContent = say("page-wait");
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

async function loadTrust(file) {
  if (!file) return;
  try {
    state.trust = readTrust(new Uint8Array(await file.slice(0, RULES.trust_bytes + 1).arrayBuffer()));
    state.listed = state.trust.issuers.size;
    state.notice = null;
  } catch {
    state.trust = NOBODY;
    state.listed = null;
    state.notice = "page-trust-wrong";
    state.judged = null;
  }
  show();
  if (state.bytes && !state.notice) await judge(state.bytes);
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
at("trust").addEventListener("change", () => loadTrust(at("trust").files[0]));
at("own-list").hidden = PINNED !== null;
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
