package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// secret is a text that occurs in a file only if this test's data were written there.
func secret(i int) string { return fmt.Sprintf("<secret-%06d-of-somebody>", i) }

// files are the bytes of all files of a database.
func files(t *testing.T, path string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	for _, suffix := range []string{"", "-wal", "-shm", ".journal", ".data"} {
		b, err := os.ReadFile(path + suffix)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		all[suffix] = b
	}
	return all
}

// secretsIn are the numbers of the secrets that are found in a file.
func secretsIn(b []byte) map[int]bool {
	found := make(map[int]bool)
	for {
		at := bytes.Index(b, []byte("<secret-"))
		if at < 0 {
			return found
		}
		b = b[at:]
		var n int
		if _, err := fmt.Sscanf(string(b[:min(len(b), 32)]), "<secret-%06d-of-somebody>", &n); err == nil {
			found[n] = true
		}
		b = b[1:]
	}
}

// tail is a part of the compressed data that no other data contain; nil if they are stored
// uncompressed.
func (s *Store) tail(data []byte) []byte {
	f, err := s.packer.Freeze(context.Background(), &grapnel.Event{Data: data})
	if err != nil || f.Packed == 0 {
		return nil
	}
	kept := f.Data
	return kept[len(kept)-24:]
}

// TestPurgedBytesAreGone publishes events of all sizes, with receivers' answers that echo them,
// removes some of them in pages of all sizes, and looks for the removed data in the bytes of the
// files: data stored as published, compressed data, receivers' answers, metadata and notes.
func TestPurgedBytesAreGone(t *testing.T) {
	for name, b := range map[string]Bounds{"rows": {}, "file": apart} {
		t.Run(name, func(t *testing.T) { purgedBytesAreGone(t, b) })
	}
}

func purgedBytesAreGone(t *testing.T, b Bounds) {
	n := 1500
	if slow() {
		n = 300
	}
	b.Behind = int64(n) / 4
	s, path := openWith(t, b)
	random := rand.New(rand.NewPCG(1, 2))
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	packed := make(map[int][]byte)
	var seq []int64
	for i := range n {
		size := []int{0, 0, 50, 400, 900, 3000, 9000, 30000}[random.IntN(8)]
		text := make([]byte, size)
		for j := range text {
			if text[j] = ' '; j > len(text)/2 {
				text[j] = "0123456789abcdef"[random.IntN(16)]
			}
		}
		data := []byte(secret(i) + string(text))
		if tail := s.tail(data); tail != nil {
			packed[i] = tail
		}
		e := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: []string{"short", "long"}[i%2], Key: fmt.Sprint("k", i%20),
			ContentType: grapnel.JSONType,
			Data:        data, Metadata: map[string]string{"about": secret(i)}, AcceptedAt: base.Add(time.Duration(i) * time.Second)}
		done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e,
			Targets: []store.Target{{Endpoint: "ep"}}}}})
		if err != nil {
			t.Fatal(err)
		}
		seq = append(seq, done.Heads[0].Delivery)
	}
	if len(packed) == 0 {
		t.Fatal("nothing is kept packed")
	}
	// Outcomes come in another order, and some after a failed attempt.
	const waits = 10 // one in this number stays pending
	for _, i := range random.Perm(n) {
		at := base.Add(time.Duration(i) * time.Second)
		attempt := grapnel.Attempt{Number: 1, StatusCode: 500, ResponseBody: []byte("no: " + secret(i)),
			ResponseHeaders: map[string]string{"x": secret(i)}}
		changes := []store.Change{{Delivery: seq[i], At: at, Status: grapnel.Pending, Due: at, Attempt: &attempt}}
		if i%waits != 0 {
			changes = append(changes, store.Change{Delivery: seq[i], Expect: 1, At: at, Status: grapnel.Failed, Reason: "no", Attempt: &attempt})
		}
		if _, err := s.Record(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		if note := "note: " + secret(i); i%3 == 0 && i%waits != 0 {
			if err := s.Annotate(t.Context(), store.Everyone(), store.Annotation{Delivery: seq[i], Note: &note}); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(now time.Time, keep store.Keep) {
		t.Helper()
		gone := func(i int) bool {
			at := base.Add(time.Duration(i) * time.Second)
			return i%waits != 0 && now.Sub(at) > keep.Of("acme", []string{"short", "long"}[i%2])
		}
		all := files(t, path)
		for name, b := range all {
			for i := range secretsIn(b) {
				if gone(i) {
					t.Fatalf("event %d is found in the file %q after it was purged", i, name)
				}
			}
			for i, tail := range packed {
				if gone(i) && bytes.Contains(b, tail) {
					t.Fatalf("the packed data of event %d are found in the file %q after it was purged", i, name)
				}
			}
		}
		all[""] = append(all[""], all[".data"]...)
		there := secretsIn(all[""])
		for i := range n {
			if !gone(i) && !there[i] {
				t.Fatalf("event %d is not found, though nobody purged it", i)
			}
			if tail := packed[i]; tail != nil && !gone(i) && !bytes.Contains(all[""], tail) {
				t.Fatalf("the packed data of event %d are not found, though nobody purged it", i)
			}
		}
		if len(all["-wal"]) > 0 {
			t.Errorf("the log has %d bytes", len(all["-wal"]))
		}
	}
	endings := func() (all, orphans int) {
		t.Helper()
		if err := s.read(t.Context(), func(r *sqlite3.Conn) error {
			all = len(allRows(t, r, "SELECT number FROM ending"))
			orphans = len(allRows(t, r, "SELECT number FROM ending WHERE number NOT IN (SELECT last FROM finished WHERE typeof(last) = 'integer')"))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all, orphans
	}
	before, _ := endings()
	total := time.Duration(n) * time.Second
	rules := []store.KeepRule{{Type: "long", For: total / 2}}
	for part := time.Duration(1); part <= 8; part++ {
		keep := store.Keep{Now: base.Add(total * part / 4), Rules: rules}
		for {
			limit := 1 + random.IntN(300)
			removed, err := s.Purge(t.Context(), keep, limit)
			if err != nil {
				t.Fatal(err)
			}
			if removed < limit {
				break
			}
		}
		check(keep.Now, keep)
	}
	if after, orphans := endings(); before < n/4 || after >= before || orphans > 0 {
		t.Errorf("%d, then %d attempts are apart from their deliveries; %d of them have none", before, after, orphans)
	}
	if off, err := s.Imbalance(t.Context()); err != nil || off != 0 {
		t.Errorf("imbalance %d, %v", off, err)
	}
	if text := strings.Join(integrity(t, path), "; "); text != "ok" {
		t.Errorf("the database is damaged: %s", text)
	}
}

// integrity is the output of SQLite's integrity check.
func integrity(t *testing.T, path string) []string {
	t.Helper()
	conn, err := connect(path, sqlite3.ReadOnly, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return allRows(t, conn, "PRAGMA integrity_check")
}

// stocked flushes a store with n finished deliveries, one per second, atOnce in a transaction.
func stocked(t testing.TB, s *Store, base time.Time, n, atOnce int) {
	t.Helper()
	stockedFrom(t, s, base, 0, n, atOnce)
}

// stockedFrom does so with the deliveries from a number to another one.
func stockedFrom(t testing.TB, s *Store, base time.Time, from, to, atOnce int) {
	t.Helper()
	for ; from < to; from += atOnce {
		var events []store.Incoming
		for i := from; i < min(from+atOnce, to); i++ {
			e := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: "a.b", Key: fmt.Sprint("k", i%100), ContentType: grapnel.JSONType,
				Data: append([]byte(secret(i)), make([]byte, 900)...), AcceptedAt: base.Add(time.Duration(i) * time.Second)}
			events = append(events, store.Incoming{Event: e, Targets: []store.Target{{Endpoint: fmt.Sprint("ep", i%10)}}})
		}
		done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: events})
		if err != nil {
			t.Fatal(err)
		}
		var changes []store.Change
		for i, h := range done.Heads {
			changes = append(changes, store.Change{Delivery: h.Delivery, At: events[i].Event.AcceptedAt, Status: grapnel.Delivered,
				Attempt: &grapnel.Attempt{Number: 1, StatusCode: 200, ResponseBody: []byte("ok")}})
		}
		if _, err := s.Record(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPurgeGoesOnAfterAKill takes the files as they are after some of a purge's transactions. The
// rest of the rows is intact, the next purge removes the remaining expired ones, and it also
// removes the bytes that the first had not yet removed from the files.
func TestPurgeGoesOnAfterAKill(t *testing.T) {
	const n = 300
	s, path := openNew(t)
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stocked(t, s, base, n, 500)
	totals, err := s.Totals(t.Context(), store.Everyone(), store.TotalsQuery{})
	if err != nil {
		t.Fatal(err)
	}
	keep := store.Keep{Now: base.Add(time.Hour)}
	for step := range 4 {
		found, err := s.old(t.Context(), keep, 40)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.removeOld(t.Context(), found); n != 40 || err != nil {
			t.Fatalf("removed %d: %v", n, err)
		}
		copied := snapshot(t, path)
		next, err := Open(t.Context(), copied, Options{Ballast: -1})
		if err != nil {
			t.Fatal(err)
		}
		left := n - 40*(step+1)
		counts, err := next.Counts(t.Context(), store.Everyone())
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range counts {
			left -= int(of[grapnel.Delivered])
		}
		if left != 0 {
			t.Errorf("%d deliveries are missing in the counts", left)
		}
		if removed, err := next.Purge(t.Context(), keep, 0); removed != 0 || err != nil { // without expired rows
			t.Fatalf("removed %d: %v", removed, err)
		}
		for name, b := range files(t, copied) {
			for i := range secretsIn(b) {
				if i < 40*(step+1) {
					t.Fatalf("event %d is in the file %q", i, name)
				}
			}
		}
		removed, err := next.Purge(t.Context(), keep, n)
		if err != nil || removed != n-40*(step+1) {
			t.Errorf("removed %d of %d: %v", removed, n-40*(step+1), err)
		}
		for name, b := range files(t, copied) {
			if found := secretsIn(b); len(found) > 0 {
				t.Errorf("%d events are in the file %q", len(found), name)
			}
		}
		if off, err := next.Imbalance(t.Context()); off != 0 || err != nil {
			t.Errorf("imbalance %d, %v", off, err)
		}
		if again, err := next.Totals(t.Context(), store.Everyone(), store.TotalsQuery{}); err != nil || !slices.Equal(again, totals) {
			t.Errorf("totals %+v, want %+v: %v", again, totals, err)
		}
		if text := strings.Join(integrity(t, copied), "; "); text != "ok" {
			t.Errorf("the database is damaged: %s", text)
		}
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPurgeAmongReaders empties the log during continuous lists, so that there is never a moment
// without a read.
func TestPurgeAmongReaders(t *testing.T) {
	s, path := openNew(t)
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stocked(t, s, base, 400, 500)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.DeliveryList(ctx, store.Everyone(), store.DeliveryQuery{Limit: 200}); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := publish(t, s, fmt.Sprint("evt_later_", i), 10); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	removed, err := s.Purge(t.Context(), store.Keep{Now: base.Add(time.Hour)}, 1000)
	stop()
	all.Wait()
	if removed < 400 || err != nil {
		t.Fatalf("removed %d: %v", removed, err)
	}
	for name, b := range files(t, path) {
		if found := secretsIn(b); len(found) > 0 {
			t.Errorf("%d events are in the file %q", len(found), name)
		}
	}
}

// TestTheFirstEventsAreGone removes a few of many events. Pages that a purge does not change must
// not contain copies of the removed rows either.
func TestTheFirstEventsAreGone(t *testing.T) {
	path := filepath.Join(fast(t), "grapnel.db")
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var s *Store
	for range 2 { // a restarted log no longer has the changed pages
		var err error
		if s, err = Open(t.Context(), path, Options{Ballast: -1}); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if counts, err := s.Counts(t.Context(), store.Everyone()); err != nil || len(counts) > 0 {
			break
		}
		stocked(t, s, base, 200, 1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for gone := 3; gone < 60; gone += 3 {
		keep := store.Keep{Now: base.Add(time.Hour), For: time.Hour - time.Duration(gone)*time.Second}
		if n, err := s.Purge(t.Context(), keep, 100); n != 3 || err != nil {
			t.Fatalf("removed %d: %v", n, err)
		}
		for name, b := range files(t, path) {
			for i := range secretsIn(b) {
				if i < gone {
					t.Fatalf("event %d is found in the file %q after %d were purged", i, name, gone)
				}
			}
		}
	}
}

// TestPurgedKeysAreGone: keys are in the rows of pending deliveries, in their indexes and in those
// of lanes. When a backlog is drained, pages of these become free or lose rows to others. After a
// purge no file has a key, except those of deliveries that still wait.
func TestPurgedKeysAreGone(t *testing.T) {
	const n, waits = 1500, 10 // one in this number stays pending
	s, path := openNew(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	flushed := func(i int) {
		t.Helper()
		if i%100 > 0 {
			return
		}
		if err := s.write(t.Context(), flushing{}); err != nil {
			t.Fatal(err)
		}
	}
	var all []int64
	for i := range n {
		e := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: "a.b", Key: secret(i), AcceptedAt: at}
		done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e,
			Targets: []store.Target{{Endpoint: "ep", Ordered: true}}}}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, done.Heads[0].Delivery)
		flushed(i)
	}
	for ended, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		if i%waits == 0 {
			continue
		}
		done, err := s.Record(t.Context(), []store.Change{{Delivery: all[i], At: at, Status: grapnel.Delivered}})
		if err != nil || !done[0].Applied {
			t.Fatal(done, err)
		}
		if flushed(ended); ended == n/2 { // the next purge does not see what changed before this
			if err := s.empty(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if removed, err := s.Purge(t.Context(), store.Keep{Now: at.Add(time.Hour)}, n); removed != n-n/waits || err != nil {
		t.Fatalf("removed %d: %v", removed, err)
	}
	for name, b := range files(t, path) {
		for i := range secretsIn(b) {
			if i%waits != 0 {
				t.Errorf("the key of event %d is found in the file %q", i, name)
			}
		}
	}
}
