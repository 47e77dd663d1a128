package replay_test

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestRate: deliveries are created at the rate asked for, and the ETA is right.
func TestRate(t *testing.T) {
	for _, c := range []struct {
		rate    float64
		letters int
	}{{0.5, 10}, {20, 200}, {100, 1000}, {1000, 2000}} {
		bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
			w.letters(c.letters, 0)
			id, began := w.begin(func(q *replay.Request) { q.Rate = c.rate }), time.Now()
			meant := time.Duration(float64(c.letters) / c.rate * float64(time.Second))
			off := func(at time.Time) float64 { return at.Sub(began.Add(meant)).Seconds() }
			time.Sleep(meant / 2)
			half := w.get(id)
			if part := float64(half.Started) / float64(c.letters); part < 0.4 || part > 0.6 {
				t.Errorf("%v a second: after half of the time %d of %d were made", c.rate, half.Started, c.letters)
			}
			if meant/2 < 2*time.Second {
				if !half.ETA.IsZero() {
					t.Errorf("%v a second: after %v, before its speed is measured, its end is %v", c.rate, meant/2, half.ETA)
				}
			} else if off := off(half.ETA); off < -1-0.2*meant.Seconds() || off > 2+0.2*meant.Seconds() {
				t.Errorf("%v a second: half-way its end was foreseen %f s from where it is", c.rate, off)
			}
			p := w.is(id, grapnel.ReplayCompleted, 2*meant+10*time.Second)
			if off := off(p.FinishedAt); off < -0.1*meant.Seconds()-1/c.rate || off > 2+0.1*meant.Seconds() {
				t.Errorf("%v a second: it was over %f s from when it should be", c.rate, off)
			}
			w.onceEach(id, c.letters)
		})
	}
}

// TestCanary: further deliveries are created once the first one has been delivered, and none if it
// fails.
func TestCanary(t *testing.T) {
	with := func(q *replay.Request) { q.Canary = true }
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(100, 10)
		w.receiver.answer(200, 5*time.Second)
		id := w.begin(with)
		time.Sleep(4 * time.Second)
		if p := w.get(id); p.Started != 1 || p.Reason == "" {
			t.Errorf("while the canary is on its way: %+v", p)
		}
		w.receiver.answer(200, 0)
		w.is(id, grapnel.ReplayCompleted, time.Minute)
		w.onceEach(id, 100)
	})
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(100, 10)
		w.receiver.answer(400, 0)
		id := w.begin(with)
		p := w.is(id, grapnel.ReplayStopped, time.Minute)
		time.Sleep(time.Hour)
		if n := len(w.receiver.got()); n != 1 || p.Started != 1 || p.Failed != 1 || !strings.Contains(p.Reason, "first") {
			t.Errorf("%d requests; %+v", n, p)
		}
	})
}

// TestReplayThatFailsDoesNotDouble: a delivery that fails again is one more dead letter, and the
// next replay selects only the last one of each event.
func TestReplayThatFailsDoesNotDouble(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(20, 4)
		w.receiver.answer(400, 0)
		for n := range 3 {
			if p := w.is(w.begin(nil), grapnel.ReplayCompleted, time.Minute); p.Total != 20 || p.Failed != 20 {
				t.Errorf("replay %d is about %d, %d of which failed", n+1, p.Total, p.Failed)
			}
		}
		w.receiver.answer(200, 0)
		if p := w.is(w.begin(nil), grapnel.ReplayCompleted, time.Minute); p.Delivered != 20 {
			t.Errorf("%d were delivered in the end", p.Delivered)
		}
	})
}

// TestStopAfter: consecutive failures end a replay; failures between successes do not.
func TestStopAfter(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(500, 10)
		id := w.begin(func(q *replay.Request) { q.StopAfter, q.Rate = 10, 50 })
		time.Sleep(2 * time.Second)
		w.receiver.answer(400, 0)
		p := w.is(id, grapnel.ReplayStopped, time.Minute)
		if p.Delivered == 0 || p.Failed < 10 || p.Failed > 10+64 || p.Reason == "" {
			t.Errorf("stopped at %+v", p)
		}
		time.Sleep(time.Hour)
		after := w.get(id)
		if after.Started != p.Started {
			t.Errorf("%d were made after it was stopped", after.Started-p.Started)
		}
		w.receiver.answer(200, 0)
		again := w.begin(nil)
		p = w.is(again, grapnel.ReplayCompleted, time.Minute)
		if n := w.audited(grapnel.VerbStopReplay); n != 1 {
			t.Errorf("that it was stopped is on record %d times", n)
		}
		// Each event that the first replay has not delivered is selected once: its new dead letter
		// instead of the original.
		if want := 500 - after.Delivered; p.Delivered != want || p.Started != want || p.Total != want {
			t.Errorf("the next one, of %d: %+v", want, p)
		}
	})
}

// audited counts entries of a verb.
func (w *world) audited(verb grapnel.Verb) (n int) {
	list, err := w.store.AuditList(ctx, store.Everyone(), store.AuditQuery{Limit: 1000})
	w.must(err)
	for i := range list {
		if list[i].Verb == verb && list[i].Endpoint == "ep" && strings.HasPrefix(list[i].Reason, "rpl_") {
			n++
		}
	}
	return n
}

// TestPauseResumeCancel: no delivery is created once the call has returned; those already created
// continue.
func TestPauseResumeCancel(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(1000, 10)
		w.receiver.answer(200, 2*time.Second)
		by := grapnel.By{Actor: "key_1", Reason: "wait"}
		id := w.begin(nil)
		time.Sleep(time.Second)
		paused, err := w.runner.Pause(ctx, store.Everyone(), id, by)
		w.must(err)
		atPause := w.get(id)
		if paused.Status != grapnel.ReplayPaused || atPause.Reason != "wait" || atPause.Started == 0 || !atPause.ETA.IsZero() {
			t.Errorf("paused: %+v", atPause)
		}
		w.kill() // it stays paused
		time.Sleep(time.Hour)
		if p := w.get(id); p.Started != atPause.Started || p.Done != p.Started || p.Status != grapnel.ReplayPaused {
			t.Errorf("an hour after it was paused with %d made: %+v", atPause.Started, p)
		}
		_, err = w.runner.Pause(ctx, store.Everyone(), id, by)
		w.must(err)
		_, err = w.runner.Resume(ctx, store.Everyone(), id, by)
		w.must(err)
		time.Sleep(5 * time.Second)
		// Two orders follow each other faster than the job looks.
		_, err = w.runner.Pause(ctx, store.Everyone(), id, by)
		w.must(err)
		_, err = w.runner.Resume(ctx, store.Everyone(), id, by)
		w.must(err)
		before := w.get(id)
		time.Sleep(5 * time.Second)
		if p := w.get(id); p.Started <= before.Started || p.Reason == "wait" {
			t.Errorf("resumed at %d: %+v", before.Started, p)
		}
		_, err = w.runner.Cancel(ctx, store.Everyone(), id, by)
		w.must(err)
		atCancel := w.get(id)
		time.Sleep(time.Hour)
		if p := w.get(id); p.Started != atCancel.Started || p.Done != p.Started || p.Delivered != p.Done ||
			p.Status != grapnel.ReplayCancelled || p.FinishedAt.IsZero() {
			t.Errorf("an hour after it was cancelled with %d made: %+v", atCancel.Started, p)
		}
		_, err = w.runner.Cancel(ctx, store.Everyone(), id, by)
		w.must(err)
		if _, err = w.runner.Resume(ctx, store.Everyone(), id, by); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("resuming what is cancelled: %v", err)
		}
		if _, err = w.runner.Pause(ctx, store.Of("other"), id, by); grapnel.CodeOf(err) != grapnel.CodeNotFound {
			t.Errorf("pausing what belongs to somebody else: %v", err)
		}
		for verb, n := range map[grapnel.Verb]int{grapnel.VerbReplay: 1, grapnel.VerbPauseReplay: 2, grapnel.VerbResumeReplay: 2,
			grapnel.VerbCancelReplay: 1} {
			if got := w.audited(verb); got != n {
				t.Errorf("%d entries of %s, not %d", got, verb, n)
			}
		}
	})
}

// TestEndpointStops: a replay waits while its endpoint is paused or disabled, states the reason,
// and ends when the endpoint is deleted.
func TestEndpointStops(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(1000, 10)
		id := w.begin(func(q *replay.Request) { q.Rate = 20 })
		for _, status := range []grapnel.EndpointStatus{grapnel.EndpointPaused, grapnel.EndpointDisabled} {
			time.Sleep(2 * time.Second)
			w.endpoint(func(ep *grapnel.Endpoint) { ep.Status = status })
			time.Sleep(2 * time.Second)
			before := w.get(id)
			time.Sleep(time.Minute)
			p := w.get(id)
			if p.Started != before.Started || p.Status != grapnel.ReplayRunning || !strings.Contains(p.Reason, string(status)) {
				t.Errorf("endpoint %s: %d were made; %+v", status, p.Started-before.Started, p)
			}
			w.endpoint(func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
			time.Sleep(3 * time.Second)
			if p := w.get(id); p.Started == before.Started || p.Reason != "" {
				t.Errorf("endpoint enabled: %+v", p)
			}
		}
		w.must(w.engine.DeleteEndpoint(ctx, store.Everyone(), "ep", grapnel.By{}))
		if p := w.is(id, grapnel.ReplayCancelled, 5*time.Second); !strings.Contains(p.Reason, "deleted") {
			t.Errorf("%+v", p)
		}
	})
}

// TestNodeWithoutTheJob: a node that does not run a replay says the same of it as the one that
// does: why it waits, and when it will end.
func TestNodeWithoutTheJob(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		other := replay.New(replay.Options{Engine: w.engine, Store: w.store, Log: slog.New(slog.DiscardHandler)})
		alike := func(what, id, reason string, ends bool) {
			t.Helper()
			theirs, err := other.Get(ctx, store.Everyone(), id)
			w.must(err)
			ours := w.get(id)
			if ours.Reason != theirs.Reason || !strings.Contains(ours.Reason, reason) || (reason == "") != (ours.Reason == "") {
				t.Errorf("%s: reasons %q and %q", what, ours.Reason, theirs.Reason)
			}
			if ours.ETA.IsZero() == ends || theirs.ETA.IsZero() == ends || ours.ETA.Sub(theirs.ETA).Abs() > 5*time.Second {
				t.Errorf("%s: ends %v and %v", what, ours.ETA, theirs.ETA)
			}
		}
		w.letters(1000, 10)
		id := w.begin(func(q *replay.Request) { q.Rate = 20 })
		time.Sleep(10 * time.Second)
		alike("at work", id, "", true)
		w.endpoint(func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
		time.Sleep(2 * time.Second)
		alike("of a paused endpoint", id, "paused", false)
		w.endpoint(func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
		w.is(id, grapnel.ReplayCompleted, 2*time.Minute)
		alike("completed", id, "", false)
		w.receiver.answer(200, 20*time.Second)
		id = w.begin(func(q *replay.Request) { q.Canary, q.Selection.Again = true, true })
		time.Sleep(8 * time.Second)
		alike("with a canary on its way", id, "first delivery", false)
	})
}

func (w *world) endpoint(change func(*grapnel.Endpoint)) {
	w.t.Helper()
	ep, ok := w.engine.Endpoint(store.Everyone(), "ep")
	if !ok {
		w.t.Fatal("there is no endpoint")
	}
	change(&ep)
	_, err := w.engine.PutEndpoint(ctx, store.Everyone(), ep, store.With{})
	w.must(err)
}

// TestPlan: the plan's total is the number of deliveries created, and it counts the others by
// reason.
func TestPlan(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(2500, 7)
		plan := func(change func(*replay.Request)) replay.Plan {
			t.Helper()
			q := replay.Request{Endpoint: "ep"}
			if change != nil {
				change(&q)
			}
			p, err := w.runner.Plan(ctx, store.Everyone(), q)
			w.must(err)
			// A brief count finds the same in another way, if it has the time.
			q.CountFor = time.Second
			brief, err := w.runner.Plan(ctx, store.Everyone(), q)
			w.must(err)
			if diff := cmp.Diff(p, brief); diff != "" {
				t.Errorf("a brief plan differs: %s", diff)
			}
			return p
		}
		same := func(what string, got, want replay.Plan) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		none := replay.Plan{By: map[grapnel.Status]int{}}
		failed := func(n int) map[grapnel.Status]int { return map[grapnel.Status]int{grapnel.Failed: n} }
		same("all", plan(nil), replay.Plan{Total: 2500, By: failed(2500), Keys: 7, LongestChain: 358})
		same("of one key", plan(func(q *replay.Request) { q.Selection.Keys = []string{"k6"} }), replay.Plan{Total: 357, By: failed(357),
			Keys: 1, LongestChain: 357})
		same("delivered ones", plan(func(q *replay.Request) { q.Selection.Status = []grapnel.Status{grapnel.Delivered} }), none)
		same("with a status code", plan(func(q *replay.Request) { q.Selection.StatusCode = 503 }), none)
		same("with an error class", plan(func(q *replay.Request) { q.Selection.Class = policy.ClassTimeout }), none)
		if n := reflect.TypeFor[grapnel.Selection]().NumField(); n != 9 {
			t.Errorf("a selection has %d fields: brief plans have to know the new ones as well", n)
		}
		few := func(q *replay.Request) { q.Selection.Deliveries = []int64{1, 2, 3, 8} }
		same("those named", plan(few), replay.Plan{Total: 4, By: failed(4), Keys: 3, LongestChain: 2})
		w.must(w.store.Annotate(ctx, store.Everyone(), store.Annotation{Delivery: 9, Discard: "of no use", At: time.Now()}))
		w.is(w.begin(few), grapnel.ReplayCompleted, time.Minute)
		w.receiver.answer(200, time.Hour)
		w.begin(func(q *replay.Request) { q.Selection.Deliveries = []int64{10, 11} })
		time.Sleep(3 * time.Second)
		same("the rest", plan(nil), replay.Plan{Total: 2493, By: failed(2493), Keys: 7, LongestChain: 357,
			AlreadyReplayed: 4, Discarded: 1, OnItsWay: 2, Waiting: 2})
		// Number 8 is the second of its key and was delivered, so the first, delivered as well,
		// would arrive after it.
		same("again", plan(func(q *replay.Request) { q.Selection.Again = true }), replay.Plan{Total: 2500, By: failed(2500), Keys: 7,
			LongestChain: 358, Overtaken: 1, Waiting: 2})
		w.endpoint(func(ep *grapnel.Endpoint) { ep.Ordering = grapnel.Unordered })
		same("without order", plan(func(q *replay.Request) { q.Selection.Again = true }), replay.Plan{Total: 2500, By: failed(2500), Keys: 7,
			LongestChain: 1, Overtaken: 1, Waiting: 2})

		for field, change := range map[string]func(*replay.Request){
			"/rate":        func(q *replay.Request) { q.Rate = -1 },
			"/stop_after":  func(q *replay.Request) { q.StopAfter = -1 },
			"/status":      func(q *replay.Request) { q.Selection.Status = []grapnel.Status{grapnel.Pending} },
			"/event_types": func(q *replay.Request) { q.Selection.Types = []string{"a..b"} },
			"/to": func(q *replay.Request) {
				q.Selection.From, q.Selection.To = time.Now(), time.Now().Add(-time.Hour)
			},
			"/deliveries": func(q *replay.Request) { q.Selection.Deliveries = make([]int64, 10_001) },
		} {
			q := replay.Request{Endpoint: "ep"}
			change(&q)
			if _, err := w.runner.Plan(ctx, store.Everyone(), q); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: %v", field, err)
			}
		}
		if _, err := w.runner.Plan(ctx, store.Of("other"), replay.Request{Endpoint: "ep"}); grapnel.CodeOf(err) != grapnel.CodeNotFound {
			t.Errorf("of somebody else: %v", err)
		}
	})
}

// TestBriefPlans: a plan whose time is up has a part of the numbers and says so, also if a search
// has found nothing yet.
func TestBriefPlans(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(1000, 7)
		clock := time.Now()
		hasty := replay.New(replay.Options{Engine: w.engine, Store: w.store, Log: slog.New(slog.DiscardHandler), Now: func() time.Time {
			clock = clock.Add(time.Second)
			return clock
		}})
		for name, c := range map[string]struct {
			change func(*grapnel.Selection)
			some   bool
		}{
			"all":          {func(*grapnel.Selection) {}, true},
			"a key":        {func(s *grapnel.Selection) { s.Keys = []string{"k6"} }, true},
			"several keys": {func(s *grapnel.Selection) { s.Keys = []string{"k5", "k6"} }, true},
			"delivered":    {func(s *grapnel.Selection) { s.Status = []grapnel.Status{grapnel.Delivered} }, false},
		} {
			q := replay.Request{Endpoint: "ep", CountFor: time.Millisecond}
			c.change(&q.Selection)
			p, err := hasty.Plan(ctx, store.Everyone(), q)
			w.must(err)
			if !p.Partial || p.Total >= 100 || p.Total > 0 != c.some {
				t.Errorf("%s: %+v", name, p)
			}
		}
	})
}

// TestBehindWhatWaits: redeliveries come after the pending deliveries of their key, and events
// published later come after the redeliveries. At most 64 of them are pending at once.
func TestBehindWhatWaits(t *testing.T) {
	bubble(t, memoryStore(), func(o *engine.Options) { o.Core.Slots = 1000 }, func(t *testing.T, w *world) {
		w.letters(300, 0)
		w.receiver.answer(200, 30*time.Second)
		id := w.begin(nil)
		time.Sleep(10 * time.Second)
		if p := w.get(id); p.Started != 64 || p.Reason == "" {
			t.Errorf("with a receiver that takes its time: %+v", p)
		}
		w.receiver.answer(200, 0)
		w.is(id, grapnel.ReplayCompleted, 5*time.Minute)
	})
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(5, 1)
		w.receiver.answer(200, 10*time.Second)
		w.publish("k0", "evt_waits")
		id := w.begin(nil)
		time.Sleep(time.Second)
		w.publish("k0", "evt_later")
		w.is(id, grapnel.ReplayCompleted, 5*time.Minute)
		time.Sleep(time.Minute)
		const want = "evt_waits evt_00000 evt_00001 evt_00002 evt_00003 evt_00004 evt_later"
		if got := strings.Join(w.receiver.got(), " "); got != want {
			t.Errorf("got %s, not %s", got, want)
		}
	})
}

func (w *world) publish(key, id string) {
	w.t.Helper()
	ev := &grapnel.Event{ID: id, Tenant: "default", Type: "test.event", Key: key, Data: []byte(`{}`), ContentType: grapnel.JSONType,
		OccurredAt: time.Now(), AcceptedAt: time.Now()}
	_, err := w.engine.Publish(ctx, []store.Incoming{{Event: ev}}, nil)
	w.must(err)
}

// TestOverWhenAllIsOver: a replay is completed when the last of its deliveries has finished, not
// when it was created. Until then its counts show the progress.
func TestOverWhenAllIsOver(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(30, 0)
		w.receiver.answer(200, 10*time.Second)
		id := w.begin(nil)
		time.Sleep(9 * time.Second)
		if p := w.get(id); p.Status != grapnel.ReplayRunning || p.Started != 30 || p.Done != 0 {
			t.Errorf("while they are on their way: %+v", p)
		}
		if got := w.number("grapnel_replay_deliveries", "under_way"); got != 30 {
			t.Errorf("%v are under way", got)
		}
		if got := w.number("grapnel_replays", "running"); got != 1 {
			t.Errorf("%v are running", got)
		}
		// An endpoint without a finished attempt may have 8 in flight; the other 22 begin after those.
		w.is(id, grapnel.ReplayCompleted, 13*time.Second)
		w.onceEach(id, 30)
		if got := w.number("grapnel_replays_ended_total", "completed"); got != 1 {
			t.Errorf("%v are completed", got)
		}
		if got := w.number("grapnel_replays", "running"); got != 0 {
			t.Errorf("%v are running in the end", got)
		}
	})
}

// TestItemsCountWhatFinishesDuringAPause: deliveries that a pause did not stop count as delivered
// once the replay is resumed.
func TestItemsCountWhatFinishesDuringAPause(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(1000, 10)
		w.receiver.answer(200, 2*time.Second)
		id := w.begin(nil)
		time.Sleep(time.Second)
		_, err := w.runner.Pause(ctx, store.Everyone(), id, grapnel.By{})
		w.must(err)
		time.Sleep(time.Hour)
		w.receiver.answer(200, 0)
		_, err = w.runner.Resume(ctx, store.Everyone(), id, grapnel.By{})
		w.must(err)
		w.is(id, grapnel.ReplayCompleted, time.Hour)
		for _, result := range []string{"created", "delivered"} {
			if got := w.number("grapnel_replay_items_total", result); got != 1000 {
				t.Errorf("%v were %s", got, result)
			}
		}
	})
}

// number is a metric's value for a label.
func (w *world) number(name, label string) float64 {
	w.t.Helper()
	synctest.Wait()
	r := prometheus.NewRegistry()
	r.MustRegister(w.runner.Metrics())
	families, err := r.Gather()
	w.must(err)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && m.Label[0].GetValue() == label {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	w.t.Fatalf("there is no %s of %s", name, label)
	return 0
}

// TestNothingToDo: a replay of nothing finishes at once.
func TestNothingToDo(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.is(w.begin(nil), grapnel.ReplayCompleted, time.Second)
	})
}
