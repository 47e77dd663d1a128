// The API reference: a search in the menu, and requests that can be tried. Pages work without it.
(() => {
  "use strict";
  const $ = (q, of = document) => of.querySelector(q), all = (q, of = document) => [...of.querySelectorAll(q)];
  const menu = $(".menu"), find = $("#find"), links = all("a", menu);
  if (matchMedia("(max-width: 860px)").matches) menu.open = false;
  const text = a => (a.textContent + " " + (a.dataset.find || "")).toLowerCase();
  const look = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) menu.open = true;
    for (const a of links) a.hidden = words.length > 0 && !words.every(w => text(a).includes(w));
    for (const ul of all("ul", menu)) ul.classList.toggle("found", words.length > 0 && all("a", ul).some(a => !a.hidden));
    for (const h of all(".head", menu)) h.hidden = words.length > 0;
    $("#nothing").hidden = links.some(a => !a.hidden);
  };
  find.addEventListener("input", look);
  find.addEventListener("keydown", e => {
    if (e.key === "Escape") { find.value = ""; look(); }
    if (e.key === "Enter") links.find(a => !a.hidden)?.click();
  });
  document.addEventListener("submit", async e => {
    const form = e.target, box = $("pre", form);
    if (!("try" in form.dataset)) return;
    e.preventDefault();
    box.hidden = false;
    box.textContent = "…";
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    try {
      const answer = await fetch(form.getAttribute("action") + "?" + query, { headers: { Accept: "application/json" } }), body = await answer.text();
      let shown = body;
      try { shown = JSON.stringify(JSON.parse(body), null, 2); } catch { shown = answer.statusText; }
      box.textContent = answer.status + "\n" + shown;
    } catch { box.textContent = "The server cannot be reached."; }
    $("button", form).disabled = false;
  });
})();
