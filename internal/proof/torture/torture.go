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
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/sign"
)

// Bounds limit a run.
type Bounds struct {
	AckBudget   time.Duration `bound:"5s"`    // for an answer
	Settle      time.Duration `bound:"10s"`   // for an effect after the answer
	Patience    time.Duration `bound:"45s"`   // for a retry to be accepted; longer than common leases
	Hang        time.Duration `bound:"800ms"` // for a handler that is made to hang
	Start       time.Duration `bound:"30s"`   // for a command to listen
	Requests    int           `bound:"3000"`  // to the receiver in all, without those of the probe
	Copies      int           `bound:"20"`    // of one event at once
	Burst       int           `bound:"500"`   // events
	Lanes       int           `bound:"25"`    // keys of a burst, each with one request at a time
	Kills       int           `bound:"5"`     // moments between arrival and answer
	Drip        time.Duration `bound:"30s"`   // for one slow request
	Idle        int           `bound:"200"`   // connections without a request
	ReplayAfter time.Duration `bound:"180h"`  // 7 days and 12 hours: within the window of 8 days
	Large       int64         `bound:"20MiB"`
}

// Options are a receiver and all that can be asked of it.
type Options struct {
	URL      string
	OtherURL string // of a second source; empty: T18 is not judged
	Scheme   Scheme
	Body     string // template of the payload; empty: the scheme's
	Secret   string
	Other    string // secret of the second source; empty: the same
	Probe    Probe  // nil: effects are not seen
	FaultURL string // makes handlers fail; see faultQuery
	ClockURL string // sets the receiver's clock
	Command  []string
	Only     []string // ids of cases; empty: all
	Language string   // of remedies; empty: guessed
	Bounds   Bounds

	// Tell gets each case as it ends, and again if effects that came later change its verdict; may be
	// nil.
	Tell func(*Result)
}

// Result is the outcome of one case.
type Result struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Proves   string        `json:"proves"`
	Verdict  Verdict       `json:"verdict"`
	Reason   string        `json:"reason,omitempty"` // why it is not judged
	Took     time.Duration `json:"took"`
	Findings []Finding     `json:"findings,omitempty"`
	History  History       `json:"history"`
}

// Verdict is the outcome of a case in a word.
type Verdict string

// The verdicts.
const (
	Passed    Verdict = "passed"
	Failing   Verdict = "failed"
	NotJudged Verdict = "not_judged"
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

// shows reports whether the payload has the fields that a case changes.
func (o *Options) shows(fields string) string {
	if o.Body == "" && o.Scheme.New != nil && fields != "" {
		return "it changes the payload; give a template with --body"
	}
	for name := range strings.FieldsSeq(fields) {
		if o.Body != "" && !strings.Contains(o.Body, "{"+name+"}") {
			return "the template of the payload has no {" + name + "}"
		}
	}
	return ""
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

func newSecret() string {
	text, err := sign.NewSecret(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return text
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
