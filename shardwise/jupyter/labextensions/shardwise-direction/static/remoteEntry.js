/* A prebuilt JupyterLab extension written by hand: no node, no build.
 * A notebook whose metadata say {"course": {"dir": "rtl"}} gets the class that direction.css speaks of; and the course's
 * figures are offered as files. */
(() => {
  const NAME = 'shardwise-direction';
  const CLASS = 'shardwise-rtl';
  const here = document.currentScript ? document.currentScript.src : '';

  const style = () => {
    if (document.getElementById(NAME) || !here) {
      return;
    }
    const link = document.createElement('link');
    link.id = NAME;
    link.rel = 'stylesheet';
    link.href = here.replace(/remoteEntry\.js/, 'direction.css');
    document.head.appendChild(link);
  };

  const offerFiles = () =>
    here && import(here.replace(/remoteEntry\.js/, 'saving.js')).then(saving => saving.watch(document.body));

  const mark = (panel, model) => {
    const course = model.getMetadata('course') || model.getMetadata('shardwise') || {}; // a lesson, an assignment
    panel.node.classList.toggle(CLASS, course.dir === 'rtl');
    if (course.lang || course.language) {
      panel.node.dataset.courseLang = course.lang || course.language;
    }
  };

  const extension = {
    id: `${NAME}:plugin`,
    description: 'Shows the markdown of a right-to-left notebook from right to left.',
    autoStart: true,
    activate: app => {
      style();
      offerFiles();
      app.docRegistry.addWidgetExtension('Notebook', {
        createNew: (panel, context) => {
          const follow = () => mark(panel, context.model);
          context.ready.then(follow);
          context.model.metadataChanged.connect(follow);
          return {
            isDisposed: false,
            dispose() {
              if (!this.isDisposed) {
                this.isDisposed = true;
                context.model.metadataChanged.disconnect(follow);
              }
            }
          };
        }
      });
    }
  };

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB[NAME] = {
    init: () => {},
    get: module => Promise.resolve(() => (module === './extension' ? { __esModule: true, default: extension } : {}))
  };
})();
