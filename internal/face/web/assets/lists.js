// Lists: rows that wait, selection, the time selector, a row's side panel, own views.
(() => {
  "use strict";
  const $ = (q, of = document) => of.querySelector(q), all = (q, of = document) => [...of.querySelectorAll(q)];
  const base = document.documentElement.dataset.base || "";
  const make = (name, set, ...inside) => { const e = Object.assign(document.createElement(name), set); e.append(...inside); return e; };
  const main = $("#live-main");
  if (!main) return;
  const body = (of = main) => $("table.list tbody", of);

  // New rows wait while somebody is at the list: a row never moves under the pointer or the focus.
  const fresh = make("button", { id: "newrows", className: "btn newrows", hidden: true, type: "button" });
  main.before(fresh);
  let held = null, through = false;
  const atList = () => { const b = body(); return b && (b.matches(":hover") || b.contains(document.activeElement) || scrollY > b.closest("table").offsetTop); };
  const release = () => { if (held === null) return; const html = held; held = null; fresh.hidden = through = true; document.dispatchEvent(new CustomEvent("redraw", { detail: html })); through = false; };
  document.addEventListener("live", e => {
    const now = body(), next = body(e.detail);
    held = null; fresh.hidden = true;
    if (!now || !next || through || !atList()) return;
    const known = new Set([...now.rows].map(r => r.id)), n = [...next.rows].filter(r => r.id && !known.has(r.id)).length;
    if (!n) return;
    held = e.detail.innerHTML;
    next.replaceChildren(...[...now.rows].map(r => [...next.rows].find(t => t.id === r.id) || r.cloneNode(true)));
    const was = $(".answer", main), is = $(".answer", e.detail);
    if (was && is) is.replaceWith(was.cloneNode(true)); // a longer sentence would move the rows
    fresh.textContent = n + " new";
    fresh.hidden = false;
  });
  fresh.addEventListener("click", () => { scrollTo({ top: 0 }); release(); });
  main.addEventListener("pointerout", e => { if (e.target.closest("tbody") && !e.relatedTarget?.closest?.("tbody")) setTimeout(() => { if (!atList()) release(); }, 300); });

  // Selection: how many rows are ticked, and all that match.
  const count = () => {
    const bar = $("#bulkbar"), text = $("#bulkcount"), n = all("tbody input[name=id]:checked").length, whole = $("#bulkall")?.checked;
    if (!bar) return;
    bar.classList.toggle("on", n > 0 || !!whole);
    const says = whole ? "all that match" : n ? n + " selected" : "none selected";
    if (text && text.textContent !== says) text.textContent = says;
  };
  document.addEventListener("change", count);
  document.addEventListener("keyup", count);
  document.addEventListener("drawn", () => { count(); views(); });
  document.addEventListener("click", e => {
    const two = e.target.closest("[data-two]");
    if (!two) return setTimeout(count);
    const ids = all("tbody input[name=id]:checked").map(b => b.value);
    if (ids.length === 2) location.href = two.dataset.two + ids[0] + "/compare?with=" + ids[1];
    else $("#aloud").textContent = two.title = "Select two rows to compare.";
  });

  // The time selector: a drag, or shift and an arrow, takes several columns; one column is a link.
  let from = -1, to = -1, moved = false;
  const columns = () => all("#histogram svg a");
  const paint = () => columns().forEach((a, i) => $(".hit", a).classList.toggle("brush", from >= 0 && i >= Math.min(from, to) && i <= Math.max(from, to)));
  const choose = () => {
    const of = $("#histogram").dataset, step = of.step * 1000, first = Date.parse(of.from);
    const at = i => new Date(first + i * step).toISOString().replace(".000", "");
    const q = (of.search + " from:" + at(Math.min(from, to)) + " to:" + at(Math.max(from, to) + 1)).trim();
    location.href = location.pathname + "?q=" + encodeURIComponent(q);
  };
  const column = e => { const s = $("#histogram svg"), r = s.getBoundingClientRect(), n = columns().length; return Math.max(0, Math.min(n - 1, Math.floor((e.clientX - r.left) / r.width * n))); };
  main.addEventListener("pointerdown", e => { if (e.button === 0 && e.target.closest("#histogram svg")) { from = to = column(e); moved = false; } });
  document.addEventListener("pointermove", e => { if (from < 0 || !e.buttons) return; to = column(e); if (to !== from) moved = true; paint(); });
  document.addEventListener("pointerup", () => { if (from >= 0 && moved) choose(); else { from = to = -1; paint(); } });
  document.addEventListener("pointercancel", () => { from = to = -1; paint(); });
  main.addEventListener("dragstart", e => { if (e.target.closest("#histogram svg")) e.preventDefault(); });
  main.addEventListener("click", e => { if (moved && e.target.closest("#histogram svg")) e.preventDefault(); }, true);
  main.addEventListener("keydown", e => {
    const list = columns(), here = list.indexOf(e.target.closest("a"));
    if (here < 0 || !e.target.closest("#histogram svg")) return;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (by) {
      const next = Math.max(0, Math.min(list.length - 1, here + by));
      if (e.shiftKey) { if (from < 0) from = here; to = next; } else from = to = -1;
      list[next].focus(); paint(); e.preventDefault(); e.stopPropagation();
    } else if (e.key === "Enter" && from >= 0 && to !== from) { choose(); e.preventDefault(); }
    else if (e.key === "Escape") { from = to = -1; paint(); }
  });

  // The side panel shows the page of a row. Its state is the fragment of the address.
  const panel = make("aside", { id: "peek", hidden: true, tabIndex: -1 });
  panel.setAttribute("aria-label", "The selected row");
  document.body.append(panel);
  let peeked = null;
  const rowOf = id => id ? document.getElementById(id)?.closest?.("tr[data-row]") : null;
  const current = () => $("tr[data-row][aria-selected=true]");
  const close = () => { if (panel.hidden) return; panel.hidden = true; peeked = null; history.replaceState(null, "", location.pathname + location.search); $("td.what a", current() || main)?.focus({ preventScroll: true }); };
  const peek = async (row, keep) => {
    const a = row && $("td.what a", row);
    if (!a) return;
    peeked = row.id;
    const answer = await fetch(a.href, { headers: { Accept: "text/html" } }).catch(() => null);
    if (!answer?.ok) { location.href = a.href; return; }
    const part = $("#live-main", new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (!part || peeked !== row.id) return;
    all("[id]", part).forEach(e => e.removeAttribute("id"));
    all("[data-key]", part).forEach(e => e.removeAttribute("data-key"));
    all("input[name=back]", part).forEach(e => { e.value = location.pathname.slice(base.length) + location.search; });
    const shut = make("button", { className: "btn", type: "button", textContent: "Close" });
    shut.addEventListener("click", close);
    panel.replaceChildren(make("div", { className: "acts" }, make("a", { className: "btn", href: a.href, textContent: "Open the whole page" }), shut), ...part.childNodes);
    document.dispatchEvent(new CustomEvent("ready", { detail: panel }));
    panel.hidden = false;
    panel.scrollTop = 0;
    if (row.id) history.replaceState(null, "", "#" + row.id);
    if (!keep) panel.focus({ preventScroll: true });
  };
  document.addEventListener("keydown", e => {
    if (e.key === "Escape" && !panel.hidden && !e.target.closest("dialog")) { close(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey || e.shiftKey || localStorage.getItem("grapnel-keys") === "off") return;
    if (e.target.closest("input, textarea, select, dialog, #histogram") || (e.key === "Enter" && e.target.closest("button, a, summary"))) return;
    const row = current();
    if (row?.id && body() && e.key === "Enter") { peek(row); e.preventDefault(); e.stopPropagation(); }
    else if (row && e.key === "ArrowRight") { location.href = $("td.what a", row).href; e.preventDefault(); }
    else if (!panel.hidden && (e.key === "j" || e.key === "k")) setTimeout(() => peek(current(), true));
  }, true);
  const asked = rowOf(decodeURIComponent(location.hash.slice(1)));
  if (asked && body()?.contains(asked)) { asked.setAttribute("aria-selected", "true"); peek(asked, true); }

  // Own views stay in this browser. They are addresses, so they can be sent as links too.
  const store = "grapnel-views";
  const saved = () => { try { return JSON.parse(localStorage.getItem(store)) || []; } catch { return []; } };
  const keep = list => localStorage.setItem(store, JSON.stringify(list.slice(0, 50)));
  const field = make("input", { className: "field", maxLength: 40, required: true, autocomplete: "off" });
  field.setAttribute("aria-label", "Name of the view");
  const ask = make("dialog", { id: "saveview" }, make("h2", { textContent: "Save this view" }), make("p", { className: "soft", textContent: "It is kept in this browser." }));
  const form = make("form", { method: "dialog", className: "joined" }, field, make("button", { className: "btn go", textContent: "Save" }));
  ask.append(form); document.body.append(ask);
  form.addEventListener("submit", () => { keep([...saved().filter(v => v.name !== field.value || v.path !== location.pathname), { name: field.value, path: location.pathname, search: location.search }]); field.value = ""; views(); });
  const views = () => {
    const at = $("#ownviews");
    if (!at) return;
    const own = saved().filter(v => v.path === location.pathname);
    at.replaceChildren(...own.flatMap(v => {
      const link = make("a", { href: location.pathname + v.search, textContent: v.name }), drop = make("button", { type: "button", className: "plain faint", textContent: "×" });
      if (v.search === location.search) link.setAttribute("aria-current", "true");
      drop.setAttribute("aria-label", "Forget the view " + v.name);
      drop.addEventListener("click", () => { keep(saved().filter(o => o.name !== v.name || o.path !== v.path)); views(); });
      return [link, drop];
    }));
    if (new URLSearchParams(location.search).get("q")) {
      const save = make("button", { type: "button", className: "plain", textContent: "Save this view" });
      save.addEventListener("click", () => ask.showModal());
      at.append(save);
    }
    at.hidden = !at.childNodes.length;
  };
  views();
  count();
})();
