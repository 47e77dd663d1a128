package replay_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestOrdersDuringAStep: a step has found the dead letters and not redelivered them yet. One is
// retried by hand, another discarded. The receiver gets the first once, the second not at all.
func TestOrdersDuringAStep(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(4, 0)
		letters, err := w.store.DeliveryList(ctx, store.Everyone(), store.DeliveryQuery{Endpoint: "ep", Limit: 4})
		w.must(err)
		ordered := false
		w.mortal.advancing.Store(new(func() {
			if ordered {
				return
			}
			ordered = true
			_, err := w.engine.Retry(ctx, store.Everyone(), letters[0].Seq, grapnel.By{}, nil)
			w.must(err)
			w.must(w.store.Annotate(ctx, store.Everyone(), store.Annotation{Delivery: letters[1].Seq, Discard: "no use", At: time.Now()}))
		}))
		w.is(w.begin(nil), grapnel.ReplayCompleted, time.Minute)
		all, err := w.store.DeliveryList(ctx, store.Everyone(), store.DeliveryQuery{Endpoint: "ep", Limit: 20})
		w.must(err)
		again := map[int64]int{}
		for i := range all {
			again[all[i].ReplayOf]++
		}
		for i, want := range []int{1, 0, 1, 1} {
			if got := again[letters[i].Seq]; got != want {
				t.Errorf("letter %d was redelivered %d times, not %d", i, got, want)
			}
		}
	})
}

// TestTotalHasWhatWasAdded: a delivered delivery is not counted at the start, because it was just
// retried. The retry fails before the replay comes to it, so the replay delivers it again, too.
func TestTotalHasWhatWasAdded(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(3, 0)
		w.is(w.begin(nil), grapnel.ReplayCompleted, time.Minute)
		newest, err := w.store.DeliveryList(ctx, store.Everyone(), store.DeliveryQuery{Endpoint: "ep", Limit: 1})
		w.must(err)
		w.receiver.answer(400, 1500*time.Millisecond)
		_, err = w.engine.Retry(ctx, store.Everyone(), newest[0].Seq, grapnel.By{}, nil)
		w.must(err)
		id := w.begin(func(q *replay.Request) { q.Rate, q.Selection.Status = 1, []grapnel.Status{grapnel.Delivered} })
		if is := w.get(id); is.Total != 2 {
			t.Errorf("at the start: %+v", is)
		}
		if is := w.is(id, grapnel.ReplayCompleted, time.Minute); is.Started != 3 || is.Total != 3 {
			t.Errorf("at the end it has created %d of %d", is.Started, is.Total)
		}
		all, err := w.runner.List(ctx, store.Everyone(), store.ReplayQuery{Limit: 1})
		if w.must(err); all[0].Total != 3 {
			t.Errorf("listed: %+v", all)
		}
	})
}

// TestNoEndIsNamedForPendingOnes: once all deliveries are created and wait for their schedules, the
// replay names no end and says how many it waits for.
func TestNoEndIsNamedForPendingOnes(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(6, 3)
		w.receiver.answer(503, 0)
		id := w.begin(nil)
		time.Sleep(3 * time.Second)
		if is := w.get(id); is.Started != is.Total || is.Done == is.Total || !is.ETA.IsZero() || !strings.Contains(is.Reason, "pending") {
			t.Errorf("%d of %d, end %v, reason %q", is.Done, is.Total, is.ETA, is.Reason)
		}
	})
}

// TestNoEndBeforeOneIsMeasured: the configured rate is no measurement. A replay none of whose
// deliveries is finished names no end, on the node that runs it and on the others.
func TestNoEndBeforeOneIsMeasured(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		other := replay.New(replay.Options{Engine: w.engine, Store: w.store, Log: slog.New(slog.DiscardHandler)})
		w.letters(600, 300)
		w.receiver.answer(503, 0)
		id := w.begin(func(q *replay.Request) { q.Rate = 20 })
		for range 4 {
			time.Sleep(time.Second)
			theirs, err := other.Get(ctx, store.Everyone(), id)
			w.must(err)
			ours := w.get(id)
			if ours.Done != 0 || ours.Started == 0 || ours.Started == ours.Total || !ours.ETA.IsZero() || !theirs.ETA.IsZero() {
				t.Errorf("%d of %d are made, %d done, ends %v and %v", ours.Started, ours.Total, ours.Done, ours.ETA, theirs.ETA)
			}
		}
	})
}
