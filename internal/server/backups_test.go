package server

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// scheduled are backups by a clock that the test sets.
type scheduled struct {
	*backups
	t     *testing.T
	clock time.Time
	fails error
	part  bool // the next one is not whole
}

func newScheduled(t *testing.T, dir, name string, at time.Time) *scheduled {
	s := &scheduled{t: t, clock: at}
	s.backups = newBackups(&Options{Name: name, Backups: BackupOptions{Dir: dir, Every: 6 * time.Hour, Keep: 3}, Log: slog.New(slog.DiscardHandler)})
	s.now = func() time.Time { return s.clock }
	s.size = func() (int64, error) { return 5, nil }
	s.copy = func(_ context.Context, to string) (bool, error) {
		if _, err := os.Stat(to); err == nil {
			t.Errorf("%s is there already", to)
		}
		if s.fails != nil {
			return false, s.fails
		}
		return !s.part, os.WriteFile(to, []byte("whole"), 0o600)
	}
	return s
}

// passes lets time pass, in steps of a minute, as run does.
func (s *scheduled) passes(d time.Duration) {
	for end := s.clock.Add(d); ; s.clock = s.clock.Add(time.Minute) {
		for !s.due(s.clock).After(s.clock) {
			s.once(s.t.Context())
			if s.failed > 0 {
				break
			}
		}
		if !s.clock.Before(end) {
			return
		}
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// TestBackupsFollowTheFiles: the next backup is due by the newest file, through restarts. Only a
// complete backup removes older ones, and only those of its own installation.
func TestBackupsFollowTheFiles(t *testing.T) {
	dir, begin := t.TempDir(), time.Date(2026, 11, 29, 9, 0, 0, 5000, time.UTC)
	for _, other := range []string{"grapnel-20200101T000000Z.db", "grapnel-eu-notes.db", "grapnel-eu-20260101T000000Z.db.gz"} {
		if err := os.WriteFile(filepath.Join(dir, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	others := namesIn(t, dir)
	holds := func(when string, want ...string) {
		t.Helper()
		got := slices.DeleteFunc(namesIn(t, dir), func(name string) bool { return slices.Contains(others, name) })
		for i := range want {
			want[i] = "grapnel-eu-" + want[i] + ".db"
		}
		if !slices.Equal(got, want) || len(namesIn(t, dir)) != len(got)+len(others) {
			t.Fatalf("%s: %v, want %v", when, namesIn(t, dir), want)
		}
	}
	s := newScheduled(t, dir, "eu", begin)
	s.passes(0)
	holds("at the first start", "20261129T090000Z")
	for range 5 { // restarts
		s = newScheduled(t, dir, "eu", s.clock.Add(time.Hour))
		s.passes(0)
	}
	holds("restarted for 5 h", "20261129T090000Z")
	s.passes(12 * time.Hour)
	holds("after 17 h", "20261129T090000Z", "20261129T150000Z", "20261129T210000Z")

	s.fails = errors.New("no space")
	s.passes(12 * time.Hour)
	holds("while they fail", "20261129T090000Z", "20261129T150000Z", "20261129T210000Z")
	if n := s.done[false]; n < 100 || n > 140 {
		t.Errorf("over 11 h of failures %d were tried", n)
	}
	f := alert.Facts{Now: s.clock, Backups: s.state()}
	if all := f.Samples(); len(all) != 1 || all[0].Rule != alert.BackupFails || all[0].Value < 100 || !strings.Contains(all[0].Text, "no space") ||
		!strings.Contains(all[0].Text, "2026-11-29T21:00:00Z") {
		t.Errorf("the alert's samples: %+v", all)
	}
	s.fails, s.part = nil, true
	s.passes(10 * time.Minute)
	holds("while they are not complete", "20261129T090000Z", "20261129T150000Z", "20261129T210000Z")
	if err := os.WriteFile(filepath.Join(dir, "grapnel-eu-unfinished.db"), []byte("wh"), 0o600); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	s.part = false
	s.passes(5 * time.Minute)
	all, _ := s.list()
	if len(all) != 3 || s.state().Failed != 0 || all[2].Before(begin.Add(24*time.Hour)) {
		t.Errorf("repaired: %v, %+v", all, s.state())
	}
	later := s.path(s.clock.Add(1000 * time.Hour)) // by a clock that was ahead
	if err := os.WriteFile(later, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.passes(7 * time.Hour)
	if all, _ = s.list(); len(all) != 3 || s.clock.Sub(all[1]) > 2*time.Hour {
		t.Errorf("beside one of the future: %v", all)
	}
	none := newScheduled(t, filepath.Join(dir, "none"), "", begin)
	none.copy = func(ctx context.Context, to string) (bool, error) { return sqlite.Backup(ctx, "/dev/null", to) }
	none.passes(0)
	if _, err := os.Stat(none.o.Dir); !errors.Is(err, fs.ErrNotExist) || none.failed != 1 {
		t.Errorf("a directory that does not exist: %v, %d failures", err, none.failed)
	}
	full := newScheduled(t, dir, "", begin)
	full.size = func() (int64, error) { return 1 << 60, nil }
	full.once(t.Context())
	if grapnel.CodeOf(full.err) != grapnel.CodeStorageFull || !strings.Contains(full.err.Error(), "free, and the database takes") {
		t.Errorf("with too little space: %v", full.err)
	}
}

// TestAServerBacksItselfUp: a server makes backups while it is used. Each has every event that was
// acknowledged before the backup began.
func TestAServerBacksItselfUp(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	o.Backups = BackupOptions{Dir: t.TempDir(), Every: time.Second, Keep: 2}
	o.Bounds.Backups.Look = 20 * time.Millisecond
	s := start(t, o)
	c := s.client(t, testKey)
	if _, err := c.CreateQueue(t.Context(), client.NewQueue{Name: "jobs"}); err != nil {
		t.Fatal(err)
	}
	var made []time.Time
	var acknowledged []time.Time
	for until := time.Now().Add(30 * time.Second); len(made) < 2 || len(acknowledged) < 50 || made[1].Before(acknowledged[20]); {
		if time.Now().After(until) {
			t.Fatalf("there are %v, and %+v", namesIn(t, o.Backups.Dir), s.backups.state())
		}
		if _, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte("1")}); err != nil {
			t.Fatal(err)
		}
		acknowledged = append(acknowledged, time.Now())
		made, _ = s.backups.list()
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	made, _ = s.backups.list()
	if got := namesIn(t, o.Backups.Dir); len(got) != 2 || len(made) != 2 {
		t.Fatalf("there are %v", got)
	}
	for _, at := range made {
		before := int64(0)
		for _, ack := range acknowledged {
			if ack.Before(at) {
				before++
			}
		}
		f, err := os.Open(s.backups.path(at))
		if err != nil {
			t.Fatal(err)
		}
		found, err := Restore(t.Context(), f, -1, t.TempDir(), false, &Options{Store: DefaultStore})
		pending := int64(0)
		for i := range found.Endpoints { // none yet, if it began before the first event
			pending += found.Endpoints[i].Pending
		}
		if err != nil || f.Close() != nil || pending < before {
			t.Errorf("before the backup of %v %d events were acknowledged; it has %+v, %v", at, before, found, err)
		}
	}
}
