package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
	"github.com/grapnelhq/grapnel/policy"
)

// publish appends one event with one delivery and returns the new head. Its data cannot be
// compressed.
func publish(t *testing.T, s *Store, id string, size int) (store.Head, error) {
	t.Helper()
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%-32s", id)))).Read(data)
	e := &grapnel.Event{ID: id, Tenant: "acme", Type: "invoice.paid", Data: data, AcceptedAt: time.Unix(1_700_000_000, 0)}
	c, err := s.Config(t.Context())
	if err != nil {
		return store.Head{}, err
	}
	done, err := s.Append(t.Context(), store.Batch{Config: c.Version, Events: []store.Incoming{{Event: e,
		Targets: []store.Target{{Endpoint: "ep"}}}}})
	if err != nil {
		return store.Head{}, err
	}
	return done.Heads[0], nil
}

// settle records that a delivery was delivered, with an attempt of some size.
func settle(t *testing.T, s *Store, h store.Head, size int) error {
	t.Helper()
	done, err := s.Record(t.Context(), []store.Change{{Delivery: h.Delivery, Status: grapnel.Delivered, At: time.Unix(1_700_000_001, 0),
		Attempt: &grapnel.Attempt{Number: 1, ResponseBody: make([]byte, size)}}})
	if err == nil && !done[0].Applied {
		t.Fatalf("the change of %d did not apply", h.Delivery)
	}
	return err
}

// until calls do until it returns true, and fails after a while. It waits for effects of the
// system: a file system, a timer.
func until(t *testing.T, what string, do func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if do() {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("waited too long for %s", what)
}

// hold makes the writer wait in a transaction until release is called, so that requests queued
// meanwhile share the next one.
func hold(t *testing.T, s *Store) (release func()) {
	t.Helper()
	holding, end := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- s.write(t.Context(), &change{shrinks: true, do: func(*tx) error {
			close(holding)
			<-end
			return nil
		}})
	}()
	<-holding
	return func() {
		close(end)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// fillUp publishes until the disk is full, and returns the heads of the accepted events.
func fillUp(t *testing.T, s *Store, size int) []store.Head {
	t.Helper()
	var heads []store.Head
	for {
		h, err := publish(t, s, fmt.Sprint("evt_", len(heads)), size)
		if err != nil {
			if grapnel.CodeOf(err) != grapnel.CodeStorageFull {
				t.Fatalf("after %d events: %v", len(heads), err)
			}
			return heads
		}
		if heads = append(heads, h); len(heads) > 100_000 {
			t.Fatal("the disk is not getting full")
		}
	}
}

// accepted fails unless exactly the accepted events are stored.
func accepted(t *testing.T, s *Store, heads []store.Head) {
	t.Helper()
	if n, err := s.Waiting(t.Context(), "ep", 1<<30); err != nil || n != len(heads) {
		t.Fatalf("%d deliveries wait, %d were accepted: %v", n, len(heads), err)
	}
	for i, h := range heads {
		if e, _, err := s.Event(t.Context(), store.Everyone(), "", fmt.Sprint("evt_", i)); err != nil || e.Seq != h.Event {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if _, _, err := s.Event(t.Context(), store.Everyone(), "", fmt.Sprint("evt_", len(heads))); grapnel.CodeOf(err) != grapnel.CodeNotFound {
		t.Fatalf("what was refused is there: %v", err)
	}
}

// narrow forbids a database to get more pages than a number. When the reserved space becomes free
// it may get as many more as fit into that. So a test of a full disk needs no rights. On a real
// disk the space is missing later: when a flush writes the pages.
func narrow(t *testing.T, s *Store, more int) (widen func()) {
	t.Helper()
	limit := func(conn *sqlite3.Conn, pages int) {
		if err := conn.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Error(err)
		}
	}
	set := func(more int, step func(string)) {
		t.Helper()
		if err := s.write(t.Context(), &change{shrinks: true, do: func(tx *tx) error {
			s.step = step
			there, err := rows.One(tx.conn, "PRAGMA page_count")
			limit(tx.conn, int(there)+more)
			return err
		}}); err != nil {
			t.Fatal(err)
		}
	}
	set(more, func(step string) {
		switch conn := s.writer.tx.conn; step {
		case "the reserved space is free":
			there, err := rows.One(conn, "PRAGMA page_count")
			if err != nil {
				t.Error(err)
			}
			limit(conn, int(there+s.writer.headroom.size/8192))
		case "the disk has space again":
			limit(conn, 1) // SQLite makes it the number of pages in use
		}
	})
	return func() { set(1<<29, nil) }
}

// TestDatabaseFull: accepted events are in the tables, and what needs space is refused without harm
// to an outcome beside it.
func TestDatabaseFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grapnel.db")
	s, err := Open(t.Context(), path, Options{Ballast: 1 << 20, Bounds: Bounds{Retry: 50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	widen := narrow(t, s, 50)
	heads := fillUp(t, s, 3000)
	if len(heads) < 100 {
		t.Fatalf("only %d events before it was full", len(heads))
	}
	until(t, "the ballast", func() bool { return !s.Stats().Full })
	accepted(t, s, heads)

	// One transaction with an entry and an outcome: the outcome is recorded, the entry refused.
	commits := s.Stats().Commits
	release := hold(t, s)
	results := make(chan error)
	go func() {
		results <- s.Note(t.Context(), grapnel.AuditEntry{Tenant: "acme", Actor: grapnel.ActorItself, Verb: grapnel.VerbDisable,
			Reason: strings.Repeat("x", 4<<20)})
	}()
	until(t, "the entry", func() bool { return s.Stats().Queued == 1 })
	go func() { results <- settle(t, s, heads[0], 10) }()
	until(t, "the outcome", func() bool { return s.Stats().Queued == 2 })
	release()
	one, other := <-results, <-results
	if one == nil {
		one, other = other, one
	}
	if grapnel.CodeOf(one) != grapnel.CodeStorageFull || other != nil {
		t.Errorf("got %v and %v", one, other)
	}
	if n := s.Stats().Commits - commits; n != 2 {
		t.Errorf("%d commits where the holding one and one other were expected", n)
	}

	widen()
	until(t, "room", func() bool {
		_, err := publish(t, s, "evt_again", 3000)
		if err != nil && grapnel.CodeOf(err) != grapnel.CodeStorageFull {
			t.Fatal(err)
		}
		return err == nil
	})
	for _, h := range heads[1:] {
		if err := settle(t, s, h, 10); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-s.Fatal():
		t.Errorf("a full disk is not the end: %v", err)
	default:
	}
}

// TestWhatOutcomesBringAlongOnAFullDisk: operational events and audit entries of an outcome are
// written into the reserved space. An operator's order is new and is refused.
func TestWhatOutcomesBringAlongOnAFullDisk(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "grapnel.db"), Options{Ballast: 1 << 20, Bounds: Bounds{Retry: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	standard, _ := policy.Preset("standard")
	ep := grapnel.Endpoint{ID: "ep", Tenant: "acme", Policy: standard}
	if _, err := s.PutEndpoint(ctx, store.Everyone(), ep, store.With{}); err != nil {
		t.Fatal(err)
	}
	narrow(t, s, 0)
	heads := fillUp(t, s, 3000)
	unable := func(when string) {
		t.Helper()
		if err := s.Unable(); grapnel.CodeOf(err) != grapnel.CodeStorageFull {
			t.Errorf("%s the store says %v", when, err)
		}
	}
	unable("after the first event that was refused")
	if !s.Stats().Full {
		t.Fatal("the disk is not full")
	}
	now := time.Unix(1_700_000_100, 0)
	tell := &store.Batch{Config: 2, Events: []store.Incoming{{Targets: []store.Target{{Endpoint: "ep_other"}},
		Event: &grapnel.Event{ID: "news", Tenant: "acme", Type: grapnel.EventDeliveryFailed, Data: []byte("{}"), AcceptedAt: now}}}}
	entry := &grapnel.AuditEntry{At: now, Tenant: "acme", Actor: grapnel.ActorItself, Verb: grapnel.VerbDisable}
	done, err := s.Record(ctx, []store.Change{
		{Delivery: heads[0].Delivery, At: now, Status: grapnel.Failed, Operational: tell, Audit: entry,
			Standing: &store.Standing{Endpoint: "ep", Number: 1}},
		{Delivery: heads[1].Delivery, At: now, Status: grapnel.Pending, Due: now.Add(time.Hour), Attempt: &grapnel.Attempt{}, EndpointWide: true},
	})
	if err != nil || !done[0].Applied || done[0].Operational == nil || len(done[0].Operational.Heads) != 1 {
		t.Fatalf("got %+v, %v", done, err)
	}
	if n, err := s.MakeDue(ctx, "ep", store.MakingDue{Before: now.Add(1e9), At: now.Add(1e9)}, 10); n != 1 || err != nil {
		t.Errorf("made due %d, %v", n, err)
	}
	if all, err := s.Standings(ctx); err != nil || len(all) != 1 {
		t.Errorf("standings %v, %v", all, err)
	}
	if list, err := s.AuditList(ctx, store.Everyone(), store.AuditQuery{Limit: 10}); err != nil || len(list) != 1 {
		t.Errorf("entries %v, %v", list, err)
	}
	if _, _, err := s.Event(ctx, store.Everyone(), "acme", "news"); err != nil {
		t.Error(err)
	}

	unable("while outcomes are recorded")
	if err := s.Note(ctx, *entry); grapnel.CodeOf(err) != grapnel.CodeStorageFull {
		t.Errorf("Note: %v", err)
	}
	ep.Revision = 1
	_, err = s.PutEndpoint(ctx, store.Everyone(), ep, store.With{Operational: tell, Audit: entry})
	if grapnel.CodeOf(err) != grapnel.CodeStorageFull {
		t.Errorf("PutEndpoint: %v", err)
	}
	_, err = s.Again(ctx, store.Everyone(), store.Redelivery{Of: heads[0].Delivery, At: now, Audit: entry})
	if grapnel.CodeOf(err) != grapnel.CodeStorageFull {
		t.Errorf("Again: %v", err)
	}
}

// TestFullWithoutBallast: a disk that is still full does not count as usable.
func TestFullWithoutBallast(t *testing.T) {
	dir := t.TempDir()
	mountSmall(t, dir, 4<<20)
	m := &headroom{path: filepath.Join(dir, "ballast"), probe: bounds.Fill(Bounds{}).Probe}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, make([]byte, 4<<20-m.probe/2), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := m.again(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("on a full disk: %v", err)
		}
	}
	if err := os.Truncate(other, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := m.again(); err != nil {
		t.Errorf("with room: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestDiskFull flushes a small file system: accepted events are stored, outcomes are recorded in
// the ballast's space, and once space is free again the store recovers by itself.
func TestDiskFull(t *testing.T) {
	for name, b := range map[string]Bounds{"rows": {}, "file": apart} {
		t.Run(name, func(t *testing.T) { diskFull(t, b) })
	}
}

func diskFull(t *testing.T, b Bounds) {
	dir := t.TempDir()
	mountSmall(t, dir, 20<<20)
	path := filepath.Join(dir, "grapnel.db")
	b.Retry, b.Journal = time.Millisecond, journal.Bounds{Half: 2 << 20, First: 2 << 20}
	s, err := Open(t.Context(), path, Options{Ballast: 2 << 20, Bounds: b})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	// Another program's file takes most of the disk and is removed later.
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, make([]byte, 6<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	heads := fillUp(t, s, 2000)
	if len(heads) < 100 {
		t.Fatalf("only %d events before the disk was full", len(heads))
	}
	until(t, "the ballast to be given up", func() bool { // the store tries repeatedly whether the ballast fits
		_, err := os.Stat(path + ".ballast")
		return errors.Is(err, os.ErrNotExist)
	})
	accepted(t, s, heads)
	half := len(heads) / 2
	for _, h := range heads[:half] {
		if err := settle(t, s, h, 300); err != nil {
			t.Fatalf("an outcome on a full disk: %v", err)
		}
	}
	if _, err := publish(t, s, "evt_refused", 2000); grapnel.CodeOf(err) != grapnel.CodeStorageFull {
		t.Errorf("got %v", err)
	}
	if err := s.Unable(); grapnel.CodeOf(err) != grapnel.CodeStorageFull || !s.Stats().Full {
		t.Errorf("the disk is full, and the store says %v, %v", err, s.Stats().Full)
	}

	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	until(t, "room", func() bool {
		_, err := publish(t, s, "evt_after", 2000)
		if err != nil && grapnel.CodeOf(err) != grapnel.CodeStorageFull {
			t.Fatal(err)
		}
		return err == nil
	})
	if err := s.Unable(); err != nil {
		t.Errorf("there is room, and the store says %v", err)
	}
	if info, err := os.Stat(path + ".ballast"); err != nil || info.Size() != 2<<20 {
		t.Errorf("the ballast is not back: %v", err)
	}
	if n, err := s.Waiting(t.Context(), "ep", 1<<30); err != nil || n != len(heads)-half+1 {
		t.Errorf("%d wait: %v", n, err)
	}

	// A start on a full disk gives up the ballast as well, and reads everything.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for size := 4 << 20; size > 0; size /= 2 {
		f, err := os.OpenFile(other, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		_ = f.Close()
	}
	if s, err = Open(t.Context(), path, Options{Ballast: 2 << 20, Bounds: Bounds{Retry: time.Hour}}); err != nil {
		t.Fatalf("opening on a full disk: %v", err)
	}
	for _, h := range heads[half:] {
		if err := settle(t, s, h, 10); err != nil {
			t.Fatalf("an outcome after a start on a full disk: %v", err)
		}
	}
	if err := s.Unable(); grapnel.CodeOf(err) != grapnel.CodeStorageFull {
		t.Errorf("after a start on a full disk the store says %v", err)
	}
}
