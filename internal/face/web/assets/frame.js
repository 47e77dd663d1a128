// Opens the portal by the code of a link. On a page of its own the session is a cookie from then on.
// In a frame there is none: this script has the pass in memory and loads each page with it.
(() => {
  "use strict";
  const box = document.getElementById("open"), framed = parent !== window;
  if (!box) return;
  const code = location.hash.slice(1), base = document.documentElement.dataset.base || "", home = base + "/portal/";
  history.replaceState(null, "", location.pathname + location.search);
  const tell = message => { if (framed) parent.postMessage(message, "*"); }; // nothing in it is secret
  const say = (title, next) => {
    const h = document.createElement("h1"), p = document.createElement("p");
    h.className = "answer"; p.className = "next"; h.textContent = title; p.textContent = next;
    (document.getElementById("open") || document.getElementById("main")).replaceChildren(h, p);
  };
  let pass = "", here = "", busy = false, turn = 0, poll = 0;
  const over = (title, reason) => { pass = ""; clearTimeout(poll); say(title, "Ask for a new link where you got this one."); tell({ grapnel: "session-expired", reason }); };

  const ready = () => {
    document.body.classList.add("framed");
    document.querySelectorAll("button[data-copy]").forEach(b => { b.hidden = false; });
    document.querySelectorAll("[data-nojs]").forEach(b => { b.hidden = true; });
  };
  // Of a page that comes again by itself, only news are shown, and none while a person fills something in.
  const news = of => of.innerHTML.replace(/name="once" value="[^"]*"/g, "");
  const touched = of => of.contains(document.activeElement) || [...of.querySelectorAll("input, textarea")].some(e => e.checked !== e.defaultChecked || e.value !== e.defaultValue);
  const show = (html, quiet) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    if (quiet) {
      const now = document.getElementById("live-main"), next = page.getElementById("live-main");
      if (now && next && news(now) !== news(next) && !touched(now)) now.replaceChildren(...next.childNodes);
    } else {
      for (const l of page.querySelectorAll("link[rel=stylesheet]")) if (![...document.styleSheets].some(s => s.href === l.href)) document.head.append(l.cloneNode());
      document.documentElement.dataset.theme = page.documentElement.dataset.theme;
      document.title = page.title;
      document.body.replaceChildren(...page.body.childNodes);
      scrollTo(0, 0);
    }
    ready();
  };
  const later = () => { clearTimeout(poll); poll = setTimeout(() => { if (pass && document.querySelector("[data-live]") && !document.hidden) go(here, null, true); else later(); }, 10000); };
  const go = async (to, body, quiet) => {
    if (busy) return;
    busy = !quiet; // a person does not wait for a page that comes again by itself
    const mine = ++turn;
    try {
      const answer = await fetch(to, { method: body ? "POST" : "GET", body, credentials: "omit", headers: { Authorization: "Bearer " + pass, Accept: "text/html" } });
      if (mine !== turn) return;
      if (answer.status === 401) return over("This session has ended.", "expired");
      if ((answer.headers.get("Content-Type") || "").startsWith("application/json")) {
        const { to: next, notice } = await answer.json();
        busy = false;
        await go(next);
        if (notice) { const p = document.createElement("p"); p.className = "notice"; p.setAttribute("role", "status"); p.textContent = notice; document.getElementById("live-main")?.before(p); }
        return;
      }
      const html = await answer.text();
      if (mine !== turn) return;
      show(html, quiet);
      if (!body) here = to;
    } catch { if (!quiet) say("The server cannot be reached.", "Try again in a moment."); } finally { if (mine === turn) { busy = false; later(); } }
  };
  const inside = url => { const u = new URL(url, location.href); return u.origin === location.origin && u.pathname.startsWith(home) ? u.pathname + u.search : ""; };
  document.addEventListener("click", async e => {
    if (!pass) return;
    const c = e.target.closest("[data-copy]"), a = e.target.closest("a[href]");
    if (c) { try { await navigator.clipboard.writeText(c.dataset.copy); c.textContent = "Copied"; } catch { getSelection().selectAllChildren(c.previousElementSibling || c); } return; }
    const to = a && a.target !== "_top" && !e.ctrlKey && !e.metaKey && inside(a.href);
    if (a && a.getAttribute("href").startsWith("#")) return;
    if (to) { e.preventDefault(); go(to); }
  });
  document.addEventListener("submit", e => {
    if (!pass) return;
    e.preventDefault();
    const form = e.target, by = e.submitter, data = new URLSearchParams(new FormData(form, by));
    if (by?.dataset.sure && !by.dataset.asked) { by.dataset.asked = "1"; by.title = by.dataset.sure; by.textContent = "Sure? " + by.dataset.sure; return; } // frames may not ask by confirm()
    const to = inside(by?.getAttribute("formaction") || form.getAttribute("action") || here);
    if (!to) return;
    if (form.method === "post") return go(to, data);
    go(to.split("?")[0] + "?" + data);
  });

  const start = async () => {
    if (!code) { if (framed) return over("This link does not open the portal.", "no code"); return location.replace(box.dataset.start); }
    let answer, told;
    try {
      answer = await fetch(box.dataset.post, { method: "POST", body: new URLSearchParams(framed ? { code, frame: "1" } : { code }) });
      told = await answer.json();
    } catch { return say("The server cannot be reached.", "Ask for a new link if opening this one again does not help."); }
    if (!answer.ok) return over("This link does not open the portal.", told.problem), say("This link does not open the portal.", told.problem + " Ask for a new one where you got it.");
    if (!framed) return location.replace(told.to);
    pass = told.pass;
    new ResizeObserver(() => tell({ grapnel: "height", height: document.body.scrollHeight })).observe(document.body);
    await go(told.to);
  };
  start();
})();
