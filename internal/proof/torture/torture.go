// Package torture finds out whether a receiver of webhooks is right: whether each event has exactly
// one effect, whatever a sender, the network, an attacker or a crash does.
//
// Its cases (cases.go) send requests and record histories; a probe reads the effects that the
// receiver counted. The judge (judge.go) compares a history with six invariants and knows nothing
// else, so a finding always has the requests that prove it.
//
// A case that lacks something, such as a probe, is run as far as it goes. What its answers prove
// counts as a finding; if they prove nothing it is not judged, with the reason, and never passed.
//
// Requests and time are bounded by options. A run ends each process that it started. It does not
// promise that a receiver without findings is right: races and crashes are met by chance.
package torture

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// Effects is the sum of the effects that were read; false: none were.
func (r *Result) Effects() (sum int, read bool) {
	for _, e := range r.History.Events {
		n, known := e.effects()
		sum, read = sum+n, read || known
	}
	return sum, read
}

// NeedsCommand reports whether the case kills the receiver.
func (r *Result) NeedsCommand() bool {
	return slices.ContainsFunc(Cases, func(c Case) bool { return c.ID == r.ID && c.needs&command != 0 })
}

// Report is the outcome of a run.
type Report struct {
	URL      string        `json:"url"`
	Scheme   string        `json:"profile"`
	Language string        `json:"language"`
	Started  time.Time     `json:"started_at"`
	Took     time.Duration `json:"took"`
	Passed   int           `json:"passed"`
	Failed   int           `json:"failed"`
	Skipped  int           `json:"not_judged"`
	Requests int           `json:"requests"`
	Grade    string        `json:"grade"` // empty: too little was judged
	Results  []*Result     `json:"results"`
}

// ErrNotJudged says that nothing can be judged, with the reason.
var ErrNotJudged = errors.New("the receiver cannot be judged")

// Plan returns the cases of the options, and how many requests they send at most.
func Plan(o Options) (chosen []Case, requests int, err error) {
	b := bounds.Fill(o.Bounds)
	for _, id := range o.Only {
		if !slices.ContainsFunc(Cases, func(c Case) bool { return c.ID == id }) {
			return nil, 0, fmt.Errorf("%q is no case; cases are %s to %s", id, Cases[0].ID, Cases[len(Cases)-1].ID)
		}
	}
	for _, c := range Cases {
		if len(o.Only) == 0 || slices.Contains(o.Only, c.ID) {
			chosen = append(chosen, c)
			if o.lacks(c.needs&^seen) == "" && o.shows(c.fields) == "" {
				requests += c.requests(b)
			}
		}
	}
	return chosen, min(requests, b.Requests), nil
}

// lacks names the option that a case needs and does not have; empty: none.
func (o *Options) lacks(n need) string {
	switch {
	case n&command != 0 && len(o.Command) == 0:
		return "it kills the receiver; give its command after --"
	case n&fault != 0 && o.FaultURL == "":
		return "it makes the handler fail; give --fault-url"
	case n&clock != 0 && o.ClockURL == "":
		return "it moves the receiver's clock; give --clock-url"
	case n&other != 0 && o.OtherURL == "":
		return "it sends to a second source; give --other-url"
	case n&seen != 0 && o.Probe == nil:
		return "effects cannot be seen; give --probe"
	}
	return ""
}

// Run runs the cases. Its error wraps ErrNotJudged if the receiver refuses a plain event, or the
// probe does not see its effect.
func Run(ctx context.Context, o Options) (*Report, error) {
	cases, _, err := Plan(o)
	if err != nil {
		return nil, err
	}
	o.Bounds = bounds.Fill(o.Bounds)
	r := &runner{Options: o, run: strings.ToLower(rand.Text()[:8]), began: time.Now(), client: newClient(o.Bounds),
		hidden: map[string]bool{}}
	if len(o.Command) > 0 {
		r.receiver = &process{command: o.Command, url: o.URL, within: o.Bounds.Start}
		if err := r.receiver.start(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotJudged, err)
		}
		defer r.receiver.stop()
	}
	if err := r.greet(ctx); err != nil {
		return nil, err
	}
	report := &Report{URL: o.URL, Scheme: o.Scheme.Name, Language: r.Language, Started: r.began}
	var trials []*trial
	for _, c := range cases {
		t := r.try(ctx, c)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		trials = append(trials, t)
		report.Results = append(report.Results, t.result)
		if o.Tell != nil {
			o.Tell(t.result)
		}
	}
	for _, t := range trials { // effects that came after the case ended
		was := t.result.Verdict
		if t.audit(ctx); o.Tell != nil && t.result.Verdict != was {
			o.Tell(t.result)
		}
	}
	report.count()
	report.Requests, report.Took = int(r.sent.Load()), time.Since(r.began)
	return report, context.Cause(ctx)
}

// count sums up the results. A grade needs a probe's view: at least half of the cases judged. A
// lost or doubled effect is worth no more than a C.
func (r *Report) count() {
	lost := false
	for _, one := range r.Results {
		switch one.Verdict {
		case Passed:
			r.Passed++
		case Failing:
			r.Failed++
		case NotJudged:
			r.Skipped++
		}
		for _, f := range one.Findings {
			lost = lost || f.Invariant == I1 || f.Invariant == I2
		}
	}
	judged := r.Passed + r.Failed
	if 2*judged < len(Cases) {
		return
	}
	share := 100 * r.Passed / judged
	switch {
	case r.Failed == 0:
		r.Grade = "A"
	case share >= 90 && !lost:
		r.Grade = "B"
	case share >= 70:
		r.Grade = "C"
	case share >= 50:
		r.Grade = "D"
	default:
		r.Grade = "F"
	}
}

// newClient sends requests as a sender does: no redirects, no proxy, no decompression. Each has a
// connection of its own: a receiver may close one that it has refused a body on, and then a request
// that used it again would seem to have no answer.
func newClient(b Bounds) *http.Client {
	return &http.Client{
		Timeout:       2*b.AckBudget + b.Settle,
		Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// try runs one case and judges its history.
func (r *runner) try(ctx context.Context, c Case) *trial {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t := &trial{runner: r, began: time.Now(), stop: stop, result: &Result{ID: c.ID, Name: c.Name, Proves: c.Proves}}
	t.revive(ctx)
	if t.reason = cmp.Or(r.broken, r.lacks(c.needs&^seen), r.shows(c.fields)); t.reason == "" {
		t.reason = r.lacks(c.needs & seen)
		c.run(ctx, t)
	}
	if err := context.Cause(ctx); err != nil {
		t.unjudged("%v", err)
	}
	t.result.Took = time.Since(t.began)
	t.judge()
	return t
}

// greet sends a plain event, without which nothing can be judged: the receiver has to take it, and
// the probe to see its effect.
func (r *runner) greet(ctx context.Context) error {
	c := Case{ID: "T00", run: func(ctx context.Context, t *trial) {
		t.send(ctx, t.event(plain{}), request{label: "greeting"})
		t.settle(ctx)
	}}
	t := r.try(ctx, c)
	h := &t.result.History
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(h.Requests) == 0 {
		return fmt.Errorf("%w: %s", ErrNotJudged, t.result.Reason)
	}
	first := h.Requests[0]
	r.typical = first.Took
	if r.Language == "" {
		r.Language = language(r.Command, first.server)
	}
	switch {
	case first.Status == 0:
		return fmt.Errorf("%w: %s does not answer: %s", ErrNotJudged, r.URL, first.Error)
	case classOf(first.Status) != Accepted:
		return fmt.Errorf("%w: it answered %d to a plain event; is the secret the receiver's, and --profile its provider?",
			ErrNotJudged, first.Status)
	case t.result.Verdict == NotJudged:
		return fmt.Errorf("%w: %s", ErrNotJudged, t.result.Reason)
	case t.result.Verdict == Failing:
		return fmt.Errorf("%w: the probe does not show one effect of a plain event that was accepted: %s", ErrNotJudged,
			t.result.Findings[0].Shown)
	}
	return nil
}
