// Under each figure two buttons that save it: as SVG, and as PNG, which the page draws from the SVG. Words come with the figure.

const INK = "#1f2328", PAPER = "#ffffff", PIXELS = 2;
const LOOK = `.shardwise-saving { display: flex; gap: 0.5em; margin: 0 16px 0.5em; }
.shardwise-saving button { font: inherit; font-size: 12px; color: inherit; background: none; border: 1px solid rgba(128, 128, 128, 0.7); border-radius: 3px; padding: 0.15em 0.7em; cursor: pointer; }
.shardwise-saving button:hover { background: rgba(128, 128, 128, 0.15); }
.shardwise-saving button:focus-visible { outline: 2px solid #0072b2; outline-offset: 2px; }
@media print { .shardwise-saving { display: none; } }`;

/** The figure as a file of its own: with its words for who does not see it; plain on white, or light and dark as its reader's device asks. */
export function fileOf(figure, { plain }) {
  const svg = figure.querySelector("svg").cloneNode(true);
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  svg.removeAttribute("aria-hidden");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", figure.getAttribute("aria-label"));
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.removeAttribute("style");
  const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
  const dark = "@media (prefers-color-scheme: dark) { :root { background: #14171a; color: #e6e6e6; } }";
  style.textContent = `:root { background: ${PAPER}; color: ${INK}; } ${plain ? "" : dark}`;
  svg.prepend(style);
  return { text: new XMLSerializer().serializeToString(svg), width, height };
}

async function pictureOf(figure) {
  const { text, width, height } = fileOf(figure, { plain: true });
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width * PIXELS;
  canvas.height = height * PIXELS;
  const sheet = canvas.getContext("2d");
  sheet.fillStyle = PAPER;
  sheet.fillRect(0, 0, canvas.width, canvas.height);
  sheet.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

async function save(figure, kind) {
  const file =
    kind === "png" ? await pictureOf(figure) : new Blob([fileOf(figure, { plain: false }).text], { type: "image/svg+xml" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = `${figure.dataset.name}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Puts the buttons under a figure that has none. */
export function offer(figure) {
  if (figure.nextElementSibling?.classList.contains("shardwise-saving")) return;
  const line = document.createElement("div");
  line.className = "shardwise-saving";
  line.dir = figure.dir;
  line.lang = figure.lang;
  for (const kind of ["svg", "png"]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = figure.dataset[kind === "svg" ? "saveSvg" : "savePng"];
    button.addEventListener("click", () => save(figure, kind));
    line.append(button);
  }
  figure.after(line);
  if (!document.getElementById("shardwise-saving")) {
    const style = document.createElement("style");
    style.id = "shardwise-saving";
    style.textContent = LOOK;
    document.head.append(style);
  }
}

const FIGURE = "figure[data-save-svg]";

/** Offers it for every figure that is or comes on the page. */
export function watch(page) {
  page.querySelectorAll(FIGURE).forEach(offer);
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) {
      for (const node of addedNodes) {
        if (node.nodeType !== Node.ELEMENT_NODE || node.namespaceURI.endsWith("svg")) continue;
        if (node.matches(FIGURE)) offer(node);
        else node.querySelectorAll(FIGURE).forEach(offer);
      }
    }
  }).observe(page, { childList: true, subtree: true });
}
