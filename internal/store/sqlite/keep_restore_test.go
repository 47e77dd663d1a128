package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
	"github.com/grapnelhq/grapnel/policy"
)

func unused(*Store) error { return nil }

// restored makes a database of a backup, and leaves nothing else beside it.
func restored(t *testing.T, backup []byte, use func(*Store) error) (path string, err error) {
	t.Helper()
	path = filepath.Join(fast(t), "grapnel.db")
	err = Restore(t.Context(), bytes.NewReader(backup), path, Options{}, use)
	for _, left := range namesIn(t, filepath.Dir(path)) {
		if err != nil || left != "grapnel.db" && left != "grapnel.db.lock" {
			t.Errorf("a restore that ended with %v left %s", err, left)
		}
	}
	return path, err
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		names = append(names, f.Name())
	}
	return names
}

// history is a backup of a database with random rows: its bytes and its content.
func historyOf(t *testing.T, seed, steps int) (backup []byte, want string) {
	t.Helper()
	s, path := openWith(t, apart)
	r := &randomly{Rand: rand.New(rand.NewPCG(uint64(seed), 43)), t: t, s: s, config: 1, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	for range steps {
		r.step(t.Context())
	}
	standard, _ := policy.Preset("standard")
	for _, id := range []string{"ep", "ep_a", "ep_b", "q_a"} {
		ep := grapnel.Endpoint{ID: id, Tenant: "acme", Status: grapnel.EndpointEnabled, Policy: standard}
		if _, err := s.PutEndpoint(t.Context(), store.Everyone(), ep, store.With{}); err != nil {
			t.Fatal(err)
		}
	}
	r.config += 4
	for i := range 3 { // a delivery that was created after its event
		in := r.event()
		in.Event.ID, in.Event.Key, in.Known = fmt.Sprint("again_", i), "", nil
		in.Targets = []store.Target{{Endpoint: "ep_a"}}
		done, err := s.Append(t.Context(), store.Batch{Config: r.config, Events: []store.Incoming{in}})
		if err != nil {
			t.Fatal(err)
		}
		h := done.Heads[0]
		skip := store.Change{Delivery: h.Delivery, Expect: store.AnyAttempts, At: r.now, Status: grapnel.Skipped}
		if _, err := s.Record(t.Context(), []store.Change{skip}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Again(t.Context(), store.Everyone(), store.Redelivery{Of: h.Delivery, At: r.now.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(fast(t), "backup.db")
	if whole, err := Backup(t.Context(), path, to); err != nil || !whole {
		t.Fatalf("whole %v, %v", whole, err)
	}
	return read(t, to), contentAt(t, snapshot(t, path))
}

// TestRestore makes databases of backups of random histories: each has what the backup had.
func TestRestore(t *testing.T) {
	for seed := range 8 {
		backup, want := historyOf(t, seed, 120)
		used := false
		path, err := restored(t, backup, func(s *Store) error {
			used = true
			heads, err := s.Heads(t.Context(), "ep_a", 1)
			if err == nil && len(heads) == 0 {
				err = errors.New("nothing is pending")
			}
			return err
		})
		if err != nil || !used {
			t.Fatalf("seed %d: used %v, %v", seed, used, err)
		}
		if !bytes.Equal(read(t, path)[18:20], []byte{1, 1}) {
			t.Error("the database has the form of one that needs a log")
		}
		if got := contentAt(t, path); got != want {
			t.Errorf("seed %d: %s", seed, difference(got, want))
		}
	}
}

// TestRestoreVerifies plants one damage at a time in a backup: each is found, before there is a
// database.
func TestRestoreVerifies(t *testing.T) {
	backup, _ := historyOf(t, 1, 120)
	changed := func(sql string) []byte {
		t.Helper()
		path := filepath.Join(fast(t), "changed.db")
		if err := os.WriteFile(path, backup, 0o600); err != nil {
			t.Fatal(err)
		}
		conn, err := sqlite3.Open(path, sqlite3.ReadWrite)
		if err == nil {
			if err = conn.Exec(sql); err == nil && conn.Changed() == 0 {
				err = fmt.Errorf("nothing was changed by %s", sql)
			}
			err = errors.Join(err, conn.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return read(t, path)
	}
	page := bytes.Clone(backup)
	clear(page[len(page)/2/pageSize*pageSize:][:pageSize])
	logged := bytes.Clone(backup)
	logged[18], logged[19] = 2, 2
	for name, tc := range map[string]struct {
		backup []byte
		says   string
	}{
		"a text":                   {[]byte(strings.Repeat("no database ", 100)), "no database"},
		"empty":                    {nil, "no database"},
		"cut off":                  {backup[:len(backup)/2], "not a complete backup"},
		"a page of zeros":          {page, "not a complete backup"},
		"a file beside a log":      {logged, "make a backup of that database"},
		"another program's":        {changed("PRAGMA application_id = 7; UPDATE ledger SET purged = purged"), "another program"},
		"a newer program's":        {changed("INSERT INTO grapnel_schema VALUES (9999, 'later', 'x')"), "newer"},
		"a journal is needed":      {changed("UPDATE journal SET needed = 1"), "in other files"},
		"a file of data is needed": {changed("UPDATE journal SET data = 1"), "in other files"},
		"no event":                 {changed("DELETE FROM event WHERE seq = (SELECT max(event) FROM pending)"), wrongRows[0].what},
		"no endpoint":              {changed("DELETE FROM endpoint WHERE id = 'ep_a'"), wrongRows[1].what},
		"pending and finished": {changed("UPDATE finished SET seq = (SELECT max(seq) FROM pending)" +
			" WHERE seq = (SELECT max(seq) FROM finished)"), wrongRows[2].what},
		"another event": {changed("UPDATE pending SET event = (SELECT max(seq) FROM event) WHERE seq = (SELECT min(seq) FROM pending)"), wrongRows[3].what},
		"another time":  {changed("UPDATE pending SET created = created + 1 WHERE seq = (SELECT min(seq) FROM pending)"), wrongRows[3].what},
		"no head": {changed("UPDATE pending SET head = 0 WHERE seq = " +
			"(SELECT min(seq) FROM pending WHERE position > 0 AND head = 1)"), wrongRows[4].what},
		"a wrong count":                {changed("UPDATE tally SET n = n + 1 WHERE status = 1"), wrongRows[5].what},
		"a count of what is not there": {changed("INSERT INTO tally (target, tenant, status, n) VALUES (99, 99, 1, 1)"), wrongRows[6].what},
		"a wrong count of letters": {changed("INSERT OR IGNORE INTO letter SELECT target, seq, tenant FROM finished LIMIT 1;" +
			" UPDATE tally SET letters = 0"), wrongRows[7].what},
		"letters that are not there": {changed("INSERT INTO tally (target, tenant, status, n, letters) VALUES (99, 99, 1, 0, 1)"), wrongRows[8].what},
		"other data":                 {changed("UPDATE event SET sum = sum + 1 WHERE seq = (SELECT max(event) FROM pending)"), "not those that were accepted"},
	} {
		if _, err := restored(t, tc.backup, unused); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", name, err, tc.says)
		}
	}
}

// TestRestoreIntoNothing: a restore overwrites no database and no part of one. An interrupted one
// leaves no database, and no server begins an empty one beside its file.
func TestRestoreIntoNothing(t *testing.T) {
	backup, _ := historyOf(t, 2, 60)
	for _, suffix := range []string{"", "-wal", ".journal", ".data"} {
		path := filepath.Join(fast(t), "grapnel.db")
		if err := os.WriteFile(path+suffix, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Restore(t.Context(), bytes.NewReader(backup), path, Options{}, unused)
		if grapnel.CodeOf(err) != grapnel.CodeConflict || !strings.Contains(err.Error(), path+suffix) || string(read(t, path+suffix)) != "mine" {
			t.Errorf("over %s: %v", path+suffix, err)
		}
	}
	s, path := openWith(t, Bounds{})
	if err := Restore(t.Context(), bytes.NewReader(backup), path, Options{}, unused); grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Errorf("over an open database: %v", err)
	}
	if _, err := publish(t, s, "evt_later", 10); err != nil {
		t.Error(err)
	}
	broken := errors.New("broken")
	if _, err := restored(t, backup, func(*Store) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a use that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	to := filepath.Join(fast(t), "grapnel.db")
	err := Restore(ctx, io.MultiReader(bytes.NewReader(backup[:pageSize]), reading(func() { cancel() })), to, Options{}, unused)
	if !errors.Is(err, context.Canceled) || len(namesIn(t, filepath.Dir(to))) > 0 {
		t.Errorf("cancelled: %v, %v", err, namesIn(t, filepath.Dir(to)))
	}
	if err := os.WriteFile(to+unfinished, backup[:pageSize], 0o600); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), to, Options{Ballast: -1}); err == nil || !strings.Contains(err.Error(), "interrupted") {
		_ = s.Close()
		t.Errorf("beside an interrupted restore: %v", err)
	}
	if err := Restore(t.Context(), bytes.NewReader(backup), to, Options{}, unused); err != nil {
		t.Errorf("repeated: %v", err)
	}
	if got := namesIn(t, filepath.Dir(to)); len(got) != 2 {
		t.Errorf("repeated, there are %v", got)
	}
}

// reading is an endless source of bytes.
type reading func()

func (r reading) Read(p []byte) (int, error) {
	r()
	return len(p), nil
}
