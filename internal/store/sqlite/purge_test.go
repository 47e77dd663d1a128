package sqlite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// secret is a text that is in a file only if somebody wrote it there.
func secret(i int) string { return fmt.Sprintf("<secret-%06d-of-somebody>", i) }

// files are the bytes of all files of a database.
func files(t *testing.T, path string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	for _, suffix := range []string{"", "-wal", "-shm"} {
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

// tail is a part of what data are packed to that no other data are.
func (s *Store) tail(data []byte) []byte {
	packed := s.packer.pack(data)
	return packed[len(packed)-24:]
}

// TestPurgedBytesAreGone publishes events of all sizes, with what receivers answered echoing them, removes some of them in pages of
// all sizes, and looks for what was removed in the bytes of the files: what was kept as it was published, what was kept packed, what the
// receivers answered, metadata and notes.
func TestPurgedBytesAreGone(t *testing.T) {
	n := 3000
	if slow {
		n = 600
	}
	s, path := openNew(t)
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
		if len(data) > packFrom {
			packed[i] = s.tail(data)
		}
		e := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: []string{"short", "long"}[i%2], Key: fmt.Sprint("k", i%20), ContentType: grapnel.JSONType,
			Data: data, Metadata: map[string]string{"about": secret(i)}, AcceptedAt: base.Add(time.Duration(i) * time.Second)}
		done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e, Targets: []store.Target{{Endpoint: "ep"}}}}})
		if err != nil {
			t.Fatal(err)
		}
		seq = append(seq, done.Heads[0].Delivery)
	}
	// Outcomes come in another order, and some after an attempt that failed.
	const waits = 10 // of each so many one is never over
	for _, i := range random.Perm(n) {
		at := base.Add(time.Duration(i) * time.Second)
		attempt := grapnel.Attempt{Number: 1, StatusCode: 500, ResponseBody: []byte("no: " + secret(i)), ResponseHeaders: map[string]string{"x": secret(i)}}
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
	if off, err := s.Imbalance(t.Context()); err != nil || off != 0 {
		t.Errorf("imbalance %d, %v", off, err)
	}
	if text := strings.Join(integrity(t, path), "; "); text != "ok" {
		t.Errorf("the database is damaged: %s", text)
	}
}

// integrity is what SQLite says about the state of a database.
func integrity(t *testing.T, path string) (lines []string) {
	t.Helper()
	conn, err := connect(path, sqlite3.ReadOnly, readerCache)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	q, err := conn.Prepare("PRAGMA integrity_check")
	if err != nil {
		t.Fatal(err)
	}
	for {
		more, err := q.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return lines
		}
		lines = append(lines, q.String(0))
	}
}
