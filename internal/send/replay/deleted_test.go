package replay_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestPausedReplayEndsWithItsEndpoint: nothing could resume it, and an unfinished replay is stored
// for ever.
func TestPausedReplayEndsWithItsEndpoint(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(100, 10)
		id := w.begin(func(q *replay.Request) { q.Rate = 1 })
		time.Sleep(3 * time.Second)
		_, err := w.runner.Pause(ctx, store.Everyone(), id, grapnel.By{})
		w.must(err)
		time.Sleep(time.Minute)
		before := w.get(id)
		w.must(w.engine.DeleteEndpoint(ctx, store.Everyone(), "ep", grapnel.By{}))
		p := w.is(id, grapnel.ReplayCancelled, 5*time.Second)
		if !strings.Contains(p.Reason, "deleted") || p.FinishedAt.IsZero() || p.Started != before.Started {
			t.Errorf("%+v", p)
		}
	})
}

// TestReplayIsSeenBeforeItsEndpoint: both come at once when a tenant moves to this store. This node
// reads the replay, and its configuration is still the one before.
func TestReplayIsSeenBeforeItsEndpoint(t *testing.T) {
	bubble(t, memoryStore(), nil, func(t *testing.T, w *world) {
		w.letters(1, 0)
		ep, _ := w.engine.Endpoint(store.Everyone(), "ep")
		ep.ID, ep.Revision = "ep_arrived", 0
		_, err := w.store.PutEndpoint(ctx, store.Everyone(), ep, store.With{})
		w.must(err)
		for id, status := range map[string]grapnel.ReplayStatus{"rpl_1": grapnel.ReplayRunning, "rpl_2": grapnel.ReplayPaused} {
			r := grapnel.Replay{ID: id, Tenant: ep.Tenant, Endpoint: ep.ID, Rate: 1, Total: 1, Status: status, CreatedAt: time.Now()}
			_, err = w.store.PutReplay(ctx, store.Everyone(), r, store.With{})
			w.must(err)
		}
		w.is("rpl_1", grapnel.ReplayCompleted, time.Minute)
		w.is("rpl_2", grapnel.ReplayPaused, time.Second)
	})
}

// TestEndpointDeletedDuringAStep: the store refuses the step, as it should, and no error is logged.
func TestEndpointDeletedDuringAStep(t *testing.T) {
	var logged strings.Builder
	errorsOnly := &slog.HandlerOptions{Level: slog.LevelError}
	tune := func(o *engine.Options) { o.Log = slog.New(slog.NewTextHandler(&logged, errorsOnly)) }
	bubble(t, memoryStore(), tune, func(t *testing.T, w *world) {
		w.letters(100, 10)
		deleted := false
		w.mortal.advancing.Store(new(func() {
			if !deleted {
				deleted = true
				w.must(w.engine.DeleteEndpoint(ctx, store.Everyone(), "ep", grapnel.By{}))
			}
		}))
		w.is(w.begin(nil), grapnel.ReplayCancelled, 5*time.Second)
		if !deleted || logged.Len() > 0 {
			t.Errorf("logged:\n%s", &logged)
		}
	})
}
