package queue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/internal/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// The outcome of a claim is unknown, its consumer has left, and the store cannot be read: the lease
// is looked for at every poll and at every hint, not without a pause.
func TestStoreThatCannotBeReadIsPolled(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		q := w.queue()
		w.publish("a")
		w.injure.Store(new(func(method string) memory.Fault {
			if method == "Claim" || method == "Lease" && w.called("Lease") < 1000 {
				return memory.Fault{Err: errCrashed, Applied: method == "Claim"}
			}
			return memory.Fault{}
		}))
		if _, err := w.broker.Next(context.Background(), q, "c1", 1, 0); err == nil {
			t.Fatal("a claim that failed is answered")
		}
		backoff.Wait(nil, time.Minute)
		if n, polls := w.called("Lease"), int64(time.Minute/w.broker.bounds.Poll); n < polls || n > 2*polls {
			t.Errorf("the lease was read %d times in a minute", n)
		}
	})
}

// Claims from a moving tenant's queue fail, as they should: their consumers learn it, and the log
// has no error for each of them.
func TestClaimsFromAMovingTenantAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sealing{Store: memory.New()}
		var logged strings.Builder
		w := &world{t: t, store: s, log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelError}))}
		w.start()
		q := w.queue()
		s.sealed.Store(true)
		if _, err := w.broker.Next(context.Background(), q, "c1", 1, time.Minute); !errors.Is(err, store.ErrSealed) {
			t.Errorf("the consumer got %v", err)
		}
		w.halt()
		if logged.Len() > 0 {
			t.Errorf("logged:\n%s", &logged)
		}
	})
}
