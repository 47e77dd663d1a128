// The search box completes words, and the palette finds pages. Both are comboboxes by the WAI-ARIA pattern.
(() => {
  "use strict";
  const $ = (q, of = document) => of.querySelector(q), all = (q, of = document) => [...of.querySelectorAll(q)];
  const base = document.documentElement.dataset.base || "";
  const make = (name, set) => Object.assign(document.createElement(name), set);

  // combobox ties an input to a list of options. find answers with [{label, says, pick}].
  const combobox = (input, name, find) => {
    const list = make("ul", { id: name, className: "options", hidden: true });
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "Suggestions");
    input.setAttribute("role", "combobox");
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-controls", name);
    let options = [], at = -1, turn = 0;
    const open = yes => { list.hidden = !yes; input.setAttribute("aria-expanded", String(yes)); };
    const mark = to => {
      at = to;
      [...list.children].forEach((li, i) => li.setAttribute("aria-selected", String(i === at)));
      if (at < 0) return input.removeAttribute("aria-activedescendant");
      input.setAttribute("aria-activedescendant", list.children[at].id);
      list.children[at].scrollIntoView({ block: "nearest" });
    };
    const show = async () => {
      const mine = ++turn, found = await find(input.value, input.selectionStart ?? input.value.length);
      if (mine !== turn) return;
      const marked = options[at]?.label; // stays marked if it is still offered: Enter or Tab may be on its way
      options = found;
      list.replaceChildren(...found.map((o, i) => {
        const li = make("li", { id: name + "-" + i, textContent: o.label });
        li.setAttribute("role", "option");
        if (o.says) li.append(make("span", { className: "faint", textContent: o.says }));
        li.addEventListener("pointerdown", e => { e.preventDefault(); pick(i); });
        return li;
      }));
      mark(found.findIndex(o => o.label === marked));
      open(found.length > 0 && document.activeElement === input);
    };
    const shut = () => { turn++; open(false); mark(-1); };
    const pick = i => { const o = options[i]; shut(); o.pick(); };
    input.addEventListener("keydown", e => {
      const shown = !list.hidden;
      if (e.key === "ArrowDown" || e.key === "ArrowUp") {
        if (!shown) { show(); } else { const n = options.length; mark(e.key === "ArrowDown" ? (at + 1) % n : (at <= 0 ? n : at) - 1); }
        e.preventDefault();
      } else if (shown && at >= 0 && (e.key === "Enter" || e.key === "Tab")) { pick(at); e.preventDefault(); e.stopPropagation(); }
      else if (shown && e.key === "Escape" && !input.closest("dialog")) { shut(); e.preventDefault(); e.stopPropagation(); } // a dialog closes whole
    });
    input.addEventListener("input", () => show());
    input.addEventListener("blur", shut);
    open(false);
    input.after(list);
    return { show, first: () => options[0] };
  };

  // The word at the cursor is completed; a blank inside quotation marks ends no word.
  const wordAt = (text, end) => {
    let start = 0, quoted = false;
    for (let i = 0; i < end; i++) { if (text[i] === '"') quoted = !quoted; else if (text[i] === " " && !quoted) start = i + 1; }
    return [start, text.slice(start, end)];
  };
  const known = new Map();
  const complete = async (word, of = "word") => {
    if (!known.has(of + word)) {
      const answer = await fetch(base + "/complete?" + of + "=" + encodeURIComponent(word), { headers: { Accept: "application/json" } }).catch(() => null);
      if (!answer?.ok) return [];
      known.set(of + word, await answer.json());
      setTimeout(() => known.delete(of + word), 30000);
    }
    return known.get(of + word);
  };
  let pause, hurry = false;
  const wait = () => hurry || new Promise(done => { clearTimeout(pause); pause = setTimeout(done, 80); });
  const box = $(".search:not([data-plain]) input[name=q]"); // a plain one takes a name, and no conditions
  if (box) {
    combobox(box, "suggestions", async (text, end) => {
      const [, word] = wordAt(text, end);
      await wait();
      return (await complete(word)).filter(s => s.word !== word).map(s => ({ label: s.word, says: s.says, pick: () => {
        // An option is taken for the word as it is now: more of it may have been typed since it was offered.
        const more = s.word.endsWith(":") || s.word.endsWith("…"), now = box.selectionStart ?? box.value.length;
        box.setRangeText(s.word + (more ? "" : " "), wordAt(box.value, now)[0], now, "end");
        if (more) box.dispatchEvent(new Event("input"));
      } }));
    });
  }

  // The palette: pages, things by their names, what was looked at lately, and ids.
  const recents = () => { try { return JSON.parse(sessionStorage.getItem("grapnel-recent")) || []; } catch { return []; } };
  if (/\/[a-z-]+\/[^/]+$/.test(location.pathname) && $("#live-main")) {
    const one = { name: document.title.replace(/ · Grapnel$/, ""), to: location.pathname };
    sessionStorage.setItem("grapnel-recent", JSON.stringify([one, ...recents().filter(r => r.to !== one.to)].slice(0, 8)));
  }
  const go = to => () => { location.href = to; };
  if ($("nav")) {
    const palette = make("dialog", { id: "palette" }), input = make("input", { className: "field", placeholder: "A page, a name, an id, or words to search for", autocomplete: "off", spellcheck: false });
    palette.setAttribute("aria-label", "Go to");
    input.setAttribute("aria-label", "Go to");
    palette.append(input);
    document.body.append(palette);
    const list = combobox(input, "palette-options", async text => {
      const asked = text.trim(), lower = asked.toLowerCase(), found = [];
      const search = base + "/deliveries?q=" + encodeURIComponent(asked);
      if (/^[a-z]{1,5}_[\w-]+$/.test(asked)) found.push({ label: asked, says: "open by its id", pick: go(search) });
      for (const a of all("a[data-go]")) if (a.textContent.trim().toLowerCase().includes(lower)) found.push({ label: a.textContent.trim(), says: "g " + a.dataset.go, pick: go(a.href) });
      if (asked.length > 1) {
        await wait();
        for (const t of await complete(asked, "name")) found.push({ label: t.word, says: t.says, pick: go(t.to) });
      }
      for (const r of recents()) if (r.name.toLowerCase().includes(lower) || r.to.includes(lower)) found.push({ label: r.name, says: "lately", pick: go(r.to) });
      if (asked) found.push({ label: "Search deliveries for " + asked, pick: go(search) });
      return found;
    });
    // Enter means the first option for the text as it is now: it waits for no pause in typing.
    input.addEventListener("keydown", async e => {
      if (e.key !== "Enter" || e.defaultPrevented) return;
      e.preventDefault();
      hurry = true;
      await list.show();
      hurry = false;
      list.first()?.pick();
    });
    document.addEventListener("keydown", e => {
      if (!(e.ctrlKey || e.metaKey) || e.key.toLowerCase() !== "k") return;
      e.preventDefault();
      if (palette.open) return palette.close();
      input.value = "";
      palette.showModal();
      input.focus();
      list.show();
    });
  }
})();
