package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// failed fails unless the store has reported its failure and returns it from every call.
func failed(t *testing.T, s *Store) {
	t.Helper()
	select {
	case err := <-s.Fatal():
		if !strings.Contains(err.Error(), "cannot be trusted") {
			t.Errorf("the owner is told %v", err)
		}
	default:
		t.Error("the owner is not told")
	}
	scope := store.Everyone()
	calls := map[string]func() error{
		"Unable": s.Unable,
		"Append": func() error { _, err := s.Append(t.Context(), store.Batch{Config: 1}); return err },
		"Record": func() error { _, err := s.Record(t.Context(), nil); return err },
		"Heads":  func() error { _, err := s.Heads(t.Context(), "ep", 1); return err },
		"Head":   func() error { _, _, err := s.Head(t.Context(), 1); return err },
		"Events": func() error { _, err := s.Events(t.Context(), []int64{1}); return err },
		"End":    func() error { _, err := s.End(t.Context(), "ep", store.Ending{Status: grapnel.Skipped}, 1); return err },
		"Again":  func() error { _, err := s.Again(t.Context(), scope, store.Redelivery{Of: 1}); return err },
		"Config": func() error { _, err := s.Config(t.Context()); return err },
		"Counts": func() error { _, err := s.Counts(t.Context(), scope); return err },
		"Forget": func() error { _, err := s.Forget(t.Context(), time.Time{}, 1); return err },
	}
	for name, call := range calls {
		if err := call(); err == nil || grapnel.CodeOf(err) != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCorruptDatabase overwrites parts of the database: the call that meets them fails, and the
// store ends.
func TestCorruptDatabase(t *testing.T) {
	for name, call := range map[string]func(*Store) error{
		"a reader": func(s *Store) error { _, err := s.Counts(t.Context(), store.Everyone()); return err },
		"the writer": func(s *Store) error {
			_, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: &grapnel.Event{ID: "evt_another"}}}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(fast(t), "grapnel.db")
			s, err := Open(t.Context(), path, Options{Ballast: -1})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := publish(t, s, "evt_1", 10); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, err = Open(t.Context(), path, Options{Ballast: -1})
			if err != nil {
				t.Fatal(err)
			}
			b := read(t, path)
			for i := 2 * pageSize; i < len(b); i++ { // but for the schema
				b[i] = byte(i * 31)
			}
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := call(s); err == nil {
				t.Error("nothing was noticed")
			}
			failed(t, s)
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// TestCorruptEvent flips a bit where SQLite has no checksum.
func TestCorruptEvent(t *testing.T) {
	s, path := openNew(t)
	a, err := publish(t, s, "evt_1", 100)
	if err != nil {
		t.Fatal(err)
	}
	b, err := publish(t, s, "evt_2", 5000)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := connect(path, sqlite3.ReadWrite, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, damage := range []string{
		"UPDATE event SET data = substr(data, 1, 50) || x'00' || substr(data, 52) WHERE seq = %d",
		"UPDATE event SET accepted = accepted + 1 WHERE seq = %d",
		"UPDATE event SET key = 'other' WHERE seq = %d", "UPDATE event SET packed = 1 WHERE seq = %d",
		"UPDATE event SET metadata = x'05' WHERE seq = %d",
	} {
		if err := conn.Exec("BEGIN; " + fmt.Sprintf(damage, a.Event) + "; COMMIT"); err != nil {
			t.Fatal(err)
		}
		events, err := s.Events(t.Context(), []int64{a.Event, b.Event})
		if err != nil || events[0] != nil || events[1] == nil {
			t.Errorf("%s: got %v, %v", damage, events, err)
		}
		if err := conn.Exec(fmt.Sprintf("UPDATE event SET (accepted, key, packed, metadata) = (SELECT accepted, key, packed, NULL FROM event WHERE seq = %d) WHERE seq = %d",
			b.Event, a.Event)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.EventList(t.Context(), store.Everyone(), store.EventQuery{Limit: 10})
	if err != nil || len(list) != 2 || list[0].Damaged || list[0].Data == nil || list[1].Seq != a.Event || !list[1].Damaged ||
		list[1].Data != nil {
		t.Errorf("a list: %v, %v", list, err)
	}
	if _, _, err := s.Event(t.Context(), store.Everyone(), "", "evt_1"); grapnel.CodeOf(err) != grapnel.CodeDamaged {
		t.Errorf("the event itself: %v", err)
	}
	if s.Stats().Damaged < 7 { // each of the reads above
		t.Errorf("%d reads are counted", s.Stats().Damaged)
	}
}

// TestAFrameThatCannotBeAppliedAgain: the store ends at once, before it answers anything else. A
// start says which frame it is and what to do.
func TestAFrameThatCannotBeAppliedAgain(t *testing.T) {
	s, path := openNew(t)
	for i := range 3 {
		if _, err := publish(t, s, fmt.Sprint("evt_", i), 10); err != nil {
			t.Fatal(err)
		}
	}
	entry := codec.Into(nil)
	for _, n := range []int64{s.writer.tx.events.last, s.writer.tx.deliveries.last, 0, 99} { // there is no kind 99
		codec.Number(entry, &n)
	}
	frame := append(make([]byte, journal.Header), entry.Bytes()...)
	if err := s.write(t.Context(), looking(func(*sqlite3.Conn) error {
		y := &s.writer.unflushed
		y.number++
		y.owes.Store(true)
		y.frames, y.ends = append(y.frames, frame...), append(y.ends, len(y.frames)+len(frame))
		return y.journal.Write(y.number, frame)
	})); err != nil {
		t.Fatal(err)
	}
	copied := snapshot(t, path)
	poison := errors.New("poison") // the unflushed entries are applied again after it
	if err := s.write(t.Context(), looking(func(*sqlite3.Conn) error { return poison })); err == nil {
		t.Error("a read that fails succeeds")
	}
	if err := s.Note(t.Context(), grapnel.AuditEntry{Tenant: "acme"}); err == nil {
		t.Error("an entry was accepted")
	}
	failed(t, s)
	_, err := Open(t.Context(), copied, Options{Ballast: -1})
	if err == nil || !strings.Contains(err.Error(), "cannot be applied again") || !strings.Contains(err.Error(), "grapnel backup") {
		t.Errorf("a start: %v", err)
	}
}

// TestPoison: one operation fails in a way of its own. It alone gets the error; the other
// operations of its transaction succeed.
func TestPoison(t *testing.T) {
	s, _ := openNew(t)
	release := hold(t, s)
	poison := errors.New("poison")
	results := make(chan error)
	for i := range 9 {
		go func() {
			if i != 4 {
				_, err := publish(t, s, fmt.Sprint("evt_", i), 10)
				results <- err
				return
			}
			err := s.write(t.Context(), &change{do: func(tx *tx) error {
				if _, err := tx.kind(kind{tenant: "acme", eventType: "half written"}); err != nil {
					return err
				}
				return poison
			}})
			if !errors.Is(err, poison) {
				t.Errorf("the one that failed: %v", err)
			}
			results <- nil
		}()
	}
	until(t, "all of them", func() bool { return s.Stats().Queued == 9 })
	release()
	for range 9 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n, err := s.Waiting(t.Context(), "ep", 100); err != nil || n != 8 {
		t.Errorf("%d of 8 are there: %v", n, err)
	}
	err := s.read(t.Context(), func(r *sqlite3.Conn) error {
		n, err := rows.One(r, "SELECT count(*) FROM kind")
		if n != 1 {
			t.Errorf("what was half written is there: %d kinds", n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestGivingUp: a caller that gives up gets its context's error. An operation that had not begun
// then has no effect.
func TestGivingUp(t *testing.T) {
	s, _ := openNew(t)
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := s.Append(ctx, store.Batch{Config: 1, Events: []store.Incoming{{Event: &grapnel.Event{ID: "evt_given_up"}}}})
		result <- err
	}()
	until(t, "the append", func() bool { return s.Stats().Queued == 1 })
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release()
	if _, err := publish(t, s, "evt_next", 10); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Event(t.Context(), store.Everyone(), "", "evt_given_up"); grapnel.CodeOf(err) != grapnel.CodeNotFound {
		t.Errorf("what was given up was done: %v", err)
	}
	if _, err := s.Append(ctx, store.Batch{Config: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a write whose context is over: %v", err)
	}
	if _, err := s.Counts(ctx, store.Everyone()); !errors.Is(err, context.Canceled) {
		t.Errorf("a read whose context is over: %v", err)
	}
}

// TestLongRead interrupts a read in its middle. The connection is returned and usable.
func TestLongRead(t *testing.T) {
	s, _ := openNew(t)
	for range 2 * cap(s.readers) {
		ctx, cancel := context.WithCancel(t.Context())
		err := s.read(ctx, func(r *sqlite3.Conn) error {
			cancel()
			q, err := r.Prepare("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
			if err != nil {
				return err
			}
			for err == nil { // an interruption before the statement begins has no effect
				select {
				case <-ctx.Done():
					return ctx.Err()
				default:
					err = q.Run()
				}
			}
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		if _, err := s.Counts(t.Context(), store.Everyone()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClosed(t *testing.T) {
	s, _ := openNew(t)
	h, err := publish(t, s, "evt_1", 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := s.Record(t.Context(), []store.Change{{Delivery: h.Delivery, Status: grapnel.Skipped}}); !errors.Is(err, errClosed) {
		t.Errorf("a write: %v", err)
	}
	if _, err := s.Counts(t.Context(), store.Everyone()); !errors.Is(err, errClosed) {
		t.Errorf("a read: %v", err)
	}
	if _, err := s.ReplayList(t.Context(), store.Everyone(), store.ReplayQuery{Limit: 1}); !errors.Is(err, errClosed) {
		t.Errorf("a read of replays: %v", err)
	}
	if len(s.Fatal()) != 0 {
		t.Error("closing is not a failure")
	}
}
