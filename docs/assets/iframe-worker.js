// Search when the documentation is opened as files: browsers refuse to start a Worker from a file:// page.
// This one runs the worker's script in a hidden frame. The search worker looks for the name `IFrameWorker`.
(function () {
  if (location.protocol !== "file:") return;

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><html><body></body></html>");
      inside.document.close();
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script");
          script.src = source;
          script.onload = resolve;
          script.onerror = () => reject(new Error("cannot load " + source));
          inside.document.body.appendChild(script);
        });
      inside.importScripts = (...sources) => sources.reduce((done, each) => done.then(() => load(each)), Promise.resolve());
      this.ready = load(String(url));
      this.inside = inside;
      this.frame = frame;
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
})();
