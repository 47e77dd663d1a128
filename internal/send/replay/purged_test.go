package replay_test

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestPurgedDuringAStep: dead letters whose retention ends between being found and being
// redelivered are not redelivered, and do not count as created.
func TestPurgedDuringAStep(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(10, 0)
		w.mortal.advancing.Store(new(func() {
			_, err := w.store.Purge(ctx, store.Keep{Now: time.Now().Add(24 * time.Hour), For: time.Hour}, 4)
			w.must(err)
		}))
		p := w.is(w.begin(nil), grapnel.ReplayCompleted, time.Minute)
		if p.Total != 10 || p.Started == 0 || p.Started == 10 {
			t.Fatalf("%+v", p)
		}
		if got := w.number("grapnel_replay_items_total", "created"); got != float64(p.Started) {
			t.Errorf("%d were created, and %v are counted", p.Started, got)
		}
	})
}
