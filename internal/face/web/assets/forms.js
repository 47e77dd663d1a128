// Forms to fill in. Everything works without this: it moves the eye to the first fault, and keeps a preview up to date.
(() => {
  "use strict";
  const wrong = document.querySelector("[aria-invalid]");
  if (wrong) { wrong.closest("details")?.setAttribute("open", ""); wrong.focus(); if (wrong.matches("input")) wrong.select(); }
  const form = document.querySelector("form[data-preview]"), shown = document.querySelector("#preview");
  if (!form || !shown) return;
  let wait = 0, latest = 0;
  const ask = async () => {
    const mine = ++latest, body = new URLSearchParams(new FormData(form));
    body.set("preview", "1");
    try {
      const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } });
      const part = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#preview");
      if (part && mine === latest) shown.replaceChildren(...part.childNodes);
    } catch { /* the button asks again */ }
  };
  form.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(ask, 600); });
})();
