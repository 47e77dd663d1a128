package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

// receiver is a small receiver in memory. Without mistakes it is right.
type receiver struct {
	mistake string
	secret  string
	tiny    *httptest.Server

	file   string // of what must survive a crash; empty: nothing does
	mu     sync.Mutex
	seen   map[string]bool // source and id
	busy   map[string]bool
	effect map[string]int // by id, and by key
	rows   map[string]row // by key
	faults map[string]*failures
	offset time.Duration
}

type row struct {
	version        int
	status, amount string
	at, by         string
}

type failures struct {
	kind  string
	times int
	wait  time.Duration
}

type payload struct {
	Type string
	Data struct {
		Invoice  string
		Amount   json.Number
		Version  int
		Status   string
		Occurred string `json:"occurred_at"`
	}
}

func newReceiver(t *testing.T, mistake string) *receiver {
	t.Helper()
	r := receiverOf(mistake, newSecret())
	r.tiny = httptest.NewServer(r.routes())
	t.Cleanup(r.tiny.Close)
	return r
}

func receiverOf(mistake, secret string) *receiver {
	return &receiver{mistake: mistake, secret: secret, seen: map[string]bool{}, busy: map[string]bool{}, effect: map[string]int{},
		rows: map[string]row{}, faults: map[string]*failures{}}
}

func (r *receiver) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks", func(w http.ResponseWriter, q *http.Request) { w.WriteHeader(r.take("acme", q)) })
	mux.HandleFunc("POST /other", func(w http.ResponseWriter, q *http.Request) { w.WriteHeader(r.take("other", q)) })
	mux.HandleFunc("GET /_probe", r.probe)
	mux.HandleFunc("POST /_fault", r.fault)
	mux.HandleFunc("POST /_clock", func(_ http.ResponseWriter, q *http.Request) {
		now, _ := strconv.ParseInt(q.FormValue("now"), 10, 64)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.offset = 0; now != 0 {
			r.offset = time.Until(time.Unix(now, 0))
		}
	})
	return mux
}

func (r *receiver) options() Options {
	return Options{URL: r.tiny.URL + "/hooks", OtherURL: r.tiny.URL + "/other", Scheme: Standard(), Secret: r.secret,
		Probe: HTTPProbe{URL: r.tiny.URL + "/_probe"}, FaultURL: r.tiny.URL + "/_fault", ClockURL: r.tiny.URL + "/_clock",
		Bounds: Bounds{AckBudget: 2 * time.Second, Burst: 50, Lanes: 5, Drip: 300 * time.Millisecond,
			Idle: 20, Large: 4 << 20, Settle: 300 * time.Millisecond,
			Patience: time.Second}}
}

func (r *receiver) is(mistake string) bool { return r.mistake == mistake }

// take is the handler; it returns the status.
func (r *receiver) take(source string, q *http.Request) int {
	limit := int64(2 << 20)
	if r.is("no limit") {
		limit = 1 << 30
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, q.Body, limit))
	if err != nil {
		return 413
	}
	id := q.Header.Get("Webhook-Id")
	key := source + " " + id
	if r.is("ids without source") {
		key = id
	}
	if r.is("key before signature") && r.known(key) {
		return 200
	}
	tolerance := time.Duration(0)
	if r.is("no tolerance") {
		tolerance = 100 * time.Hour
	}
	v, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{r.secret}, Tolerance: tolerance, Now: func() time.Time {
		r.mu.Lock()
		defer r.mu.Unlock()
		return time.Now().Add(r.offset)
	}})
	if err != nil {
		panic(err)
	}
	_, err = v.Verify(q.Header, body)
	switch {
	case err == nil, r.is("no verification"):
	case errors.Is(err, sign.ErrTooOld), errors.Is(err, sign.ErrTooNew):
		return 400
	default:
		return 401
	}
	switch {
	case r.is("key before signature"):
		return r.work(key, id, body)
	case r.is("no dedupe"):
		return r.work("", id, body)
	case r.is("check, then act"):
		r.mu.Lock()
		known := r.seen[key]
		r.mu.Unlock()
		if known {
			return 200
		}
		<-time.After(20 * time.Millisecond) // for the others to pass the check
		return r.work(key, id, body)
	}
	r.mu.Lock()
	known, busy := r.seen[key], r.busy[key]
	r.busy[key] = true
	if r.is("record before work") {
		r.seen[key] = true
		r.save()
	}
	r.mu.Unlock()
	switch {
	case known:
		return 200
	case busy:
		return 503
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, key)
	}()
	if r.is("answer before work") {
		go r.work(key, id, body)
		return 200
	}
	return r.work(key, id, body)
}

// known records a key and reports whether it was known.
func (r *receiver) known(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.seen[key]
	r.seen[key] = true
	return known
}

func (r *receiver) work(key, id string, body []byte) int {
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		if r.is("5xx for garbage") {
			return 500
		}
		return 422
	}
	r.mu.Lock()
	f := r.faults[id]
	failing := f != nil && f.times > 0
	if failing {
		f.times--
	}
	r.mu.Unlock()
	if failing {
		<-time.After(f.wait)
		switch f.kind {
		case "permanent":
			return 422
		case "transient", "hang":
			return 503
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.save()
	if !r.apply(id, p) {
		r.seen[key] = true
		return 200
	}
	r.seen[key] = true
	r.effect[id]++
	r.effect[p.Data.Invoice]++
	return 200
}

var edges = map[string][]string{"": {"draft"}, "draft": {"open"}, "open": {"paid", "void"}, "paid": {"refunded"}}

// apply changes the row of a key; false: the event is stale.
func (r *receiver) apply(id string, p payload) bool {
	was, there := r.rows[p.Data.Invoice]
	now := was
	switch d := p.Data; {
	case d.Version > 0 && d.Version <= was.version && !r.is("no gate"), r.is("update alone") && d.Version > 1 && !there:
		return false
	case d.Status != "" && !slices.Contains(edges[was.status], d.Status) && !r.is("no gate"):
		return false
	case d.Occurred != "" && d.Occurred <= was.at && (r.is("timestamps alone") || d.Occurred < was.at || id <= was.by):
		return false
	}
	now.version, now.status = max(p.Data.Version, was.version), p.Data.Status
	if r.is("no gate") {
		now.version = p.Data.Version
	}
	now.amount, now.at, now.by = p.Data.Amount.String(), p.Data.Occurred, id
	if r.is("lossy numbers") {
		f, _ := p.Data.Amount.Float64()
		now.amount = fmt.Sprintf("%.0f", f)
	}
	r.rows[p.Data.Invoice] = now
	return true
}

func (r *receiver) probe(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if event := q.FormValue("event"); event != "" {
		_, _ = fmt.Fprint(w, r.effect[event])
		return
	}
	one := r.rows[q.FormValue("key")]
	_ = json.NewEncoder(w).Encode(map[string]any{"effects": r.effect[q.FormValue("key")], "version": one.version, "state": one.status,
		"amount": one.amount})
}

func (r *receiver) fault(_ http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	times, _ := strconv.Atoi(q.FormValue("times"))
	ms, _ := strconv.Atoi(q.FormValue("ms"))
	r.faults[q.FormValue("event")] = &failures{q.FormValue("kind"), times, time.Duration(ms) * time.Millisecond}
}

// verdicts runs the cases and returns the ids of those that failed.
func verdicts(t *testing.T, o Options) (*Report, []string) {
	t.Helper()
	report, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, r := range report.Results {
		if r.Verdict == Failing {
			failed = append(failed, r.ID)
		}
	}
	return report, failed
}

func plainly(_, text string) string { return text }

// TestARightReceiverPasses: all cases that need no command.
func TestARightReceiverPasses(t *testing.T) {
	report, failed := verdicts(t, newReceiver(t, "").options())
	for _, r := range report.Results {
		if r.Verdict == Failing || r.Verdict == NotJudged && r.ID != "T04" && r.ID != "T05" {
			t.Error(r.Line(plainly))
		}
	}
	if len(failed) > 0 || report.Grade != "A" {
		t.Errorf("failed: %v, grade %q", failed, report.Grade)
	}
}

// TestMistakesAreFound: each mistake fails the case that is for it.
func TestMistakesAreFound(t *testing.T) {
	for mistake, want := range map[string]string{
		"no dedupe": "T01", "check, then act": "T02", "record before work": "T03", "no gate": "T06", "update alone": "T07",
		"timestamps alone": "T09", "lossy numbers": "T12", "no verification": "T14", "no tolerance": "T15", "key before signature": "T17",
		"ids without source": "T18", "no limit": "T20", "5xx for garbage": "T21",
	} {
		t.Run(mistake, func(t *testing.T) {
			o := newReceiver(t, mistake).options()
			o.Only = []string{want}
			_, failed := verdicts(t, o)
			if !slices.Equal(failed, []string{want}) {
				t.Errorf("failed: %v, want %s", failed, want)
			}
		})
	}
}

// late shows nothing of a key at its first readings, as a receiver does that works after its
// answer.
type late struct {
	Probe
	hidden int
}

func (l *late) Read(ctx context.Context, event, key string) (Reading, error) {
	reading, err := l.Probe.Read(ctx, event, key)
	if key != "" && l.hidden > 0 {
		l.hidden--
		reading.State, reading.Version, reading.Amount = "", "", ""
	}
	return reading, err
}

// TestAStateThatComesLaterIsJudged: a probe that shows a state later is no reason not to judge.
func TestAStateThatComesLaterIsJudged(t *testing.T) {
	o := newReceiver(t, "").options()
	o.Probe, o.Only = &late{o.Probe, 3}, []string{"T06"}
	if report, _ := verdicts(t, o); report.Passed != 1 {
		t.Error(report.Results[0].Line(plainly))
	}
}

// turning shows the version 1 of a key before its case was told, or after that.
type turning struct {
	Probe
	after, told bool
}

func (p *turning) Read(ctx context.Context, event, key string) (Reading, error) {
	reading, err := p.Probe.Read(ctx, event, key)
	if key != "" && p.told == p.after {
		reading.Version = "1"
	}
	return reading, err
}

// TestStatesAreJudgedAtTheEnd: a state that becomes right after its case counts as right, as an
// effect does, and one that becomes wrong counts as wrong.
func TestStatesAreJudgedAtTheEnd(t *testing.T) {
	for after, want := range map[bool][]string{false: {"failed", "passed"}, true: {"passed", "failed"}} {
		o := newReceiver(t, "").options()
		probe := &turning{Probe: o.Probe, after: after}
		o.Probe, o.Only = probe, []string{"T06"}
		var told []string
		o.Tell = func(r *Result) { probe.told, told = true, append(told, string(r.Verdict)) }
		if verdicts(t, o); !slices.Equal(told, want) {
			t.Errorf("wrong after its case %v: told %q, want %q", after, told, want)
		}
	}
}
