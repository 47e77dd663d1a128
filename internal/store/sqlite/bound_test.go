package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// beside are the files of a database, by what their names end with.
var beside = []string{"", "-wal", "-shm", ".journal", ".data", ".lock"}

// instant is a database as a kill or a stop has left it.
type instant struct {
	name, path string
	events     int   // the events evt_0, evt_1, … were acknowledged
	torn       int64 // in the journal behind this place a damage is taken for a torn write
}

// life makes moments of a database. Between two of them the tables get a frame that the first does
// not have: which frames came after the last flush only the journal knows.
type life struct {
	t       *testing.T
	s       *Store
	path    string
	events  int
	moments []instant
}

var boundsOfLife = Bounds{Apart: 2000, LeastApart: 1000, ApartStep: 4096, FlushEvery: time.Hour,
	Journal: journal.Bounds{Half: 128 << 10, First: 64 << 10, Step: 4096}}

func (l *life) open() {
	l.t.Helper()
	l.s = openAt(l.t, l.path, boundsOfLife)
	l.s.checkpoints.at = 1 << 40
}

// publish publishes batches of two events; their data have a place of their own if large.
func (l *life) publish(batches, size int) {
	l.t.Helper()
	for range batches {
		b := store.Batch{Config: 1}
		for range 2 {
			b.Events = append(b.Events, store.Incoming{Targets: []store.Target{{Endpoint: "ep"}}, Event: &grapnel.Event{ID: fmt.Sprint("evt_", l.events), Tenant: "acme",
				Type: "a.b", AcceptedAt: time.UnixMicro(1), Data: dataOf(l.events, size)}})
			l.events++
		}
		if _, err := l.s.Append(l.t.Context(), b); err != nil {
			l.t.Fatal(err)
		}
	}
}

// dataOf is data that cannot be compressed.
func dataOf(event, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(event), byte(event >> 8)}).Read(data)
	return data
}

// note lets SQLite commit and sync a transaction.
func (l *life) note() {
	l.t.Helper()
	if err := l.s.Note(l.t.Context(), grapnel.AuditEntry{Tenant: "acme", Actor: grapnel.ActorItself, Verb: grapnel.VerbDisable}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) flush() {
	l.t.Helper()
	if err := l.s.write(l.t.Context(), flushing{}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) checkpoint() {
	copied := make(chan struct{})
	l.s.checkpoints.asked <- copied
	<-copied
}

// copied notes the present moment.
func (l *life) copied(name string) {
	l.t.Helper()
	m := instant{name: name, path: snapshot(l.t, l.path), events: l.events}
	if j := l.s.writer.unflushed.journal; j != nil {
		unflushed := &l.s.writer.unflushed
		m.torn = j.End()
		if n := len(unflushed.ends); n > 0 {
			m.torn -= int64(len(unflushed.frames))
			if n > 1 {
				m.torn += int64(unflushed.ends[n-2])
			}
		}
	}
	l.moments = append(l.moments, m)
}

func (l *life) close() {
	l.t.Helper()
	if err := l.s.Close(); err != nil {
		l.t.Fatal(err)
	}
}

// lives are two lives of a database, and the moments in them.
func lives(t *testing.T) []instant {
	t.Helper()
	s, path := openWith(t, boundsOfLife)
	s.checkpoints.at = 1 << 40
	l := &life{t: t, s: s, path: path}
	l.publish(4, 1500)
	l.publish(2, 100)
	l.copied("killed")
	l.close()
	l.copied("stopped")
	l.open()
	l.publish(3, 100)
	l.copied("killed before the first flush")
	l.publish(1, 100)
	l.flush()
	l.publish(2, 100)
	l.copied("killed with frames behind a flush")
	l.publish(3, 1500)
	l.publish(1, 100)
	l.flush()
	l.checkpoint()
	l.publish(2, 1500)
	l.flush()
	l.copied("killed after a flush on a new log")
	l.publish(2, 1500)
	l.note()
	l.note()
	l.copied("killed after commits of SQLite")
	l.publish(1, 100)
	l.flush()
	l.publish(3, 100)
	l.copied("killed with frames behind commits of SQLite")
	l.publish(1, 100)
	l.flush()
	if err := l.s.empty(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.copied("killed when the journal was emptied")
	l.publish(1, 1500)
	l.flush()
	l.publish(3, 1500)
	l.copied("killed after the journal was emptied")
	l.publish(3, 100)
	l.flush()
	l.checkpoint()
	l.publish(1, 1500)
	l.copied("killed with the log copied")
	l.close()
	l.copied("stopped later")
	return l.moments
}

// TestFilesFitTogether replaces, damages and removes one file of a database. The start is refused,
// or everything that was acknowledged is there. Where only a checksum can tell, in a file's middle,
// a read of the event says that it is damaged.
func TestFilesFitTogether(t *testing.T) {
	all, foreign := lives(t), lives(t)
	r := rand.New(rand.NewPCG(1, 2))
	refused, fine := 0, 0
	fits := func(when, path string, m instant, file string, flipped bool) bool {
		s, err := Open(t.Context(), path, Options{Ballast: -1, Bounds: boundsOfLife})
		if err != nil {
			again(t, when, m, path, file)
			return false
		}
		whole(t, when, s, m, flipped)
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		return true
	}
	for i, m := range all {
		if slow() && i%2 == 1 {
			continue
		}
		for _, file := range beside {
			for name, spoil := range spoils(t, r, all, foreign, i, file) {
				path := snapshot(t, m.path)
				if spoil(path) {
					if fits(fmt.Sprintf("%s: grapnel.db%s %s", m.name, file, name), path, m, file, strings.HasPrefix(name, flip)) {
						fine++
					} else {
						refused++
					}
				}
				if err := os.RemoveAll(filepath.Dir(path)); err != nil { // which may be in memory
					t.Fatal(err)
				}
			}
		}
	}
	t.Logf("%d starts were refused, %d found everything", refused, fine)
	if refused < 50 || fine < 10 && !slow() {
		t.Errorf("%d starts were refused, %d were not", refused, fine)
	}
}

// TestACheckpointCutOff loses power during a checkpoint: any sectors of the tables' file are
// written, and it is as long as before, as after, or between. With the log everything is there.
func TestACheckpointCutOff(t *testing.T) {
	s, path := openWith(t, boundsOfLife)
	s.checkpoints.at = 1 << 40
	l := &life{t: t, s: s, path: path}
	r := rand.New(rand.NewPCG(3, 4))
	for range 6 {
		l.publish(40, 1500)
		l.publish(40, 100)
		l.flush()
		l.publish(2, 100)
		l.copied("before the checkpoint")
		l.checkpoint()
		before, after := read(t, l.moments[len(l.moments)-1].path), read(t, path)
		for range 8 {
			m := l.moments[len(l.moments)-1]
			m.path = snapshot(t, m.path)
			mixed := slices.Concat(before, make([]byte, len(after)-len(before)))
			for at := 0; at < len(mixed); at += 512 {
				if r.IntN(2) == 0 {
					copy(mixed[at:at+512], after[at:])
				}
			}
			mixed = mixed[:len(before)+r.IntN(1+(len(after)-len(before))/512)*512]
			if err := os.WriteFile(m.path, mixed, 0o600); err != nil {
				t.Fatal(err)
			}
			whole(t, "cut off", openAt(t, m.path, boundsOfLife), m, false)
		}
	}
}

// spoils are what may happen to one file of a moment. They say whether they changed it.
func spoils(t *testing.T, r *rand.Rand, all, foreign []instant, present int, file string) map[string]func(path string) bool {
	m := all[present]
	do := map[string]func(string) bool{
		"missing": func(path string) bool { return os.Remove(path+file) == nil },
		"foreign": func(path string) bool { return replaced(t, path+file, foreign[present].path+file) },
		"of zeros": func(path string) bool {
			return file != ".lock" && os.WriteFile(path+file, make([]byte, 8192), 0o600) == nil
		},
	}
	for _, other := range all {
		if other.name == m.name || m.torn == 0 && file == "" && sole(m.path) && sole(other.path) {
			continue // no other file exists
		}
		do["of the moment "+other.name] = func(path string) bool { return replaced(t, path+file, other.path+file) }
	}
	for _, part := range []int64{1, 2, 3, 10} {
		do[fmt.Sprint("cut to the part ", part)] = func(path string) bool {
			info, err := os.Stat(path + file)
			return err == nil && info.Size() > 0 && os.Truncate(path+file, info.Size()-max(1, info.Size()/part/2)) == nil
		}
	}
	for n := range 3 {
		do[fmt.Sprint(flip, n)] = func(path string) bool {
			b, err := os.ReadFile(path + file)
			from, until := 0, len(b)
			if file == ".journal" { // in a frame that another one follows
				from, until = 4096, int(m.torn)
			}
			if err != nil || from >= until {
				return false
			}
			b[from+r.IntN(until-from)] ^= 1 << r.IntN(8)
			return os.WriteFile(path+file, b, 0o600) == nil
		}
	}
	return do
}

const flip = "with a flipped bit "

// sole says whether a database has a file alone.
func sole(path string) bool {
	for _, suffix := range []string{"-wal", ".journal"} {
		if info, err := os.Stat(path + suffix); err == nil && info.Size() > 0 {
			return false
		}
	}
	return true
}

// replaced puts a file in the place of another one, or removes that if it does not exist.
func replaced(t *testing.T, path, by string) bool {
	before, _ := os.ReadFile(path)
	now, err := os.ReadFile(by)
	if errors.Is(err, os.ErrNotExist) {
		return os.Remove(path) == nil
	}
	copyFile(t, by, path)
	return !bytes.Equal(before, now)
}

// whole checks that everything acknowledged is there. After a flipped bit an event may be damaged
// if a read says so.
func whole(t *testing.T, when string, s *Store, m instant, flipped bool) {
	t.Helper()
	wrong := 0
	for i := range m.events {
		e, _, err := s.Event(t.Context(), store.Everyone(), "", fmt.Sprint("evt_", i))
		told := err != nil && grapnel.CodeOf(err) != grapnel.CodeNotFound
		if err == nil && bytes.Equal(e.Data, dataOf(i, len(e.Data))) && len(e.Data) >= 100 || told && flipped {
			continue
		}
		wrong++
	}
	if wrong > 0 && !(flipped && unsound(t, s)) {
		t.Errorf("%s: it was opened, and %d of %d acknowledged events are not there", when, wrong, m.events)
	}
}

// unsound says whether SQLite finds the database's pages damaged.
func unsound(t *testing.T, s *Store) bool {
	err := s.read(t.Context(), func(r *sqlite3.Conn) error {
		if said := allRows(t, r, "PRAGMA integrity_check(1)"); !slices.Equal(said, []string{"ok"}) {
			return errors.New(strings.Join(said, "\n"))
		}
		return nil
	})
	return err != nil
}

// again puts the right file back after a start was refused: the try has changed no other file.
func again(t *testing.T, when string, m instant, path, file string) {
	t.Helper()
	if err := os.RemoveAll(path + file); err != nil {
		t.Fatal(err)
	}
	copyFile(t, m.path+file, path+file)
	s, err := Open(t.Context(), path, Options{Ballast: -1, Bounds: boundsOfLife})
	if err != nil {
		t.Errorf("%s: after the right file was put back: %v", when, err)
		return
	}
	whole(t, when+", put back", s, m, false)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
