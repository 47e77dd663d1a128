package sqlite

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// flushed is a store with events, and the version of its configuration.
func flushed(t *testing.T, events int) (*Store, int64) {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "grapnel.db"), Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c, err := s.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for ; events > 0; events -= 500 {
		if _, err := s.Append(t.Context(), made(c.Version, min(events, 500))); err != nil {
			t.Fatal(err)
		}
	}
	return s, c.Version
}

func made(version int64, n int) store.Batch {
	b := store.Batch{Config: version}
	for range n {
		now := time.Now().UTC()
		b.Events = append(b.Events, store.Incoming{
			Event: &grapnel.Event{ID: grapnel.NewID(grapnel.EventPrefix, now, rand.Reader), Tenant: "t", Type: "x.y", Data: []byte(`1`),
				ContentType: grapnel.JSONType, AcceptedAt: now, OccurredAt: now},
			Targets: []store.Target{{Endpoint: "ep_a", Trigger: grapnel.TriggerSchedule}},
		})
	}
	return b
}

// TestInterruptedReads: after its caller gives up at any moment, a reader is returned outside of a
// transaction. Inside one it would show the past to each later borrower.
func TestInterruptedReads(t *testing.T) {
	s, _ := flushed(t, 2000)
	var stuck atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 1500 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(mathrand.IntN(400))*time.Microsecond)
				_, _ = s.DeliveryList(ctx, store.Everyone(), store.DeliveryQuery{Limit: 5})
				_, _, _ = s.Version(ctx)
				cancel()
				reader := <-s.readers
				if reader.InTransaction() {
					stuck.Add(1)
				}
				s.readers <- reader
			}
		})
	}
	callers.Wait()
	if n := stuck.Load(); n > 0 {
		t.Errorf("%d times a reader was left in a transaction", n)
	}
}

// TestAWriteThatIsTakenIsWaitedFor: a caller that gives up either gets the result or knows that
// nothing was written.
func TestAWriteThatIsTakenIsWaitedFor(t *testing.T) {
	s, version := flushed(t, 0)
	// Other callers keep the writer busy: otherwise a single write is taken at once, and no caller
	// could give up in time.
	busy, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			for busy.Err() == nil {
				if _, err := s.Append(context.WithoutCancel(busy), made(version, 5)); err != nil {
					t.Errorf("another one: %v", err)
					return
				}
			}
		})
	}
	defer func() { stop(); others.Wait() }()
	left := 0
	tries := 0
	for ; tries < 60 || left == 0 && tries < 20_000; tries++ { // a write on a quick disk takes less than a timer
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(mathrand.IntN(600))*time.Microsecond)
		b := made(version, 1+tries%20)
		_, err := s.Append(ctx, b)
		cancel()
		if err == nil {
			continue
		}
		left++
		if _, err := s.Append(t.Context(), made(version, 1)); err != nil { // all earlier requests have ended
			t.Fatal(err)
		}
		if _, _, err := s.Event(t.Context(), store.Everyone(), "t", b.Events[0].Event.ID); err == nil {
			t.Fatal("a call returned an error and was committed")
		}
	}
	t.Logf("%d of %d left", left, tries)
	if left == 0 {
		t.Error("nobody left: nothing was proved")
	}
}
