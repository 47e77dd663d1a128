package engine

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// value is what a metric without labels says.
func (b *bench) value(c prometheus.Collector) float64 {
	b.t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil || len(families) != 1 {
		b.t.Fatalf("%d metrics, %v", len(families), err)
	}
	m := families[0].Metric[0]
	return m.GetGauge().GetValue() + m.GetCounter().GetValue()
}

// TestRetentionActsInTime: finished deliveries exist for their retention, and are purged 20 seconds
// or a tenth of that time later, whichever is longer, also after a restart. Pending ones stay.
func TestRetentionActsInTime(t *testing.T) {
	for name, c := range map[string]struct {
		keep Retention
		want time.Duration
	}{
		"seconds":            {Retention{For: 5 * time.Second}, 5 * time.Second},
		"twenty minutes":     {Retention{For: 20 * time.Minute}, 20 * time.Minute},
		"two days":           {Retention{For: 48 * time.Hour}, 48 * time.Hour},
		"shorter, by a rule": {Retention{48 * time.Hour, []store.KeepRule{{Type: "test.*", For: 10 * time.Second}}}, 10 * time.Second},
		"longer, by a rule": {Retention{time.Minute, []store.KeepRule{{Tenant: "other", For: time.Second},
			{Type: "test.*", For: time.Hour}}}, time.Hour},
		"the first that fits": {Retention{time.Minute, []store.KeepRule{{Tenant: "default", For: 2 * time.Hour},
			{For: time.Second}}}, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTunedBench(t, memory.New(), func(o *Options) { o.Keep = c.keep })
				defer b.close()
				r := &receiver{}
				b.endpoint("ep", r, nil)
				b.publish("k", 1)
				b.publish("", 500)
				time.Sleep(time.Second)
				b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
				b.publish("k", 1)
				left := func() int { return len(b.deliveries("ep")) }
				time.Sleep(c.want - 2*time.Second)
				if n := left(); n != 502 {
					t.Errorf("%d of 502 are left before their time", n)
				}
				b.halt()
				b.start(core.Options{})
				time.Sleep(max(20*time.Second, c.want/10) + 2*time.Second)
				if n := left(); n != 1 {
					t.Errorf("%d are left, not only the one that waits", n)
				}
				if n := b.value(b.engine.metrics.purged); n != 501 {
					t.Errorf("%v are counted as purged", n)
				}
				b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
				time.Sleep(time.Second)
				if n := len(r.log()); n != 502 {
					t.Errorf("%d arrived", n)
				}
				if off, err := b.store.Imbalance(context.Background()); off != 0 || err != nil {
					t.Errorf("the books are off by %d, %v", off, err)
				}
				b.exact("after a purge")
			})
		})
	}
}

// TestReplaysAndAuditAreCleared: replays are retained as long as the finished deliveries that last
// longest, audit entries for a year.
func TestReplaysAndAuditAreCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		b := newTunedBench(t, memory.New(), func(o *Options) {
			unhurried(o)
			o.Keep = Retention{4 * day, []store.KeepRule{{Type: "other.*", For: 10 * day}}}
		})
		defer b.close()
		b.endpoint("ep", &receiver{}, nil)
		now := time.Now()
		r := grapnel.Replay{ID: "rpl_1", Tenant: "default", Endpoint: "ep", Status: grapnel.ReplayRunning, CreatedAt: now, UpdatedAt: now}
		put, err := b.store.PutReplay(t.Context(), store.Everyone(), r, store.With{})
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"first", "last"} {
			if err := b.store.Note(
				t.Context(),
				grapnel.AuditEntry{At: now.Add(-360 * day), Tenant: "default", Actor: "key_1", Verb: grapnel.VerbNote, Reason: word},
			); err != nil {
				t.Fatal(err)
			}
		}
		left := func() (replays, entries int) {
			list, err := b.store.ReplayList(t.Context(), store.Everyone(), store.ReplayQuery{Limit: 10})
			noted, err2 := b.store.AuditList(t.Context(), store.Everyone(), store.AuditQuery{Limit: 10})
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			return len(list), len(noted)
		}
		_, entries := left()
		time.Sleep(2 * day) // pending deliveries stay
		r.Status, r.FinishedAt, r.Revision = grapnel.ReplayCompleted, time.Now(), put.Revision
		if _, err := b.store.PutReplay(t.Context(), store.Everyone(), r, store.With{}); err != nil {
			t.Fatal(err)
		}
		if replays, noted := left(); replays != 1 || noted != entries {
			t.Errorf("before their time %d replays and %d of %d entries are left", replays, noted, entries)
		}
		time.Sleep(10*day - time.Hour)
		if replays, noted := left(); replays != 1 || noted != 1 { // the newest stays
			t.Errorf("after a year %d replays and %d entries are left", replays, noted)
		}
		time.Sleep(2 * time.Hour)
		if replays, _ := left(); replays != 0 {
			t.Errorf("%d replays are left", replays)
		}
	})
}

// TestOldDocumentsAreCleared: documents of some kinds are retained for a time after their last
// write, whatever the retention of deliveries is; others for ever.
func TestOldDocumentsAreCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		b := newTunedBench(t, memory.New(), func(o *Options) { o.Keep.For = 200 * day; unhurried(o) })
		defer b.close()
		kinds := []string{store.DuplicatesKind, "issue", "sli", "incident", "alert"}
		write := func(kind, id string, revision int64) {
			t.Helper()
			_, err := b.store.PutDocuments(t.Context(), store.Everyone(), []store.DocumentWrite{{Document: store.Document{
				Tenant: "default", Kind: kind, ID: id, Revision: revision, At: time.Now()}}}, store.With{})
			if err != nil {
				t.Fatal(err)
			}
		}
		left := func() (counts [5]int) {
			for i, kind := range kinds {
				list, err := b.store.DocumentList(t.Context(), store.Everyone(), store.DocumentQuery{Kind: kind, Limit: 10})
				if err != nil {
					t.Fatal(err)
				}
				counts[i] = len(list)
			}
			return counts
		}
		for _, kind := range kinds {
			write(kind, "quiet", 0)
			write(kind, "used", 0)
		}
		began, revision := time.Now(), int64(1)
		for _, c := range []struct {
			day    time.Duration // a round of purging has been made an hour later
			writes bool          // one of each kind is written again then
			want   [5]int
		}{
			{0, false, [5]int{2, 2, 2, 2, 2}},
			{39, true, [5]int{2, 2, 2, 2, 2}},
			{40, false, [5]int{2, 2, 1, 2, 2}},
			{78, true, [5]int{2, 2, 1, 2, 2}},
			{90, false, [5]int{1, 1, 1, 2, 2}},
			{118, false, [5]int{1, 1, 0, 2, 2}},
			{168, false, [5]int{0, 0, 0, 2, 2}},
		} {
			time.Sleep(time.Until(began.Add(c.day * day)))
			if c.writes {
				for _, kind := range kinds {
					write(kind, "used", revision)
				}
				revision++
			}
			time.Sleep(time.Hour)
			if got := left(); got != c.want {
				t.Errorf("after %d days %v are left, want %v", c.day, got, c.want)
			}
		}
	})
}

// TestNothingIsPurgedUnlessAsked: an engine without a retention keeps finished deliveries.
func TestNothingIsPurgedUnlessAsked(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.endpoint("ep", &receiver{}, nil)
		b.publish("k", 1)
		time.Sleep(48 * time.Hour)
		b.only("ep")
	})
}

// TestPurgingTakesItsTime: while there is time, others have two hundred times as long as purging;
// in the end four times, so that the promised delay is kept.
func TestPurgingTakesItsTime(t *testing.T) {
	const took = 20 * time.Millisecond
	for _, c := range []struct{ kept, lasted, least, most time.Duration }{
		{720 * time.Hour, 0, 199 * took, 199 * took},
		{720 * time.Hour, time.Hour, 100 * took, 199 * took},
		{720 * time.Hour, 4*time.Hour + 30*time.Minute, 20 * took, 40 * took},
		{720 * time.Hour, 9 * time.Hour, 4 * took, 5 * took},
		{720 * time.Hour, 90 * time.Hour, 4 * took, 5 * took},
		{time.Second, 0, 20 * took, 50 * took},
		{time.Second, 2500 * time.Millisecond, 4 * took, 5 * took},
		{time.Second, -time.Hour, 20 * took, 50 * took}, // the clock was set back
	} {
		if got := (Retention{For: c.kept}).pause(took, c.lasted); got < c.least || got > c.most {
			t.Errorf("after a round of %v what is kept for %v makes a pause of %v, not between %v and %v", c.lasted, c.kept, got, c.least, c.most)
		}
	}
	if got := (Retention{For: time.Hour}).pause(0, 0); got != leastPause {
		t.Errorf("after a page that took nothing: %v", got)
	}
	if got := (Retention{For: 720 * time.Hour}).pause(time.Minute, 0); got != mostPause {
		t.Errorf("after a page that took a minute: %v", got)
	}
}

// TestPurgingLeavesOthersRoom: between two pages others have four times as long as those took, or
// more; a page that fails is tried again; while new work is refused nothing is purged.
func TestPurgingLeavesOthersRoom(t *testing.T) {
	const took = 100 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var began []time.Time
		faulty := &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
			if method != "Purge" {
				return memory.Fault{}
			}
			mu.Lock()
			began = append(began, time.Now())
			n := len(began)
			mu.Unlock()
			time.Sleep(took)
			if n == 3 {
				return memory.Fault{Err: io.ErrUnexpectedEOF}
			}
			return memory.Fault{}
		}}
		b := newTunedBench(t, faulty, func(o *Options) { o.Keep.For, o.Bounds.Recorder.Publish = 5*time.Second, 4 })
		defer b.close()
		b.endpoint("ep", &receiver{}, nil)
		b.publish("", 1500)
		// Publishes go on all the time.
		for range 2 {
			if err := b.engine.admission.enter(asked); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		mu.Lock()
		early := len(began)
		mu.Unlock()
		if early != 0 {
			t.Errorf("%d pages were purged while there was no time for it", early)
		}
		b.engine.admission.leave()
		b.engine.admission.leave()
		time.Sleep(30 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(b.deliveries("ep")) != 0 || len(began) < 1500/b.engine.bounds.Recorder.LeastPage+1 {
			t.Errorf("%d are left after %d pages", len(b.deliveries("ep")), len(began))
		}
		for i := 1; i < 1500/b.engine.bounds.Recorder.LeastPage+1; i++ {
			if gap := began[i].Sub(began[i-1]); gap < (1+inHaste)*took && i != 3 || gap > 2*time.Second {
				t.Errorf("page %d began %v after the one before", i, gap)
			}
		}
	})
}

// unbalanced is a store whose counts do not agree.
type unbalanced struct {
	store.Store
	by int64
}

func (u unbalanced) Imbalance(context.Context) (int64, error) { return u.by, nil }

// TestImbalanceIsTold within a minute.
func TestImbalanceIsTold(t *testing.T) {
	for _, off := range []int64{0, -3} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, unbalanced{memory.New(), off})
			defer b.close()
			time.Sleep(b.engine.bounds.Recorder.Tidy + time.Second)
			if got := b.value(b.engine.metrics.imbalance); got != float64(off) {
				t.Errorf("%v, not %d", got, off)
			}
		})
	}
}

// TestImbalanceEndsWithTheLead: a node that compares no counts any more repeats no old result,
// which would stand beside that of the node that does.
func TestImbalanceEndsWithTheLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, unbalanced{memory.New(), -3})
		defer b.close()
		var follows atomic.Bool
		k, tidied := *b.engine.keeper, make(chan struct{})
		k.metrics, k.leads = newMetrics(nil, false), func() bool { return !follows.Load() }
		over := make(chan struct{})
		k.over = over
		go func() { k.tidy(); close(tidied) }()
		for _, want := range []float64{-3, 0} {
			time.Sleep(k.bounds.Tidy + time.Second)
			if got := b.value(k.metrics.imbalance); got != want {
				t.Errorf("%v, not %v", got, want)
			}
			follows.Store(true)
		}
		close(over)
		<-tidied
	})
}

// TestReplayedOnesAreCounted: what a replay makes counts as waiting like anything else, whether the
// answer is heard or not, and no tenant gets more by it than it may have. When it is over the one
// who replays is told.
func TestReplayedOnesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var mu sync.Mutex
		lost, ended := false, 0
		faulty := &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			if method == "Advance" && lost {
				return memory.Fault{Err: io.ErrUnexpectedEOF, Applied: true}
			}
			return memory.Fault{}
		}}
		b := newTunedBench(t, faulty, func(o *Options) {
			o.MaxPending = 20
			o.Replayed = func(string) {
				mu.Lock()
				defer mu.Unlock()
				ended++
			}
		})
		defer b.close()
		b.endpoint("ep", &receiver{}, nil)
		b.publish("k", 20)
		time.Sleep(time.Second)
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
		put, err := b.engine.PutReplay(ctx, store.Everyone(), grapnel.Replay{ID: "rpl_1", Tenant: "default", Endpoint: "ep", Rate: 1,
			Status: grapnel.ReplayRunning, CreatedAt: time.Now()}, store.With{})
		if err != nil || put.Revision == 0 {
			t.Fatal(put, err)
		}
		step := func(from, to int64) error {
			s := store.ReplayStep{Replay: "rpl_1", From: from, To: to, At: time.Now()}
			for n := from + 1; n <= to; n++ {
				s.Items = append(s.Items, store.Redelivery{Of: n, Ordered: true})
			}
			_, err := b.engine.Advance(ctx, "default", s)
			return err
		}
		if err := step(0, 5); err != nil {
			t.Fatal(err)
		}
		b.exact("after a step")
		mu.Lock()
		lost = true
		mu.Unlock()
		if err := step(5, 10); err == nil {
			t.Fatal("the answer was not lost")
		}
		mu.Lock()
		lost = false
		mu.Unlock()
		time.Sleep(2 * b.engine.bounds.Recorder.Tidy)
		b.exact("after a step whose answer was lost")
		if err := step(5, 10); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("the same step again: %v", err)
		}
		b.publish("other", 5)
		if err := step(10, 20); grapnel.CodeOf(err) != grapnel.CodeQuota {
			t.Errorf("more than the tenant may have: %v", err)
		}
		b.exact("after a step that was refused")
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
		time.Sleep(time.Minute)
		b.exact("in the end")
		if fmt.Sprint(ended) != "10" {
			t.Errorf("told of %d ends, not 10", ended)
		}
	})
}
