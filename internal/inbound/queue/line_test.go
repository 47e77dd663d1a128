package queue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
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

// TestClaimsThatFailAreLoggedSparingly: the store refuses claims for ten minutes, and consumers of
// several queues ask again each time. The log has a few lines, and one at the next failure.
func TestClaimsThatFailAreLoggedSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		w := &world{t: t, store: memory.New(), log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelError}))}
		w.start()
		var queues []*grapnel.Endpoint
		for i := range 3 {
			queues = append(queues, w.queue(func(ep *grapnel.Endpoint) { ep.ID, ep.Queue.Name = fmt.Sprint("que_", i), fmt.Sprint("q", i) }))
		}
		claims := func(n int) {
			for i := range n {
				_, _ = w.broker.Next(context.Background(), queues[i%len(queues)], "c1", 1, 0)
				backoff.Wait(nil, 2*time.Second)
			}
		}
		for range 2 {
			w.injure.Store(new(func(method string) memory.Fault {
				if method == "Claim" {
					return memory.Fault{Err: errCrashed}
				}
				return memory.Fault{}
			}))
			claims(300)
			w.injure.Store(nil)
			claims(3)
		}
		w.halt()
		lines, begun := strings.Count(logged.String(), "claiming leases failed"), strings.Count(logged.String(), "failures=1 ")
		if lines > 24 || begun != 2 {
			t.Errorf("logged %d lines, %d of a first failure", lines, begun)
		}
	})
}
