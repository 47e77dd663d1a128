// Package receivetest tries a receiver of webhooks in go test: the cases of grapnel torture against
// an http.Handler.
//
//	func TestReceiver(t *testing.T) {
//		receivetest.Run(t, newServer(db), receivetest.Options{
//			Path: "/hooks", Secret: secret,
//			Effects: func(event string) int {
//				return count(t, db, "SELECT count(*) FROM ledger WHERE event = $1", event)
//			},
//		})
//	}
//
// Each case is a subtest. A case fails with the defect, the requests that prove it, and a remedy.
// It is skipped, with the reason, if the options do not show the effects that it judges. The
// requests are real ones over loopback, so slow clients and large bodies are met as they come.
//
// It does not promise that the receiver survives crashes, because a handler in the test's process
// cannot be killed: grapnel torture does that with the receiver's command. docs/torture.md has the
// payload of the events.
package receivetest

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/torture"
)

// Options say how the handler is reached and what can be seen of it. Secret is required; the cases
// about effects need Effects.
type Options struct {
	Path   string // of the handler; empty: /
	Secret string // whsec_…, with which requests are signed as in Standard Webhooks

	// Effects returns how many effects an event had, by its id.
	Effects func(event string) int
	// Key returns the state of an invoice; nil: cases about order are skipped.
	Key func(invoice string) Invoice
	// Fail makes the next handlings of an event fail: "transient" and "permanent" at once, "hang"
	// after the pause; "slow" succeeds after it. Nil: cases about failures are skipped.
	Fail func(event, kind string, times int, pause time.Duration)
	// SetClock sets the receiver's clock, which goes on from there; the zero time is the real clock.
	// Nil: the case about late replays is skipped.
	SetClock func(now time.Time)

	OtherPath   string // of a second source; empty: its case is skipped
	OtherSecret string // empty: Secret

	Only []string // ids of cases, such as T02; empty: all that need no command

	AckBudget time.Duration // for an answer; 0: 5 s
	Settle    time.Duration // for an effect after its answer; 0: 5 s
}

// Invoice is the state of an invoice of the payload. Values that the receiver does not have stay
// empty.
type Invoice struct {
	Effects int    // of all its events
	Version string // the newest one
	Status  string
	Amount  string
}

// Sizes that let a run end in a few seconds.
const (
	burst  = 100
	lanes  = 10
	idle   = 50
	drip   = time.Second
	settle = 5 * time.Second
	wait   = 10 * time.Second // for a retry to be accepted
	orders = "/_receivetest/" // the path of the options' functions, beside the handler
)

// Run runs the cases as subtests of t.
func Run(t *testing.T, h http.Handler, o Options) {
	t.Helper()
	server := httptest.NewServer(o.beside(h))
	defer server.Close()
	options := torture.Options{URL: server.URL + cmp.Or(o.Path, "/"), Scheme: torture.Standard(), Secret: o.Secret, Other: o.OtherSecret, Language: "go",
		Only: o.Only, Bounds: torture.Bounds{Burst: burst, Lanes: lanes, Idle: idle, Drip: drip, Patience: wait, AckBudget: o.AckBudget,
			Settle: cmp.Or(o.Settle, settle)}}
	if o.Effects != nil {
		options.Probe = probe{o}
	}
	if o.Fail != nil {
		options.FaultURL = server.URL + orders + "fail"
	}
	if o.SetClock != nil {
		options.ClockURL = server.URL + orders + "clock"
	}
	if o.OtherPath != "" {
		options.OtherURL = server.URL + o.OtherPath
	}
	report, err := torture.Run(t.Context(), options)
	if err != nil {
		t.Fatalf("receivetest: %v", err)
	}
	for _, r := range report.Results {
		if r.NeedsCommand() && len(o.Only) == 0 {
			continue
		}
		t.Run(r.ID+" "+r.Name, func(t *testing.T) {
			switch r.Verdict {
			case torture.Failing:
				t.Error(r.Line(func(_, text string) string { return text }))
			case torture.NotJudged:
				t.Skip(r.Reason)
			}
		})
	}
}

// beside serves the options' functions beside the handler.
func (o Options) beside(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case orders + "fail":
			times, _ := strconv.Atoi(r.FormValue("times"))
			ms, _ := strconv.Atoi(r.FormValue("ms"))
			o.Fail(r.FormValue("event"), r.FormValue("kind"), times, time.Duration(ms)*time.Millisecond)
		case orders + "clock":
			var now time.Time
			if seconds, _ := strconv.ParseInt(r.FormValue("now"), 10, 64); seconds != 0 {
				now = time.Unix(seconds, 0)
			}
			o.SetClock(now)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// probe reads effects by the options' functions.
type probe struct{ Options }

// Keys implements torture.Probe.
func (p probe) Keys() bool { return p.Key != nil }

// Read implements torture.Probe.
func (p probe) Read(_ context.Context, event, key string) (torture.Reading, error) {
	if key == "" {
		return torture.Reading{Effects: p.Effects(event)}, nil
	}
	i := p.Key(key)
	return torture.Reading{Effects: i.Effects, Version: i.Version, State: i.Status, Amount: i.Amount}, nil
}
