//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// typist types names in chromium, into the palette and into the boxes of lists, and reads from the
// page when the keys were pressed, when the answer was there and when the page could be used.
type typist struct {
	d    *dashboard
	base string
}

// names are typed into these boxes: the palette takes three letters of anything that has a page,
// the box of a list takes the name of what the list has or a key, a type or a customer.
var names = []struct{ path, typed string }{
	{"palette", "rec"}, {"palette", "que"}, {"palette", "sou"}, {"palette", "acm"}, {"palette", "pol"},
	{"/endpoints", "rec"}, {"/endpoints", "999"}, {"/sources", "sou"}, {"/customers", "acm"}, {"/event-types", "ord"},
	{"/deliveries", "key_77"}, {"/deliveries", "rare.one"}, {"/deliveries", "acme"}, {"/events", "key_77"}, {"/dead-letters", "key_77"},
}

// remember keeps when the last key was pressed over the change of the page, and when the first one
// since the last look was.
const remember = `addEventListener("keydown", e => {
	if (e.key === "Enter") sessionStorage.entered = performance.timeOrigin + performance.now()
}, true)`

// times are, in ms since Enter: the first byte asked for, the whole answer, the page ready to use.
// options are the times of the requests for options, each from its key to its answer.
const times = `(() => {
	const nav = performance.getEntriesByType("navigation")[0]
	const since = t => performance.timeOrigin + t - Number(sessionStorage.entered)
	return JSON.stringify({server: nav.responseEnd - nav.requestStart, ready: since(nav.domContentLoadedEventEnd),
		done: !!sessionStorage.entered && document.readyState === "complete" && nav.domContentLoadedEventEnd > 0})
})()`

const options = `JSON.stringify(performance.getEntriesByType("resource").filter(e => e.name.includes("/complete?")).map(e => e.duration))`

type arrival struct {
	Server float64
	Ready  float64
	Done   bool
}

func (t *typist) look(ctx context.Context, out io.Writer) (missed []string, err error) {
	path, err := process.Chromium()
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "grapnel-typing-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(profile) }() // chromium may still write
	ctx, end := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-component-update", true))...)
	defer end()
	ctx, end = chromedp.NewContext(ctx)
	defer end()
	add := chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: remember})
		return err
	})
	if err := chromedp.Do(ctx, add, chromedp.Navigate(t.base+"/login"), chromedp.SendKeys("#key", bearer), chromedp.Submit("#key"),
		chromedp.WaitVisible("nav")); err != nil {
		return nil, fmt.Errorf("signing in: %w", err)
	}
	_, _ = fmt.Fprintf(out, "each name is typed %d times in chromium, then Enter. Times in ms: of the answers to the letters (options), of the\n"+
		"page's answer (answer), and from Enter until the page can be used (ready)\n\n%-24s %26s %26s %26s\n%-24s %s\n", t.d.times, "",
		"options", "answer", "ready", "typed", "     p50      p95      p99      p50      p95      p99      p50      p95      p99")
	for _, name := range names {
		if !strings.Contains(name.path+" "+name.typed, t.d.only) {
			continue
		}
		letters, answered, ready := answers{}, answers{}, answers{}
		for range t.d.times {
			seen, asked, err := t.find(ctx, name.path, name.typed)
			if err != nil {
				return missed, fmt.Errorf("%s in %s: %w", name.typed, name.path, err)
			}
			letters.took = append(letters.took, asked...)
			answered.took = append(answered.took, seen.Server)
			ready.took = append(ready.took, seen.Ready)
		}
		row := fmt.Sprintf("%-24s", name.path+" "+name.typed)
		for i, a := range []*answers{&letters, &answered, &ready} {
			if len(a.took) == 0 { // the box of a list may offer nothing
				row += fmt.Sprintf("%27s", "")
				continue
			}
			slices.Sort(a.took)
			row += fmt.Sprintf(" %8.1f %8.1f %8.1f", a.part(50), a.part(95), a.part(99))
			if ready := i == 2; !ready && a.part(95) > float64(t.d.within.Microseconds())/1000 {
				missed = append(missed, fmt.Sprintf("%s in %s takes %.1f ms at p95, limit %v", name.typed, name.path, a.part(95), t.d.within))
			}
		}
		_, _ = fmt.Fprintln(out, row)
	}
	return missed, nil
}

// find types a name and Enter, and waits until the page that it leads to is there.
func (t *typist) find(ctx context.Context, path, typed string) (seen arrival, asked []float64, err error) {
	ctx, end := context.WithTimeout(ctx, time.Minute)
	defer end()
	from, keys := path, []chromedp.Action[chromedp.Void]{chromedp.KeyEvent("/")}
	if path == "palette" {
		from, keys = "/deliveries", []chromedp.Action[chromedp.Void]{chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(t.base+from), chromedp.WaitReady("h1")); err != nil {
		return seen, nil, err
	}
	for _, letter := range typed {
		keys = append(keys, chromedp.KeyEvent(string(letter)), chromedp.Sleep(150*time.Millisecond)) // as fast as a person types
	}
	if err := chromedp.Do(ctx, keys...); err != nil {
		return seen, nil, err
	}
	if err := t.read(ctx, options, &asked); err != nil {
		return seen, nil, err
	}
	if err := chromedp.Do(ctx, chromedp.KeyEvent(kb.Enter)); err != nil {
		return seen, nil, err
	}
	for {
		if err := t.read(ctx, times, &seen); ctx.Err() != nil {
			return seen, nil, fmt.Errorf("pressing Enter led nowhere: %w", context.Cause(ctx))
		} else if err == nil && seen.Done && seen.Ready > 0 {
			_, err = chromedp.Run(ctx, chromedp.Evaluate[bool](`delete sessionStorage.entered`))
			return seen, asked, err
		}
	}
}

func (t *typist) read(ctx context.Context, expression string, into any) error {
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}
