/* Search, theme, and the same place in another language. Nothing is asked of a server; without this script every page
   can be read all the same. */
"use strict";

const at = (selector) => document.querySelector(selector);
const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* a browser that keeps nothing */ } };

// --- theme: what the system says, until the reader says otherwise

const theme = at(".theme");
if (theme) {
  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const show = () => { theme.textContent = dark() ? theme.dataset.light : theme.dataset.dark; };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    keep("shardwise-theme", document.documentElement.dataset.theme);
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

// --- languages: anchors are the same in all, so the last one above the reader's eyes is the place

function place() {
  const seen = [...document.querySelectorAll("article [id^='cell-'], article :is(h2, h3)[id]")];
  const above = seen.filter((each) => each.getBoundingClientRect().top < 160);
  return scrollY > 40 && above.length ? `#${above.at(-1).id}` : "";
}

for (const link of document.querySelectorAll(".languages a")) {
  link.addEventListener("click", () => {
    keep("shardwise-language", link.hreflang);
    link.hash = location.pathname.endsWith("search.html") ? "" : place();
    if (location.pathname.endsWith("search.html")) link.search = location.search;
  });
}

// --- narrow windows: the list of units starts folded; what is wider than the page can be scrolled by keyboard

if (matchMedia("(max-width: 62rem)").matches) at(".units details")?.removeAttribute("open");
if (matchMedia("(max-width: 88rem)").matches) at(".contents details")?.removeAttribute("open");

function reachable() {
  for (const each of document.querySelectorAll("main pre, main .scroll, main .output, main figure, main math")) {
    if (each.scrollWidth > each.clientWidth + 1) each.tabIndex = 0;
    else if (each.getAttribute("tabindex") === "0") each.removeAttribute("tabindex");
  }
}
reachable();
addEventListener("resize", reachable);

// --- paper: what is folded up is printed open

let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("main details:not([open], .source, figure + details)")];
  for (const each of folded) each.open = true;
});
addEventListener("afterprint", () => {
  for (const each of folded) each.open = false;
});

// --- search

/* A word as it is compared: without case, marks, and the Arabic letters that are written in several ways. */
function bare(word) {
  return word.normalize("NFKD")
    .replace(/[\p{M}\u0640\u200c-\u200f\u202a-\u202e\u2066-\u2069]/gu, "")
    .toLowerCase()
    .replace(/[\u0622\u0623\u0625\u0671]/g, "\u0627")
    .replace(/[\u0649\u0626]/g, "\u064a")
    .replace(/\u0624/g, "\u0648")
    .replace(/\u0629/g, "\u0647")
    .replace(/\u0621/g, "")
    .replace(/[\u0660-\u0669]/g, (digit) => String(digit.charCodeAt(0) - 0x0660))
    .replace(/ß/g, "ss").replace(/ø/g, "o").replace(/æ/g, "ae");
}

/* An Arabic word without the article and the small words written with it. */
const stem = (word) => (/^[\u0621-\u064a]+$/.test(word) ? word.replace(/^(?:[\u0648\u0641]?(?:[\u0628\u0643]?\u0627\u0644|\u0644\u0644))(?=.{3})/, "") : word);

const WORD = /[\p{L}\p{N}\p{M}\u0640\u200c-\u200f]+/gu;

/* The words of a text with where each stands. */
const words = (text) => [...text.matchAll(WORD)].map((found) => ({ word: stem(bare(found[0])), from: found.index, to: found.index + found[0].length }));

/* How well a word answers what was asked: the whole word, its beginning, or a part of a longer one. */
function fits(word, asked) {
  if (word === asked) return 4;
  if (word.startsWith(asked)) return 2;
  if (asked.endsWith("\u0647") && word.startsWith(`${asked.slice(0, -1)}\u062a`)) return 2;
  return asked.length > 3 && word.includes(asked) ? 1 : 0;
}

/* The sections that hold every word asked for, the best first, with the places of the words. */
function search(sections, question) {
  const asked = words(question).map((each) => each.word).filter(Boolean);
  if (!asked.length) return [];
  const found = [];
  for (const section of sections) {
    let score = 0;
    const marks = [];
    for (const one of asked) {
      const inTitle = Math.max(0, ...section.titleWords.map(({ word }) => fits(word, one)));
      const inUnit = Math.max(0, ...section.unitWords.map(({ word }) => fits(word, one)));
      const inText = section.textWords.filter(({ word }) => fits(word, one));
      if (!inTitle && !inUnit && !inText.length) { score = 0; break; }
      score += 6 * inTitle + inUnit + Math.max(0, ...inText.map(({ word }) => fits(word, one))) + Math.log2(1 + inText.length);
      marks.push(...inText);
    }
    if (score) found.push({ ...section, score, marks: marks.sort((a, b) => a.from - b.from) });
  }
  return found.sort((a, b) => b.score - a.score);
}

/* A piece of the text around the first word found, each found word marked. */
function excerpt(section) {
  const piece = document.createElement("p");
  const first = section.marks[0]?.from ?? 0;
  const start = first < 90 ? 0 : section.text.lastIndexOf(" ", first - 60) + 1;
  const space = section.text.indexOf(" ", start + 240);
  const end = space < 0 ? section.text.length : space;
  let here = start;
  if (start) piece.append("… ");
  for (const { from, to } of section.marks) {
    if (from < here || to > end) continue;
    const mark = document.createElement("mark");
    mark.textContent = section.text.slice(from, to);
    piece.append(section.text.slice(here, from), mark);
    here = to;
  }
  piece.append(section.text.slice(here, end), end < section.text.length ? " …" : "");
  return piece;
}

const status = at("#found");
if (status) {
  const field = at(".find input");
  const results = at("#results");
  const isTop = window === window.top;
  let sections = null;

  const show = () => {
    const question = field.value.trim();
    const found = sections && question ? search(sections, question) : [];
    status.textContent = !question ? status.dataset.hint : found.length ? status.dataset.some.replace("%", found.length) : sections ? status.dataset.none : "";
    results.replaceChildren(...found.slice(0, 40).map((section) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = `${section.page}.html${section.anchor ? `#${section.anchor}` : ""}`;
      link.textContent = section.title;
      const where = document.createElement("span");
      where.className = "quiet";
      where.textContent = section.unit === section.title ? "" : section.unit;
      item.append(link, " ", where, excerpt(section));
      return item;
    }));
  };

  const script = document.createElement("script");
  script.src = status.dataset.words;
  script.addEventListener("load", () => {
    sections = window.shardwiseWords.map(([page, unit, anchor, title, text]) => ({
      page, unit, anchor, title, text, titleWords: words(title), unitWords: words(unit), textWords: words(text),
    }));
    show();
  });
  document.head.append(script);

  field.value = new URLSearchParams(location.search).get("q") ?? "";
  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (isTop) try { history.replaceState(null, "", `?${new URLSearchParams({ q: field.value })}`); } catch { /* a page from a disk in a browser that refuses */ }
      show();
    }, 120);
  });
  field.form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
  if (!field.value) field.focus();
  show();
}
