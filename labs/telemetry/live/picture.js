// Shows a picture that Python draws while ranks run, and says now and then in words what it shows.

const CALM = 1000; // milliseconds between pictures for readers who ask for reduced motion

function render({ model, el }) {
  const setup = model.get("setup");
  const root = document.createElement("section");
  root.className = "shardwise-live";
  root.dir = setup.direction;
  root.lang = setup.language;
  root.setAttribute("aria-label", setup.name);
  const picture = document.createElement("div");
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", setup.name);
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  root.append(picture, status);
  el.append(root);

  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  let asked = false, drawn = -CALM, gone = false, shown = 0;

  function draw() {
    asked = false;
    if (gone || !model.get("picture")) return;
    drawn = performance.now();
    picture.innerHTML = model.get("picture");
    root.dataset.pictures = ++shown;
  }

  function ask() {
    if (asked || gone) return;
    asked = true;
    const wait = calm.matches ? Math.max(0, drawn + CALM - performance.now()) : 0;
    if (wait) setTimeout(() => requestAnimationFrame(draw), wait);
    else requestAnimationFrame(draw);
  }

  function tell() {
    status.textContent = model.get("status");
  }

  model.on("change:picture", ask);
  model.on("change:status", tell);
  ask();
  tell();
  return () => {
    gone = true;
    model.off("change:picture", ask);
    model.off("change:status", tell);
  };
}

export default { render };
