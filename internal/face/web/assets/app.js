// The dashboard's script: live updates, times, keys, copying. Pages work without it.
(() => {
  "use strict";
  const root = document.documentElement, $ = (q, of = document) => of.querySelector(q), all = (q, of = document) => [...of.querySelectorAll(q)];
  const base = root.dataset.base || "";

  // Times: the text is kept up to date; in words as the server writes it, or as a clock of this place.
  const spoken = s => {
    const two = (d, large, name, small, rest) => { const l = Math.floor(d % large / small); return Math.floor(d / large) + " " + name + (l > 0 ? " " + l + " " + rest : ""); };
    if (s < 60) return Math.floor(s) + " s";
    if (s < 600) return two(s, 60, "min", 1, "s");
    if (s < 3600) return Math.floor(s / 60) + " min";
    if (s < 36000) return two(s, 3600, "h", 60, "min");
    if (s < 172800) return Math.floor(s / 3600) + " h";
    return Math.floor(s / 86400) + " days";
  };
  const roughly = s => s < 60 ? spoken(s) : s < 3600 ? Math.floor(s / 60) + " min" : s < 172800 ? Math.floor(s / 3600) + " h" : spoken(s);
  const relative = at => { const d = (at - Date.now()) / 1000; return Math.abs(d) < 1 ? "now" : d < 0 ? roughly(-d) + " ago" : "in " + spoken(d); };
  const zone = () => root.dataset.times === "utc" ? "UTC" : undefined;
  const own = root.dataset.locale, places = own ? [own, "en-GB"] : ["en-GB"]; // a portal's link may name one
  const format = (at, o) => new Intl.DateTimeFormat(places, { ...(own ? {} : { hour12: false }), timeZone: zone(), ...o }).format(at);
  const clock = at => {
    const day = { day: "numeric", month: "short", year: "numeric" }, time = { hour: "2-digit", minute: "2-digit" };
    if (format(at, day) === format(new Date(), day)) return format(at, { ...time, second: "2-digit" });
    const year = { year: "numeric" }, near = format(at, year) === format(new Date(), year) ? {} : year;
    return Math.abs(at - Date.now()) < 6 * 864e5 ? format(at, { weekday: "short", ...time }).replace(",", "") : format(at, { day: "numeric", month: "short", ...near, ...time }).replace(",", "");
  };
  const write = (e, text) => { if (e.textContent !== text) e.textContent = text; };
  const tell = () => all("time[datetime]").forEach(e => {
    const at = new Date(e.dateTime);
    write(e, "relative" in e.dataset ? relative(at) : clock(at));
    const full = format(at, { dateStyle: "full", timeStyle: "long" });
    if (e.title !== full) e.title = full;
  });

  // Morphing changes only what differs, so that focus, selection and open details survive.
  const id = e => e.nodeType === 1 ? e.getAttribute("id") : null; // a form's own id is hidden by a field of that name
  const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && id(a) === id(b);
  const morph = (from, to) => {
    if (from.nodeType !== 1) { if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue; return; }
    if (from.nodeName === "TIME" && from.dateTime === to.dateTime) return;
    for (const a of [...from.attributes]) if (!to.hasAttribute(a.name) && !(a.name === "open" && "keep" in from.dataset) && !["aria-selected", "class", "hidden"].includes(a.name)) from.removeAttribute(a.name);
    for (const a of to.attributes) if (from.getAttribute(a.name) !== a.value && !(a.name === "hidden" && "js" in from.dataset)) from.setAttribute(a.name, a.value);
    let f = from.firstChild;
    for (const t of [...to.childNodes]) {
      if (f && !same(f, t) && id(t)) { const found = all("#" + CSS.escape(id(t)), from).find(e => e.parentNode === from); if (found) { from.insertBefore(found, f); f = found; } }
      if (f && same(f, t)) {
        const before = t.nodeName === "TR" ? $(".pill", f)?.textContent : null;
        morph(f, t);
        if (before !== null && before !== $(".pill", f)?.textContent) { f.classList.add("changed"); f.addEventListener("animationend", e => e.currentTarget.classList.remove("changed"), { once: true }); }
        f = f.nextSibling;
      } else from.insertBefore(t, f);
    }
    while (f) { const next = f.nextSibling; f.remove(); f = next; }
  };
  const ready = of => { all("[data-js]", of).forEach(e => { e.hidden = false; }); all("[data-nojs]", of).forEach(e => { e.hidden = true; }); };
  // Another tab has chosen another customer for the session: what this one shows is not what its updates would be.
  if (root.dataset.tenant !== undefined) {
    localStorage.setItem("tenant", root.dataset.tenant);
    addEventListener("storage", e => { if (e.key === "tenant" && e.newValue !== root.dataset.tenant && $("#live-main[data-live]")) location.reload(); });
  }
  const main = $("#live-main"), light = $("#live"), aloud = $("#aloud");
  let spoke = 0, aimed = 0, late = 0; // rows stay for 2 s after the pointer has moved over one
  document.addEventListener("pointermove", e => { aimed = e.target.closest("tr[data-row]") ? Date.now() : 0; });
  const show = html => {
    clearTimeout(late);
    if (Date.now() - aimed < 2000) { late = setTimeout(show, 200, html); return; }
    const box = document.createElement("div");
    box.innerHTML = html;
    box.id = main.id;
    for (const a of main.attributes) box.setAttribute(a.name, a.value);
    document.dispatchEvent(new CustomEvent("live", { detail: box })); // lists.js keeps rows back here
    const before = $(".answer", main)?.textContent;
    morph(main, box);
    ready(main);
    tell();
    const now = $(".answer", main)?.textContent;
    document.dispatchEvent(new CustomEvent("drawn"));
    if (now !== before && Date.now() - spoke > 5000) { aloud.textContent = now; spoke = Date.now(); }
  };

  // Live updates: an EventSource while the tab is visible; after two failures the page asks from time to time.
  let source = null, failures = 0, paused = false, poll = 0, lost = false;
  const state = word => { if (light) { light.dataset.state = word; $("span", light).textContent = word; } };
  const busy = () => document.hidden || paused;
  const stop = () => { source?.close(); source = null; clearTimeout(poll); clearTimeout(late); };
  const count = text => { const e = $("[data-count]"); if (e) { write(e, text); e.hidden = !text || text === "0"; } };
  const ask = async () => {
    if (busy()) return;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.redirected || answer.status === 401) return location.reload(); // the session has ended
      if (answer.ok) { const page = new DOMParser().parseFromString(await answer.text(), "text/html"), part = $("#live-main", page); if (part) show(part.innerHTML); count($("[data-count]", page)?.textContent); }
      if (lost) { lost = false; failures = 0; return start(); } // the server is back
      state("polling");
    } catch { lost = true; state("lost"); }
    poll = setTimeout(ask, 15000);
  };
  const start = () => {
    stop();
    if (!main || !("live" in main.dataset) || busy()) return;
    if (failures >= 2) return ask();
    source = new EventSource(location.href);
    source.addEventListener("main", e => { failures = 0; state("live"); show(e.data); });
    source.addEventListener("open", e => count(e.data));
    source.addEventListener("trouble", () => { failures++; stop(); poll = setTimeout(start, 3000); });
    source.onerror = () => { failures++; stop(); state("lost"); poll = setTimeout(start, 2000 * failures); };
  };
  const pause = () => { paused = !paused; stop(); state(paused ? "paused" : "live"); failures = 0; start(); };
  document.addEventListener("visibilitychange", () => document.hidden ? stop() : start());

  // Copying, and how pages look.
  const copy = async (text, button) => {
    try { await navigator.clipboard.writeText(text); } catch {
      const box = document.createElement("textarea");
      box.value = text; document.body.append(box); box.select(); document.execCommand("copy"); box.remove();
    }
    if (button) { const was = button.textContent; button.textContent = "Copied"; setTimeout(() => { button.textContent = was; }, 1500); }
  };
  const look = $("#look");
  const apply = () => {
    const form = new FormData(look);
    root.dataset.theme = form.get("theme"); root.dataset.times = form.get("times");
    tell();
    fetch(look.action, { method: "POST", body: new URLSearchParams(form), headers: { Accept: "application/json" } });
  };
  look?.addEventListener("change", apply);
  const theme = () => {
    const dark = getComputedStyle(root).colorScheme === "dark" || root.dataset.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches;
    const choice = $(`input[name=theme][value=${dark ? "light" : "dark"}]`);
    if (choice) { choice.checked = true; apply(); }
  };

  // Rows and keys.
  const rows = () => all("tr[data-row]"), row = () => rows().findIndex(e => e.ariaSelected);
  const mark = to => {
    const list = rows(), next = list[Math.max(0, Math.min(to, list.length - 1))];
    if (!next) return;
    list[row()]?.removeAttribute("aria-selected");
    next.setAttribute("aria-selected", "true");
    next.scrollIntoView({ block: "nearest" });
  };
  const press = key => { const b = all("button[data-key]").find(e => e.dataset.key === key && e.offsetParent); if (b) b.click(); return !!b; };
  const acts = {
    help: () => $("#keys")?.showModal(), pause,
    all: e => all("input[name=id]").forEach(b => { b.checked = e.checked; }),
  };
  let prefix = 0;
  const keys = {
    "/": () => $(".search input").focus(), "?": acts.help, t: theme, " ": pause, y: () => copy(location.href),
    j: () => mark(row() + 1), k: () => mark(row() - 1), Enter: () => { const a = $("[aria-selected] a"); if (a) a.click(); return !!a; },
    x: () => { const b = $("[aria-selected] input[type=checkbox]"); if (b) b.checked = !b.checked; },
    r: () => press("r"), p: () => press("p"), a: () => press("a"),
  };
  const off = () => localStorage.getItem("grapnel-keys") === "off";
  document.addEventListener("keydown", e => {
    const typing = e.target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, dialog");
    if (typing && e.key === "Escape") e.target.blur();
    if (typing || e.ctrlKey || e.metaKey || e.altKey || off()) return;
    if (e.target.closest("button, a, summary, input") && (e.key === " " || e.key === "Enter")) return;
    if (Date.now() - prefix < 1500) {
      prefix = 0;
      const to = $(`a[data-go="${CSS.escape(e.key)}"]`);
      if (to) { to.click(); return e.preventDefault(); }
    }
    if (e.key === "g") { prefix = Date.now(); return; }
    const act = keys[e.key];
    if (act && act() !== false) e.preventDefault();
  });
  document.addEventListener("click", e => {
    const c = e.target.closest("[data-copy]"), a = e.target.closest("[data-act]");
    if (c) copy(c.dataset.copy, c);
    else if (a) acts[a.dataset.act](a);
    else if (!e.target.closest(".more")) $(".more[open]")?.removeAttribute("open");
  });
  document.addEventListener("submit", e => { const q = e.submitter?.dataset.sure; if (q && !confirm(q)) return e.preventDefault(); const b = e.submitter; setTimeout(() => { if (b) b.disabled = true; }); });
  const nokeys = $("#nokeys");
  if (nokeys) { nokeys.checked = off(); nokeys.addEventListener("change", () => localStorage.setItem("grapnel-keys", nokeys.checked ? "off" : "on")); }

  document.addEventListener("redraw", e => show(e.detail));
  document.addEventListener("ready", e => { ready(e.detail); tell(); });
  ready(document);
  tell();
  setInterval(tell, 1000);
  start();
  $("form[data-once]")?.requestSubmit();
})();
