// <grapnel-portal src="…"> shows a tenant's portal in a frame: src is the url of a portal link. When
// its session ends it tells the page by the event session-expired; set src to a new link then.
(() => {
  "use strict";
  customElements.define("grapnel-portal", class extends HTMLElement {
    static observedAttributes = ["src"];
    #frame = null;
    #hear = e => {
      if (!this.#frame || e.source !== this.#frame.contentWindow || e.origin !== new URL(this.#frame.src).origin) return;
      const m = e.data && e.data.grapnel;
      if (m === "height" && e.data.height > 0) this.#frame.style.height = Math.min(Math.ceil(e.data.height), 20000) + "px";
      else if (m === "session-expired") this.dispatchEvent(new CustomEvent("session-expired", { bubbles: true, detail: { reason: String(e.data.reason || "") } }));
    };
    connectedCallback() { addEventListener("message", this.#hear); this.#load(); }
    disconnectedCallback() { removeEventListener("message", this.#hear); this.#frame?.remove(); this.#frame = null; }
    attributeChangedCallback() { if (this.isConnected) this.#load(); }
    #load() {
      this.#frame?.remove();
      this.#frame = null;
      const src = this.getAttribute("src");
      if (!src || !/^https?:\/\//.test(src)) return;
      const f = document.createElement("iframe");
      f.src = src;
      f.title = this.getAttribute("title") || "Webhooks";
      f.referrerPolicy = "no-referrer";
      f.allow = "clipboard-write";
      f.style.cssText = "width:100%;border:0;display:block;height:480px;color-scheme:normal";
      this.#frame = f;
      this.append(f);
    }
  });
})();
