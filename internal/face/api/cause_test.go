package api

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// play publishes n events and records each first attempt as a receiver would end it that fails what
// fails says.
func (w *world) play(n int, fails func(i int) bool) {
	w.t.Helper()
	for i := range n {
		w.clock = w.clock.Add(time.Second)
		currency := []string{"EUR", "USD", "JPY", "EUR"}[i%4]
		w.must(202, "POST", "/v1/events", fmt.Sprintf(`{"type":"invoice.paid","data":{"currency":%q,"n":%d}}`, currency, i))
		d := w.newest(w.t)
		a := &grapnel.Attempt{Number: 1, StartedAt: w.clock, StatusCode: 200, Class: policy.ClassNone, Decision: policy.Deliver,
			Peer: grapnel.Peer{Address: fmt.Sprintf("192.0.2.%d", i%3)}}
		status := grapnel.Delivered
		if fails(i) {
			a.StatusCode, a.Class, a.Decision, a.ResponseBody = 422, policy.ClassStatus4xx, policy.Fail, fmt.Appendf(nil, `{"error":"invoice %d refused at %s"}`, i, w.clock)
			status = grapnel.Failed
		}
		if _, err := w.engine.Record(w.t.Context(), []store.Change{{Delivery: d.Seq, At: w.clock, Status: status, Due: w.clock,
			Trigger: grapnel.TriggerSchedule, Attempt: a}}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// The field that failures have in common is named, with both rates, and the answers are one group
// although each is different.
func TestCausesNameTheField(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	w.play(48, func(i int) bool { return i%4 == 2 })
	got := w.must(200, "GET", "/v1/endpoints/"+ep+"/causes", "")
	want := `All 12 failures have data.currency = "JPY", and none of the 36 successes.`
	if got["sentence"] != want || got["failures"] != 12.0 || got["successes"] != 36.0 {
		t.Errorf("%v\n%v", got, want)
	}
	groups := got["groups"].([]any)
	if len(groups) != 1 || groups[0].(map[string]any)["count"] != 12.0 || !strings.Contains(fmt.Sprint(groups[0]), "invoice # refused at #") {
		t.Errorf("groups %v", groups)
	}
}

func TestCausesSayWhenThereIsNone(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	for _, step := range []struct {
		n     int
		fails func(int) bool
		want  string
	}{
		{0, nil, "Nothing was sent to it yet."},
		{5, func(int) bool { return false }, "Nothing fails: the first attempts of the last 5 deliveries went."},
		{12, func(i int) bool { return i%5 == 0 }, "3 of the last 17 deliveries failed at first, and nothing that Grapnel sees sets them apart from the others."},
	} {
		w.play(step.n, step.fails)
		if got := w.must(200, "GET", "/v1/endpoints/"+ep+"/causes", ""); got["sentence"] != step.want {
			t.Errorf("%v; want %s", got["sentence"], step.want)
		}
	}
}

// A rotation from which on everything fails is named, whether or not the audit reaches further
// back.
func TestCausesNameTheRotation(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	w.play(30, func(int) bool { return false })
	w.clock = w.clock.Add(time.Minute)
	w.must(200, "POST", "/v1/endpoints/"+ep+"/rotate-secret", `{"overlap":"0s"}`)
	at := w.clock.UTC().Format(time.RFC3339)
	w.play(15, func(int) bool { return true })
	got := w.must(200, "GET", "/v1/endpoints/"+ep+"/causes", "")
	want := "All 15 failures were signed with the secret of " + at + ", and none of the 30 successes."
	if got["sentence"] != want {
		t.Errorf("%v\nwant %s", got["sentence"], want)
	}
}

// slowEvents is a history in which reading events takes a second.
type slowEvents struct {
	History
	w *world
}

func (s slowEvents) Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error) {
	s.w.clock = s.w.clock.Add(time.Second)
	return s.History.Events(ctx, seqs)
}

// When its time is up an explanation compares what it has read until then, says how much that was,
// and that there is more.
func TestCausesWithinATime(t *testing.T) {
	slow := &slowEvents{}
	w := newWorld(t, func(o *Options) {
		slow.History, o.History = o.History, slow
		o.Bounds.Compared, o.Bounds.LeastCompared, o.Bounds.Comparing = 1000, 40, time.Second
	})
	slow.w = w
	ep := w.endpoint(admin, "")
	w.play(eventsAtOnce*3, func(i int) bool { return i%4 == 2 })
	oldest := w.clock.Add(-(2*eventsAtOnce - 1) * time.Second).UTC().Format(time.RFC3339)
	got := w.must(200, "GET", "/v1/endpoints/"+ep+"/causes", "")
	if got["failures"] != 16.0 || got["successes"] != 48.0 || got["more"] != true || !strings.HasPrefix(got["from"].(string), oldest[:19]) ||
		!strings.HasPrefix(got["sentence"].(string), "All 16 failures have data.currency") {
		t.Errorf("of %d deliveries from %s: %v", 2*eventsAtOnce, oldest, got)
	}
}

// A failure that a retry has delivered, and whose attempts are not read, is in no group: its last
// attempt succeeded, and says nothing about how the first one ended.
func TestARetriedDeliveryIsNoGroupOfSuccesses(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.Explained = 4 })
	ep := w.endpoint(admin, "")
	for i := range 10 {
		w.clock = w.clock.Add(time.Second)
		w.must(202, "POST", "/v1/events", fmt.Sprintf(`{"type":"invoice.paid","data":{"n":%d}}`, i))
		d := w.newest(t)
		for n, a := range []grapnel.Attempt{{StatusCode: 503, Class: policy.ClassStatus5xx, Decision: policy.Retry},
			{StatusCode: 200, Class: policy.ClassNone, Decision: policy.Deliver}} {
			a.Number, a.StartedAt = n+1, w.clock
			if _, err := w.engine.Record(t.Context(), []store.Change{{Delivery: d.Seq, Expect: n, At: w.clock, Due: w.clock,
				Status: []grapnel.Status{grapnel.Pending, grapnel.Delivered}[n], Trigger: grapnel.TriggerSchedule, Attempt: &a}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := w.must(200, "GET", "/v1/endpoints/"+ep+"/causes", "")
	groups := got["groups"].([]any)
	if got["failures"] != 10.0 || len(groups) != 1 || groups[0].(map[string]any)["error_class"] != "status_5xx" {
		t.Errorf("failures %v, groups %v", got["failures"], groups)
	}
}

// blocked is a history whose lists wait.
type blocked struct {
	History
	listing, goOn chan struct{}
}

func (b *blocked) DeliveryList(ctx context.Context, scope store.Scope, q store.DeliveryQuery) ([]grapnel.Delivery, error) {
	b.listing <- struct{}{}
	<-b.goOn
	return b.History.DeliveryList(ctx, scope, q)
}

// Two people look at failing endpoints at once: the second one's refusal is no error of the server,
// and not for the status page either.
func TestOtherExplanationsAreNoFailure(t *testing.T) {
	b := &blocked{listing: make(chan struct{}), goOn: make(chan struct{})}
	var served, bad atomic.Int64
	w := newWorld(t, func(o *Options) {
		b.History, o.History = o.History, b
		o.Served = func(good bool, _ time.Duration) {
			served.Add(1)
			if !good {
				bad.Add(1)
			}
		}
	})
	id := w.endpoint(admin, "")
	before := served.Load()
	first := make(chan int)
	go func() { first <- w.ask(admin, "GET", "/v1/endpoints/"+id+"/causes", "").StatusCode }()
	<-b.listing
	if r := w.ask(admin, "GET", "/v1/endpoints/"+id+"/causes", ""); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
		t.Errorf("the second is answered %d %v", r.StatusCode, r.Header)
	}
	close(b.goOn)
	if status := <-first; status != 200 {
		t.Errorf("the first is answered %d", status)
	}
	if served.Load()-before != 1 || bad.Load() != 0 || w.logged.Len() > 0 {
		t.Errorf("counted %d, %d bad; logged %s", served.Load()-before, bad.Load(), w.logged)
	}
}
