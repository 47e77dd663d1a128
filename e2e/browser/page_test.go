//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience bounds how long a failing test waits for what a page has to show.
const patience = time.Minute

// tab is a page in a browser context of its own.
type tab struct {
	t     *testing.T
	ctx   context.Context
	base  string // of the server that it looks at
	looks int    // pages that axe-core has looked at
	watch
}

// openTab opens an empty tab, 1440 wide, and watches it until the test ends.
func openTab(t *testing.T, base string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chrome, chromedp.WithNewBrowserContext())
	p := &tab{t: t, ctx: ctx, base: base}
	t.Cleanup(func() {
		p.report(t)
		if t.Failed() {
			p.keep()
		}
		p.hush()
		cancel()
		p.ended.Wait()
	})
	if err := p.attach(ctx, base); err != nil {
		t.Fatalf("cannot open a tab: %v", err)
	}
	p.size(1440, 900)
	return p
}

// do runs actions in the tab, with a deadline.
func (p *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// eval returns the value of an expression in the page. Each %s of it stands for an argument, as
// JavaScript writes it.
func eval[T any](p *tab, expression string, args ...any) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](filled(expression, args), chromedp.EvalAwaitPromise))
}

func filled(expression string, args []any) string {
	if len(args) == 0 {
		return expression
	}
	texts := make([]any, len(args))
	for i, arg := range args {
		text, err := json.Marshal(arg)
		if err != nil {
			panic(err) // the tests' own values
		}
		texts[i] = string(text)
	}
	return fmt.Sprintf(expression, texts...)
}

// value is eval for an expression that has to have a value.
func value[T any](p *tab, expression string, args ...any) T {
	p.t.Helper()
	v, err := eval[T](p, expression, args...)
	if err != nil {
		p.t.Fatalf("%s: %v", filled(expression, args), err)
	}
	return v
}

// until looks at the page until an expression is true in it. A look that meets a page about to be
// left is repeated.
func (p *tab) until(what, expression string, args ...any) {
	p.t.Helper()
	p.within(patience, what, expression, args...)
}

func (p *tab) within(limit time.Duration, what, expression string, args ...any) {
	p.t.Helper()
	var err error
	ok := eventually(p.ctx, limit, func() bool {
		var holds bool
		holds, err = eval[bool](p, "!!("+expression+")", args...)
		return err == nil && holds
	})
	if !ok {
		p.t.Fatalf("%s: not within %v (%v); the page says: %s", what, limit, errors.Join(err, context.Cause(p.ctx)), p.words())
	}
}

// eventually asks until the answer is yes, the time is up or the context ends.
func eventually(ctx context.Context, limit time.Duration, holds func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// words are the visible words of the page.
func (p *tab) words() string {
	text, err := eval[string](p, `location.pathname + location.search + "\n" + document.body.innerText.slice(0, 3000)`)
	if err != nil {
		return err.Error()
	}
	return text
}

// shown is a condition: the page shows a text, in whatever lines.
const shown = `document.body && document.body.innerText.replace(/\s+/g, " ").includes(%s)`

func (p *tab) sees(text string) {
	p.t.Helper()
	p.until("the page shows "+text, shown, text)
}

// has waits for an element.
func (p *tab) has(selector string) {
	p.t.Helper()
	p.until("the page has "+selector, `document.querySelector(%s)`, selector)
}

// text is that of the first element that a selector finds.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return value[string](p, `document.querySelector(%s)?.innerText.replace(/\s+/g, " ").trim() ?? ""`, selector)
}

// visit loads a page.
func (p *tab) visit(path string) {
	p.t.Helper()
	p.do("opening "+path, chromedp.Navigate(p.base+path))
}

// leaves does something that leads to another document, and waits until that one is loaded.
func (p *tab) leaves(act func()) {
	p.t.Helper()
	p.mark()
	act()
	p.until("another page is loaded", `!window.grapnelMark && document.readyState === "complete"`)
}

// mark and same tell whether the document is still the one that it was, so that a change was seen
// without a reload.
func (p *tab) mark() {
	p.t.Helper()
	value[bool](p, `window.grapnelMark = true`)
}

func (p *tab) same() {
	p.t.Helper()
	if !value[bool](p, `!!window.grapnelMark`) {
		p.t.Errorf("%s was loaded again", p.path())
	}
}

func (p *tab) path() string {
	p.t.Helper()
	return value[string](p, `location.pathname + location.search`)
}

// findAt is where an element can be hit: [x, y] of its centre, or null while it is not in sight or
// another element covers it.
const findAt = `(() => {
	const flat = e => (e.innerText || e.getAttribute("aria-label") || "").replace(/\s+/g, " ").trim(), text = %s;
	const e = [...document.querySelectorAll(%s)].find(e => e.getClientRects().length && !e.disabled && flat(e).includes(text));
	if (!e) return null;
	e.scrollIntoView({ block: "center", behavior: "instant" });
	const r = e.getClientRects()[0], x = r.x + r.width / 2, y = r.y + r.height / 2, hit = document.elementFromPoint(x, y);
	return hit && (e.contains(hit) || hit.contains(e)) ? [x, y] : null;
})()`

// at is where the first element is that a selector finds and that has a text.
func (p *tab) at(selector, text string) (x, y float64) {
	p.t.Helper()
	var at []float64
	var err error
	if !eventually(p.ctx, patience, func() bool {
		at, err = eval[[]float64](p, findAt, text, selector)
		return err == nil && len(at) == 2
	}) {
		p.t.Fatalf("nothing to hit: %s with the text %q (%v); the page says: %s", selector, text, err, p.words())
	}
	return at[0], at[1]
}

// click clicks with the mouse at the first element that a selector finds and that has a text.
func (p *tab) click(selector, text string) {
	p.t.Helper()
	x, y := p.at(selector, text)
	p.do("clicking "+selector+" "+text, chromedp.MouseClickXY(x, y))
}

// fill replaces the text of a field.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.click(selector, "")
	value[bool](p, `(document.activeElement.select(), true)`)
	p.press(text)
}

// point moves the mouse onto an element.
func (p *tab) point(selector, text string) (x, y float64) {
	p.t.Helper()
	x, y = p.at(selector, text)
	p.do("pointing at "+selector, chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	return x, y
}

// press presses keys, one after another; see package kb for those without a letter. The text that a
// key types is part of its keydown. A page that prevents the keydown gets no text, as with a real
// keyboard.
func (p *tab) press(keys string, with ...kb.Modifier) {
	p.t.Helper()
	for _, r := range keys {
		all := kb.Encode(r)
		down, up := all[0], all[len(all)-1]
		if len(all) == 3 && len(with) == 0 {
			down.Text, down.UnmodifiedText = all[1].Text, all[1].UnmodifiedText
		}
		for _, m := range with {
			down.Modifiers |= int64(m)
		}
		p.do("pressing "+keys, call(input.DispatchKeyEvent, *down), call(input.DispatchKeyEvent, *up))
	}
}

// signIn signs in with a key, as a person does.
func (p *tab) signIn(key string) {
	p.t.Helper()
	p.visit("/login")
	p.click("input[name=key]", "")
	p.press(key)
	p.leaves(func() { p.press(kb.Enter) })
	p.has("#live-main")
}

// hurry has the pages that are loaded from now on wait a tenth of the time between two attempts to
// reach the server.
func (p *tab) hurry() {
	p.t.Helper()
	const faster = `{ const usual = setTimeout; window.setTimeout = (f, d, ...a) => usual(f, d / 10, ...a); }`
	p.do("hurrying", call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: faster}))
}

// size sets the size of the window.
func (p *tab) size(width, height int64) {
	p.t.Helper()
	p.do("resizing", chromedp.EmulateViewport(width, height))
}

// theme sets what the person's system prefers: light or dark.
func (p *tab) theme(name string) {
	p.t.Helper()
	p.do("theme "+name, call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}))
}

// shoot stores a picture of the whole page.
func (p *tab) shoot(path string) {
	p.t.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatalf("a picture of %s: %v", path, err)
	}
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// keep stores a picture and the HTML of the page of a failed test.
func (p *tab) keep() {
	dir, err := os.MkdirTemp("", "grapnel-"+strings.ReplaceAll(p.t.Name(), "/", "-")+"-")
	if err != nil {
		p.t.Log(err)
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	html, err2 := chromedp.Run(ctx, chromedp.Evaluate[string](`"<!-- " + location.href + " -->\n" + document.documentElement.outerHTML`))
	err3 := os.WriteFile(filepath.Join(dir, "page.png"), picture, 0o644)
	err4 := os.WriteFile(filepath.Join(dir, "page.html"), []byte(html), 0o644)
	p.t.Logf("the page is in %s (%v)", dir, errors.Join(err, err2, err3, err4))
}
