//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// canary is the function that injected scripts call, and that nothing else calls.
const canary = "grapnelCanary"

// violation is the function by which each document says that its Content-Security-Policy was
// violated. The console says so too, but not in every case.
const violation = "grapnelViolation"

const listening = `addEventListener("securitypolicyviolation", e => ` + violation + `(e.violatedDirective + " " + e.blockedURI + " " + e.sample), true);`

// watch collects what a page must not do.
type watch struct {
	mu       sync.Mutex
	faults   []string
	allowed  []*regexp.Regexp
	requests []string // method and path of all requests so far, of this server

	dialogs chan bool      // the answer to each that opened: yes if it is allowed
	ended   sync.WaitGroup // goroutines that end with the tab
}

// attach begins to watch a tab, before it has opened a page.
func (w *watch) attach(ctx context.Context, base string) error {
	home, err := url.Parse(base)
	if err != nil {
		return err
	}
	dialogs := make(chan bool, 64)
	w.dialogs = dialogs
	if err := chromedp.Listen(ctx, func(ev any) { w.hear(ev, home.Host) }); err != nil {
		return err
	}
	w.ended.Go(func() {
		for yes := range dialogs { // not of the field, which hush sets to nil
			_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: yes}) // fails if the page is left
		}
	})
	return chromedp.Do(ctx,
		call(network.Enable, network.EnableParams{}), call(log.Enable, cdp.Empty{}),
		call(runtime.AddBinding, runtime.AddBindingParams{Name: canary}),
		call(runtime.AddBinding, runtime.AddBindingParams{Name: violation}),
		call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: listening}),
		call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
	)
}

// hush ends the goroutine that answers dialogs.
func (w *watch) hush() {
	w.mu.Lock()
	if w.dialogs != nil {
		close(w.dialogs)
		w.dialogs = nil
	}
	w.mu.Unlock()
}

// hear notes what an event says. It runs in the loop that reads the browser's messages.
func (w *watch) hear(ev any, home string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch ev := ev.(type) {
	case *log.EventEntryAdded:
		if e := ev.Entry; e.Level == log.EntryLevelError || e.Level == log.EntryLevelWarning {
			w.fault("the console says (%s, %s): %s %s", e.Source, e.Level, e.Text, e.URL)
		}
	case *runtime.EventConsoleAPICalled:
		w.fault("console.%s: %s", ev.Type, said(ev.Args))
	case *runtime.EventExceptionThrown:
		d := ev.ExceptionDetails
		text := d.Text
		if d.Exception != nil {
			text += " " + d.Exception.Description
		}
		w.fault("a script failed: %s %s:%d", text, d.URL, d.LineNumber)
	case *runtime.EventBindingCalled:
		if ev.Name == canary {
			w.fault("an injected script ran: %s", ev.Payload)
		} else {
			w.fault("the Content-Security-Policy was violated: %s", ev.Payload)
		}
	case *page.EventJavascriptDialogOpening:
		w.fault("a dialog opened: %s: %s", ev.Type, ev.Message)
		if w.dialogs != nil {
			w.dialogs <- slices.ContainsFunc(w.allowed, func(is *regexp.Regexp) bool { return is.MatchString(ev.Message) })
		}
	case *network.EventRequestWillBeSent:
		to, err := url.Parse(ev.Request.URL)
		switch {
		case err != nil:
			w.fault("a request to %s", ev.Request.URL)
		case to.Scheme == "data" || to.Scheme == "blob":
		case to.Host != home:
			w.fault("a request to another host: %s", ev.Request.URL)
		default:
			w.requests = append(w.requests, ev.Request.Method+" "+to.RequestURI())
		}
	}
}

// fault notes a fault. The caller holds the lock.
func (w *watch) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func said(args []*runtime.RemoteObject) string {
	var words []string
	for _, a := range args {
		var text string
		if json.Unmarshal(a.Value, &text) != nil {
			text = strings.TrimSpace(a.Description + " " + string(a.Value))
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

// allow excuses faults that a test brings about, such as requests to a server that it has stopped.
func (w *watch) allow(pattern string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.allowed = append(w.allowed, regexp.MustCompile(pattern))
}

// said tells whether a fault with a text was noted, allowed or not.
func (w *watch) said(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.faults, func(fault string) bool { return strings.Contains(fault, text) })
}

// times is how often the tab has asked for a path so far.
func (w *watch) times(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, r := range w.requests {
		if r == "GET "+path {
			n++
		}
	}
	return n
}

// take returns the faults so far that are not allowed, and forgets them.
func (w *watch) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.DeleteFunc(w.faults, func(fault string) bool {
		return slices.ContainsFunc(w.allowed, func(r *regexp.Regexp) bool { return r.MatchString(fault) })
	})
	w.faults = nil
	return all
}

// report fails the test for each fault.
func (w *watch) report(t *testing.T) {
	t.Helper()
	for _, fault := range w.take() {
		t.Error(fault)
	}
}
