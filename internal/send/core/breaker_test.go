package core

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// ward is a core with one endpoint. Tests read its effects one by one.
type ward struct {
	t    *testing.T
	core *Core
	now  time.Time
	cfg  grapnel.Endpoint
	out  []Effect
	next int64
}

func newWard(t *testing.T, change func(*grapnel.Endpoint)) *ward {
	t.Helper()
	p, _ := policy.Preset("standard")
	p.Breaker = &policy.Breaker{Failures: 3, Ratio: 1, Window: policy.Duration(time.Minute), Probe: policy.Duration(time.Second),
		ProbeMax: policy.Duration(10 * time.Second)}
	w := &ward{t: t, core: New(Options{}), now: start, cfg: grapnel.Endpoint{ID: "ep", Tenant: "a", URL: "https://ep.test/", Policy: p,
		MaxConcurrency: 8, Status: grapnel.EndpointEnabled, Revision: 1}}
	if change != nil {
		change(&w.cfg)
	}
	cfg := w.cfg
	w.step(Configured{Endpoint: &cfg})
	w.step(Loaded{Endpoint: "ep", Limit: 256})
	return w
}

func (w *ward) step(in Input) { w.out = append(w.out[:0:0], w.core.Step(w.now, in)...) }

// reconfigure makes a change as an operator would.
func (w *ward) reconfigure(change func(*grapnel.Endpoint)) {
	change(&w.cfg)
	w.cfg.Revision++
	cfg := w.cfg
	w.step(Configured{Endpoint: &cfg})
}

// arrive accepts deliveries and returns the attempts that begin.
func (w *ward) arrive(n int) []Attempt {
	var heads []store.Head
	for range n {
		w.next++
		heads = append(heads, store.Head{Delivery: w.next, Event: w.next, Endpoint: "ep", Due: w.now, Anchor: w.now, CreatedAt: w.now,
			Trigger: grapnel.TriggerSchedule})
	}
	w.step(Arrived{Heads: heads})
	return of[Attempt](w.out)
}

// end finishes an attempt and has its change recorded, which is returned.
func (w *ward) end(a Attempt, status int) Change {
	w.t.Helper()
	in := &Finished{Endpoint: "ep", Delivery: a.Head.Delivery, Outcome: outcome(status), Attempt: grapnel.Attempt{StartedAt: w.now}}
	w.step(in)
	records := of[Record](w.out)
	if len(records) != 1 {
		w.t.Fatalf("an attempt that ended with %d made %d records", status, len(records))
	}
	ch, out := *records[0].Change, w.out
	w.step(Recorded{Changes: []Change{ch}, Results: []store.Changed{{Applied: true, Status: ch.Status}}})
	w.out = append(out, w.out...)
	return ch
}

// pass lets time pass and returns the attempts that begin.
func (w *ward) pass(d time.Duration) (all []Attempt) {
	for end := w.now.Add(d); ; {
		wake := w.core.Wake()
		if wake.IsZero() || wake.After(end) {
			w.now = end
			return all
		}
		w.now = wake
		w.step(Tick{})
		all = append(all, of[Attempt](w.out)...)
	}
}

func of[T Effect](effects []Effect) (list []T) {
	for _, e := range effects {
		if one, ok := e.(T); ok {
			list = append(list, one)
		}
	}
	return list
}

// outcome is the outcome of an answer; 0: connection refused, 1: timeout.
func outcome(status int) policy.Outcome {
	o := policy.Outcome{Status: status, Class: policy.ClassNone}
	switch {
	case status == 0:
		o.Class = policy.ClassConnect
	case status == 1:
		o = policy.Outcome{Class: policy.ClassTimeout}
	case status == 429:
		o.Class = policy.ClassStatus429
	case status >= 500:
		o.Class = policy.ClassStatus5xx
	case status >= 400:
		o.Class = policy.ClassStatus4xx
	}
	return o
}

// open opens the circuit while some deliveries are pending.
func (w *ward) open() {
	w.t.Helper()
	begun := w.arrive(20)
	for _, a := range begun[:3] {
		w.end(a, 0)
	}
	for _, a := range begun[3:] {
		w.end(a, 0)
	}
	if h := w.core.Health(w.now, "ep"); h.State != grapnel.HealthOpen {
		w.t.Fatalf("after eight refused connections its state is %q", h.State)
	}
}

// TestAChannelFailsSinceItsFirstFailure: failures that do not count towards disabling, such as
// those of alerts, have a beginning too, also behind an open circuit and after a restart.
func TestAChannelFailsSinceItsFirstFailure(t *testing.T) {
	w := newWard(t, nil)
	begun, began := w.arrive(20), w.now
	for _, a := range begun {
		w.step(&Finished{Endpoint: "ep", Delivery: a.Head.Delivery, Outcome: outcome(0), Attempt: grapnel.Attempt{StartedAt: began}, News: true})
		w.now = w.now.Add(time.Second)
	}
	h := w.core.Health(w.now, "ep")
	if h.State != grapnel.HealthOpen || !h.FailingSince.Equal(began) || h.Since.Equal(began) {
		t.Errorf("it has been %s since %s, and failing since %s, not %s", h.State, h.Since, h.FailingSince, began)
	}
	w.core.endpoints["ep"].gate.failing = time.Time{} // as after a restart
	if again := w.core.Health(w.now, "ep"); !again.FailingSince.Equal(began) {
		t.Errorf("after a restart it has been failing since %s, not %s", again.FailingSince, began)
	}
	if h := w.core.Health(w.now.Add(7*24*time.Hour), "ep"); h.Disabling != 0 {
		t.Errorf("it is %d %% of the way to being disabled, which no alert leads", h.Disabling)
	}
}

func TestOpenBreakerSendsOnlyProbes(t *testing.T) {
	w := newWard(t, nil)
	w.open()
	if begun := w.arrive(5); len(begun) > 0 {
		t.Errorf("%d attempts begin", len(begun))
	}
	if begun := w.pass(900 * time.Millisecond); len(begun) > 0 {
		t.Errorf("%d attempts begin before the first probe", len(begun))
	}
	begun := w.pass(200 * time.Millisecond)
	if len(begun) != 1 || begun[0].Trigger != grapnel.TriggerProbe || begun[0].Number != 1 || begun[0].Head.Delivery != 9 {
		t.Fatalf("the probe is %+v, not the ninth delivery, which has waited longest", begun)
	}
	if more := w.pass(time.Minute); len(more) > 0 {
		t.Errorf("%d attempts while a probe is in flight", len(more))
	}
	ch := w.end(begun[0], 0)
	if ch.Attempt.Trigger != grapnel.TriggerProbe || ch.Trigger != grapnel.TriggerSchedule || !ch.EndpointWide ||
		ch.Standing == nil || ch.Standing.Probes != 1 {
		t.Errorf("recorded: %+v, standing %+v", ch.Change, ch.Standing)
	}
	h := w.core.Health(w.now, "ep")
	if wait := h.NextProbeAt.Sub(w.now); wait < 500*time.Millisecond || !strings.Contains(h.Reason, "only probes are sent") {
		t.Errorf("after a failed probe the next is in %v: %q", wait, h.Reason)
	}
	if ids := w.core.Open(); len(ids) != 1 || ids[0] != "ep" {
		t.Errorf("open are %v", ids)
	}
}

func TestReturnMakesDueAndRamps(t *testing.T) {
	w := newWard(t, nil)
	w.open()
	probe := w.pass(1100 * time.Millisecond)
	w.end(probe[0], 200)
	back := w.now
	begun := of[Attempt](w.out)
	if len(begun) != 1 || begun[0].Trigger != grapnel.TriggerSchedule {
		t.Fatalf("%d attempts begin at once after the return", len(begun))
	}
	if h := w.core.Health(w.now, "ep"); h.State != grapnel.HealthRecovering {
		t.Errorf("it is %q", h.State)
	}
	// While one attempt is in flight no other starts; each success allows one more.
	if more := w.pass(time.Second); len(more) > 0 {
		t.Errorf("%d more before the first has come back", len(more))
	}
	inFlight, most, makeDue := []Attempt{begun[0]}, 1, []MakeDue(nil)
	for len(inFlight) > 0 {
		a := inFlight[0]
		inFlight = inFlight[1:]
		w.end(a, 200)
		makeDue = append(makeDue, of[MakeDue](w.out)...)
		inFlight = append(inFlight, of[Attempt](w.out)...)
		inFlight = append(inFlight, w.pass(100*time.Millisecond)...)
		most = max(most, len(inFlight))
	}
	if most > 8 {
		t.Errorf("%d requests at once, 8 are allowed", most)
	}
	if w.next != 20 || len(w.core.endpoints["ep"].window.waiting) != 0 {
		t.Errorf("%d still wait", len(w.core.endpoints["ep"].window.waiting))
	}
	// Twelve attempts have succeeded in a row and nothing else is due: MakeDue makes twelve of the
	// failed deliveries due.
	if len(makeDue) != 1 || makeDue[0].MakingDue.Before != back || makeDue[0].MakingDue.At != back || makeDue[0].Limit != 12 {
		t.Fatalf("what waited is not made due: %+v", makeDue)
	}
	w.step(MadeDue{Endpoint: "ep", Count: 8})
	if len(of[Load](w.out)) != 1 {
		t.Error("the new times are not read")
	}
}

// A failure of an attempt that was in flight when the endpoint recovered belongs to the outage,
// unless the endpoint refused that request for its content.
func TestBelatedFailures(t *testing.T) {
	for status, at := range map[int]bool{1: true, 503: true, 422: false} {
		w := newWard(t, nil)
		begun := w.arrive(10)
		for _, a := range begun[:3] {
			w.end(a, 0)
		}
		probe := w.pass(1100 * time.Millisecond)
		w.end(probe[0], 200)
		ch := w.end(begun[3], status)
		if due := ch.Due.Equal(w.now); due != at {
			t.Errorf("after %d it is due in %v", status, ch.Due.Sub(w.now))
		}
	}
}

// A probe that is refused shows that the endpoint is back, and keeps its own time: it has not
// failed in the outage.
func TestRefusedProbeKeepsItsOwnTime(t *testing.T) {
	for _, status := range []int{422, 429} {
		w := newWard(t, func(ep *grapnel.Endpoint) { ep.Policy.Jitter = policy.Jitter{} })
		w.open()
		probe := w.pass(1100 * time.Millisecond)
		ch := w.end(probe[0], status)
		if wait := ch.Due.Sub(w.now); wait != 5*time.Second {
			t.Errorf("after %d the probe's delivery is due in %v", status, wait)
		}
		if h := w.core.Health(w.now, "ep"); h.State == grapnel.HealthOpen {
			t.Errorf("after %d the breaker is still open", status)
		}
	}
}

// An outcome that is on its way to the store when the endpoint recovers becomes durable after the
// MakeDue; its delivery must be made due as well.
func TestRecordedTooLateToBeMadeDue(t *testing.T) {
	w := newWard(t, nil)
	begun := w.arrive(6)
	for _, a := range begun[:3] {
		w.end(a, 0)
	}
	w.step(&Finished{Endpoint: "ep", Delivery: begun[3].Head.Delivery, Outcome: outcome(0), Attempt: grapnel.Attempt{StartedAt: w.now}})
	slow := *of[Record](w.out)[0].Change
	w.step(Operated{Order: store.Order{Token: 1, Verb: store.RetryNow, Endpoint: "ep", Delivery: 1}})
	asked := *of[Record](w.out)[0].Change
	head := store.Head{Delivery: 1, Event: 1, Endpoint: "ep", Attempts: 1, Due: w.now, Anchor: w.now, Trigger: grapnel.TriggerManual}
	w.step(Recorded{Changes: []Change{asked}, Results: []store.Changed{{Applied: true, Status: grapnel.Pending, Next: &head}}})
	w.end(of[Attempt](w.out)[0], 200) // it is back
	for _, a := range begun[4:] {
		w.end(a, 200)
	}
	w.core.endpoints["ep"].makeDue = false // and all its stored deliveries have been made due
	next := store.Head{Delivery: 4, Event: 4, Endpoint: "ep", Attempts: 1, Due: slow.Due, Anchor: w.now, Trigger: grapnel.TriggerSchedule}
	w.step(Recorded{Changes: []Change{slow}, Results: []store.Changed{{Applied: true, Status: grapnel.Pending, Next: &next}}})
	if len(of[MakeDue](w.out)) != 1 {
		t.Errorf("what was recorded too late waits until %v", slow.Due)
	}
}

func TestPersonsAttemptGoesThroughAnOpenBreaker(t *testing.T) {
	w := newWard(t, nil)
	w.open()
	w.step(Operated{Order: store.Order{Token: 1, Verb: store.RetryNow, Endpoint: "ep", Delivery: 15}})
	ch := *of[Record](w.out)[0].Change
	head := store.Head{Delivery: 15, Event: 15, Endpoint: "ep", Due: w.now, Anchor: w.now, Trigger: grapnel.TriggerManual}
	w.step(Recorded{Changes: []Change{ch}, Results: []store.Changed{{Applied: true, Status: grapnel.Pending, Next: &head}}})
	begun := of[Attempt](w.out)
	if len(begun) != 1 || begun[0].Trigger != grapnel.TriggerManual {
		t.Fatalf("it is not tried: %+v", w.out)
	}
	w.end(begun[0], 204)
	if h := w.core.Health(w.now, "ep"); h.State != grapnel.HealthRecovering {
		t.Errorf("a person has reached it, and it is %q", h.State)
	}
}

func TestProbeOrder(t *testing.T) {
	w := newWard(t, nil)
	w.arrive(1)
	w.step(Operated{Order: store.Order{Token: 1, Verb: store.Probe, Endpoint: "ep", Delivery: 1}})
	if r := of[Reply](w.out); len(r) != 1 || grapnel.CodeOf(r[0].Err) != grapnel.CodeConflict {
		t.Errorf("probing what is well is answered %+v", w.out)
	}
	w = newWard(t, nil)
	w.open()
	w.step(Operated{Order: store.Order{Token: 2, Verb: store.Probe, Endpoint: "ep", Delivery: 9, Audit: &grapnel.AuditEntry{Verb: grapnel.VerbProbe}}})
	ch := *of[Record](w.out)[0].Change
	if ch.Trigger != grapnel.TriggerProbe || !ch.Due.Equal(w.now) || ch.Audit == nil {
		t.Errorf("recorded: %+v", ch.Change)
	}
}

// An endpoint whose attempts all fail is failing since the first failure, even if the policy
// neither counts failures nor has a circuit. One success makes it healthy.
func TestFailingUntilASuccess(t *testing.T) {
	w := newWard(t, func(cfg *grapnel.Endpoint) { cfg.Policy.Breaker, cfg.Policy.Disable = nil, policy.Disable{} })
	if h := w.core.Health(w.now, "ep"); h.State != grapnel.HealthHealthy || !h.FailingSince.IsZero() {
		t.Errorf("before its first attempt it is %+v", h)
	}
	first := w.now
	for range 3 {
		w.end(w.arrive(1)[0], 404)
		w.now = w.now.Add(time.Minute)
		if h := w.core.Health(w.now, "ep"); h.State != grapnel.HealthFailing || !h.Since.Equal(first) || !h.FailingSince.Equal(first) {
			t.Errorf("it has only ever failed, since %v, and is %+v", first, h)
		}
	}
	w.end(w.arrive(1)[0], 200)
	if h := w.core.Health(w.now, "ep"); h.State != grapnel.HealthHealthy || !h.FailingSince.IsZero() {
		t.Errorf("after a success it is %+v", h)
	}
	since := w.now
	for n, state := range []grapnel.HealthState{grapnel.HealthHealthy, grapnel.HealthHealthy, grapnel.HealthFailing} {
		w.now = w.now.Add(time.Second)
		w.end(w.arrive(1)[0], 404)
		if h := w.core.Health(w.now, "ep"); h.State != state || n == 2 && !h.Since.Equal(since.Add(time.Second)) {
			t.Errorf("after %d failures since the success it is %+v", n+1, h)
		}
	}
}

func TestSpareUntil(t *testing.T) {
	w := newWard(t, nil)
	begun := w.arrive(12)
	in := &Finished{Endpoint: "ep", Delivery: begun[0].Head.Delivery, Attempt: grapnel.Attempt{StartedAt: w.now},
		Outcome: policy.Outcome{Status: 503, Class: policy.ClassStatus5xx, RetryAfter: time.Minute, HasRetryAfter: true}}
	w.step(in)
	ch := *of[Record](w.out)[0].Change
	if ch.Standing == nil || !ch.Standing.HoldUntil.Equal(w.now.Add(time.Minute)) || len(of[Attempt](w.out)) > 0 {
		t.Fatalf("it is not spared: %+v", w.out)
	}
	if h := w.core.Health(w.now, "ep"); h.State != grapnel.HealthThrottled || !h.Since.Equal(w.now) {
		t.Errorf("it is %q since %v", h.State, h.Since)
	}
	for _, a := range begun[1:] {
		w.end(a, 200)
		if len(of[Attempt](w.out)) > 0 {
			t.Fatal("it is attempted")
		}
	}
	if begun := w.pass(59 * time.Second); len(begun) > 0 {
		t.Error("it is attempted too soon")
	}
	if begun := w.pass(2 * time.Second); len(begun) == 0 {
		t.Error("it is not attempted again")
	}
}

func TestRefusalsDisable(t *testing.T) {
	few := func(ep *grapnel.Endpoint) {
		ep.Policy.Disable = policy.Disable{Consecutive: 4, Of: policy.ClassStatus4xx, Pending: policy.PendingHold}
		ep.MaxConcurrency = 1
	}
	w := newWard(t, few)
	next := w.arrive(20)
	var types []string
	for i := range 3 {
		ch := w.end(next[0], 422)
		if ch.Standing == nil || ch.Standing.Strikes != i+1 {
			t.Fatalf("refusal %d: standing %+v", i+1, ch.Standing)
		}
		for _, n := range ch.News {
			types = append(types, n.Type)
		}
		next = of[Attempt](w.out)
	}
	ch := w.end(next[0], 422)
	disable := of[Disable](w.out)
	if len(disable) != 1 || !strings.Contains(disable[0].Reason, "4 deliveries in a row") || ch.Standing.SentencedAt.IsZero() {
		t.Fatalf("it is not disabled: %+v", w.out)
	}
	if len(types) != 1 || types[0] != grapnel.EventEndpointFailing {
		t.Errorf("told on the way: %v", types)
	}
	if h := w.core.Health(w.now, "ep"); h.State != grapnel.HealthDisabled || w.core.Wake().IsZero() == false && len(w.pass(time.Minute)) > 0 {
		t.Errorf("it is %q and attempted", h.State)
	}

	// The process dies before the disabling is durable: the next process disables the endpoint,
	// unless an operator has changed it since.
	for _, since := range []time.Duration{-time.Hour, time.Hour} {
		again := New(Options{})
		cfg := w.cfg
		cfg.UpdatedAt = w.now.Add(since)
		out := again.Step(w.now, Configured{Endpoint: &cfg, Standing: *ch.Standing})
		if carried := len(of[Disable](out)) == 1; carried != (since < 0) {
			t.Errorf("changed %v after the sentence; carried out: %v", since, carried)
		}
	}

	w.cfg.Status = grapnel.EndpointDisabled
	w.reconfigure(func(*grapnel.Endpoint) {})
	w.reconfigure(func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
	if st := of[Record](w.out); len(st) != 1 || st[0].Change.Delivery != 0 || st[0].Change.Standing.Strikes != 0 ||
		!st[0].Change.Standing.SentencedAt.IsZero() {
		t.Errorf("after it was enabled the slate is not clean: %+v", w.out)
	}
	load := of[Load](w.out)[0]
	if w.step(Loaded{Endpoint: "ep", Limit: load.Limit}); len(of[MakeDue](w.out)) != 1 {
		t.Error("after it was enabled what waited is not made due")
	}
}

func TestWhatDoesNotCountTowardsDisabling(t *testing.T) {
	strict := func(ep *grapnel.Endpoint) {
		ep.Policy.Disable = policy.Disable{Consecutive: 2, Of: policy.ClassStatus4xx, Pending: policy.PendingHold}
	}
	for _, trigger := range []grapnel.Trigger{grapnel.TriggerManual, grapnel.TriggerTest, grapnel.TriggerReplay} {
		w := newWard(t, strict)
		for n := range int64(5) {
			w.step(Arrived{Heads: []store.Head{{Delivery: n + 1, Event: n + 1, Endpoint: "ep", Due: w.now, Anchor: w.now, Trigger: trigger}}})
			ch := w.end(of[Attempt](w.out)[0], 422)
			if st := ch.Standing; st != nil && (st.Strikes > 0 || !st.FailingSince.IsZero()) || len(of[Disable](w.out)) > 0 {
				t.Errorf("%s: attempt %d counts", trigger, n+1)
			}
		}
	}
	w := newWard(t, strict)
	for n := range 5 {
		a := w.arrive(1)[0]
		in := Finished{Endpoint: "ep", Delivery: a.Head.Delivery, Outcome: outcome(422), Attempt: grapnel.Attempt{StartedAt: w.now}, News: true}
		w.step(&in)
		if len(of[Disable](w.out)) > 0 {
			t.Errorf("operational event %d counts", n+1)
		}
	}
}

// A replay's first failure does not begin the time after which its endpoint is disabled; that of a
// scheduled retry does.
func TestScheduledRetriesOfReplaysCount(t *testing.T) {
	w := newWard(t, nil)
	head := store.Head{Delivery: 1, Event: 1, Endpoint: "ep", Due: w.now, Anchor: w.now, Trigger: grapnel.TriggerReplay}
	w.step(Arrived{Heads: []store.Head{head}})
	ch := w.end(of[Attempt](w.out)[0], 422)
	if st := ch.Standing; st != nil && !st.FailingSince.IsZero() || ch.Trigger != grapnel.TriggerSchedule {
		t.Errorf("the first attempt counts: %+v", ch)
	}
	head.Attempts, head.Trigger, head.Due = 1, ch.Trigger, w.now
	w.step(Loaded{Endpoint: "ep", Limit: 256, Heads: []store.Head{head}})
	if ch = w.end(of[Attempt](w.out)[0], 422); ch.Standing == nil || !ch.Standing.FailingSince.Equal(w.now) || ch.Standing.Strikes != 0 {
		t.Errorf("the second attempt does not count: %+v", ch.Standing)
	}
}

func TestAgeEndsWhatWaitsForABrokenEndpoint(t *testing.T) {
	w := newWard(t, func(ep *grapnel.Endpoint) { ep.Policy.MaxAge = policy.Duration(30 * time.Second) })
	w.open()
	w.arrive(20)
	var ended []Change
	for end := w.now.Add(40 * time.Second); w.now.Before(end); {
		wake := w.core.Wake()
		if wake.IsZero() || wake.After(end) {
			break
		}
		w.now = wake
		w.step(Tick{})
		for _, r := range of[Record](w.out) {
			ended = append(ended, *r.Change)
		}
		for _, a := range of[Attempt](w.out) {
			w.end(a, 0)
		}
	}
	if len(ended) < 5 {
		t.Fatalf("%d deliveries ended", len(ended))
	}
	for _, ch := range ended {
		if ch.Status != grapnel.Failed || ch.ReasonCode != grapnel.ReasonExpired || ch.Attempt != nil ||
			!ch.At.After(start.Add(30*time.Second)) ||
			len(ch.News) != 1 || ch.News[0].Type != grapnel.EventDeliveryFailed || !strings.Contains(ch.Reason, "never attempted") {
			t.Errorf("ended as %+v", ch)
		}
	}
}

func TestResumedEndpointGetsWhatWaitedBitByBit(t *testing.T) {
	w := newWard(t, nil)
	w.reconfigure(func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
	w.reconfigure(func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
	load := of[Load](w.out)[0]
	var heads []store.Head
	for n := range int64(50) {
		heads = append(heads, store.Head{Delivery: n + 1, Event: n + 1, Endpoint: "ep", Due: w.now, Anchor: w.now,
			Trigger: grapnel.TriggerSchedule})
	}
	w.step(Loaded{Endpoint: "ep", Heads: heads, Limit: load.Limit})
	if begun := of[Attempt](w.out); len(begun) != 1 {
		t.Errorf("%d attempts at once", len(begun))
	}
}

// A URL that is changed while the breaker is open may be the repair.
func TestNewURLIsProbedAtOnce(t *testing.T) {
	w := newWard(t, nil)
	w.open()
	w.reconfigure(func(ep *grapnel.Endpoint) { ep.URL = "https://new.test/" })
	if begun := of[Attempt](w.out); len(begun) != 1 || begun[0].Trigger != grapnel.TriggerProbe {
		t.Errorf("begun: %+v", begun)
	}
}

// A pause that the receiver of an earlier URL asked for ends with a new URL, and one by Retry-After
// once the policy ignores that. The end of the pause is recorded.
func TestHoldEndsWithItsReason(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*grapnel.Endpoint)
		begun  int
	}{
		"a new URL":             {func(ep *grapnel.Endpoint) { ep.URL = "https://new.test/" }, 1},
		"Retry-After ignored":   {func(ep *grapnel.Endpoint) { ep.Policy.RetryAfter = policy.RetryAfterIgnore }, 1},
		"another configuration": {func(ep *grapnel.Endpoint) { ep.Description = "edited" }, 0},
	} {
		w := newWard(t, nil)
		in := &Finished{Endpoint: "ep", Delivery: w.arrive(1)[0].Head.Delivery, Attempt: grapnel.Attempt{StartedAt: w.now},
			Outcome: policy.Outcome{Status: 429, Class: policy.ClassStatus429, RetryAfter: 24 * time.Hour, HasRetryAfter: true}}
		w.step(in)
		w.now = w.now.Add(time.Second)
		w.reconfigure(c.change)
		kept := of[Record](w.out)
		if begun := w.arrive(1); len(begun) != c.begun || len(kept) != c.begun {
			t.Errorf("%s: %d attempts begin, %d changes are recorded", name, len(begun), len(kept))
		}
	}
}

// TestBreakerOnRecordThatIsOff: the breaker was open when the process died, and by the time the
// next one begins the policy has none.
func TestBreakerOnRecordThatIsOff(t *testing.T) {
	w := newWard(t, nil)
	w.core = New(Options{})
	cfg, was := w.cfg, store.Standing{Endpoint: "ep", Number: 3}
	cfg.Policy.Breaker = &policy.Breaker{Off: true}
	was.OpenedAt, was.ProbeAt, was.Strikes = w.now.Add(-time.Hour), w.now.Add(-time.Minute), 7
	w.step(Configured{Endpoint: &cfg, Standing: was})
	if kept := of[Record](w.out); len(kept) != 1 || kept[0].Change.Standing.Open() || kept[0].Change.Standing.Strikes != 7 {
		t.Errorf("recorded: %+v", kept)
	}
	w.step(Loaded{Endpoint: "ep", Limit: 256})
	for _, a := range w.arrive(2) {
		if a.Trigger != grapnel.TriggerSchedule {
			t.Errorf("an attempt's trigger is %s", a.Trigger)
		}
	}
	if h := w.core.Health(w.now, "ep"); h.State == grapnel.HealthOpen {
		t.Errorf("it is %s: %s", h.State, h.Reason)
	}
}

// TestDisablingOutlivesAPolicyChange: a new policy does not cancel a disabling that is not durable
// yet.
func TestDisablingOutlivesAPolicyChange(t *testing.T) {
	for _, failed := range []bool{false, true} {
		w := newWard(t, nil)
		begun := w.arrive(9)
		w.end(begun[0], 410)
		asked := len(of[Disable](w.out))
		if failed {
			w.step(Disabled{Endpoint: "ep", Err: errors.New("the disk is full")})
		}
		cfg := w.cfg
		cfg.Policy.MaxAttempts = 3
		w.step(Configured{Endpoint: &cfg})
		if more := of[Attempt](w.out); len(more) > 0 || w.core.Health(w.now, "ep").State != grapnel.HealthDisabled {
			t.Errorf("failed: %v: it is %s and %d attempts begin", failed, w.core.Health(w.now, "ep").State, len(more))
		}
		w.now = w.now.Add(2 * time.Second)
		w.step(Tick{})
		if asked += len(of[Disable](w.out)); asked != 1 && !failed || asked != 2 && failed {
			t.Errorf("failed: %v: disabled %d times", failed, asked)
		}
		w.step(Disabled{Endpoint: "ep"})
		w.reconfigure(func(*grapnel.Endpoint) {})
		if state := w.core.Health(w.now, "ep").State; state == grapnel.HealthDisabled {
			t.Error("a person cannot enable it")
		}
	}
}

// TestOldFailureLeavesTrust: an attempt that was in flight when the endpoint recovered does not
// count in its trust.
func TestOldFailureLeavesTrust(t *testing.T) {
	w := newWard(t, nil)
	begun := w.arrive(8)
	w.core.endpoints["ep"].window.heads[begun[7].Head.Delivery].Attempts = 99 // it fails for good, so nothing of it is tried again
	for _, a := range begun[:7] {
		w.end(a, 0)
	}
	w.arrive(1)
	w.end(w.pass(1100 * time.Millisecond)[0], 200)
	if ch := w.end(begun[7], 1); ch.Status != grapnel.Failed {
		t.Fatalf("recorded: %+v", ch.Change)
	}
	if makeDue := of[MakeDue](w.out); len(makeDue) != 1 || makeDue[0].Limit != 1 {
		t.Errorf("what waited is not made due: %+v", w.out)
	}
}

// TestDoubtPasses: the first retry after a recovery fails. The other deliveries that the outage
// delayed must not wait for their own times, which are hours away: only they can show that the
// endpoint is healthy.
func TestDoubtPasses(t *testing.T) {
	w := newWard(t, nil)
	for _, a := range w.arrive(8) {
		w.end(a, 0)
	}
	w.arrive(1)
	w.end(w.pass(1100 * time.Millisecond)[0], 200)
	page := func() {
		w.step(MadeDue{Endpoint: "ep", Count: 1})
		w.next++
		w.step(Loaded{Endpoint: "ep", Limit: 256, Heads: []store.Head{{Delivery: w.next, Event: w.next, Endpoint: "ep", Attempts: 1, Due: w.now,
			Anchor: w.now, CreatedAt: w.now, Trigger: grapnel.TriggerSchedule}}})
	}
	page()
	w.end(of[Attempt](w.out)[0], 500)
	if makeDue := of[MakeDue](w.out); len(makeDue) > 0 {
		t.Fatal("more is made due right after a failure")
	}
	var makeDue []MakeDue
	for waited := 0; len(makeDue) == 0; waited++ {
		if waited > 10 {
			t.Fatal("nothing more is made due")
		}
		w.now = w.now.Add(time.Second)
		w.step(Tick{})
		makeDue = of[MakeDue](w.out)
	}
	if makeDue[0].Limit != 1 {
		t.Errorf("%d are made due", makeDue[0].Limit)
	}
	page()
	w.end(of[Attempt](w.out)[0], 200)
	if makeDue := of[MakeDue](w.out); len(makeDue) != 1 {
		t.Error("an answer does not make more due")
	}
}

// TestNewRulesShortenTheWait: the time of the next probe followed rules that have been replaced.
func TestNewRulesShortenTheWait(t *testing.T) {
	w := newWard(t, func(ep *grapnel.Endpoint) {
		rules := *ep.Policy.Breaker
		rules.Probe, rules.ProbeMax = policy.Duration(time.Hour), policy.Duration(24*time.Hour)
		ep.Policy.Breaker = &rules
	})
	w.open()
	w.reconfigure(func(ep *grapnel.Endpoint) {
		rules := *ep.Policy.Breaker
		rules.Probe, rules.ProbeMax = policy.Duration(time.Second), policy.Duration(10*time.Second)
		ep.Policy.Breaker = &rules
	})
	if begun := w.pass(9 * time.Second); len(begun) > 0 {
		t.Error("it is probed too soon")
	}
	if begun := w.pass(2 * time.Second); len(begun) != 1 {
		t.Errorf("%d probes within the longest wait", len(begun))
	}
}

// TestHoldOnRecordHasABeginning: after a restart a throttled endpoint is so since the time on
// record.
func TestHoldOnRecordHasABeginning(t *testing.T) {
	w := newWard(t, nil)
	w.core = New(Options{})
	was := store.Standing{Endpoint: "ep", Number: 1}
	was.HoldUntil, was.HeldAt = w.now.Add(time.Minute), w.now.Add(-time.Minute)
	cfg := w.cfg
	w.step(Configured{Endpoint: &cfg, Standing: was})
	if h := w.core.Health(w.now, "ep"); h.State != grapnel.HealthThrottled || !h.Since.Equal(was.HeldAt) {
		t.Errorf("it is %s since %v", h.State, h.Since)
	}
}
