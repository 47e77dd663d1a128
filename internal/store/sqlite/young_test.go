package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// content is everything in the tables of a database, but its position in the journal.
func content(t *testing.T, conn *sqlite3.Conn) string {
	t.Helper()
	var all strings.Builder
	for _, table := range rows(t, conn, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('journal') ORDER BY name") {
		var columns []string
		for _, c := range rows(t, conn, fmt.Sprintf("SELECT name FROM pragma_table_info('%s')", table)) {
			columns = append(columns, fmt.Sprintf("quote(\"%s\")", c))
		}
		list := rows(t, conn, fmt.Sprintf("SELECT %s AS line FROM \"%s\" ORDER BY line", strings.Join(columns, "||','||"), table))
		fmt.Fprintf(&all, "%s:\n%s\n", table, strings.Join(list, "\n"))
	}
	return all.String()
}

func rows(t *testing.T, conn *sqlite3.Conn, query string) (all []string) {
	t.Helper()
	q, err := conn.Prepare(query)
	if err != nil {
		t.Fatal(err)
	}
	for {
		more, err := q.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return all
		}
		all = append(all, q.String(0))
	}
}

// contentAt opens a database as a later process does, and closes it.
func contentAt(t *testing.T, path string) string {
	t.Helper()
	s, err := Open(t.Context(), path, Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + ".journal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a closed database has a journal: %v", err)
	}
	conn, err := connect(path, sqlite3.ReadOnly, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return content(t, conn)
}

// randomly makes operations of all kinds that the journal holds, some that it does not, and some
// that fail in the middle of their transaction.
type randomly struct {
	*rand.Rand
	t      *testing.T
	s      *Store
	config int64
	now    time.Time
	ids    int
	heads  []store.Head
	leases []grapnel.Lease
}

var errPoison = errors.New("poison")

// poisoned is an entry that fails in the middle of its transaction.
type poisoned struct{ appending }

func (o *poisoned) apply(t *tx) error {
	if err := o.appending.apply(t); err != nil {
		return err
	}
	return errPoison
}

func (r *randomly) event() store.Incoming {
	r.ids++
	id := r.ids
	if r.IntN(10) == 0 {
		id = 1 + r.IntN(r.ids) // a duplicate or a conflict
	}
	in := store.Incoming{Event: &grapnel.Event{ID: fmt.Sprint("evt_", id), Tenant: []string{"acme", "other"}[r.IntN(2)], Type: fmt.Sprint("t.", r.IntN(4)),
		Data: []byte(strings.Repeat("x", r.IntN(3000))), AcceptedAt: r.now, OccurredAt: r.now.Add(-time.Second)}}
	if r.IntN(2) == 0 {
		in.Event.Key = fmt.Sprint("k", r.IntN(3))
		in.Event.Metadata = map[string]string{"a": "b"}
	}
	if r.IntN(4) == 0 {
		in.Known = &store.Known{Source: "src", By: []byte{byte(r.IntN(40))}, Until: r.now.Add(time.Hour)}
		in.Event.Source = "src"
	}
	for range r.IntN(3) {
		in.Targets = append(in.Targets, store.Target{Endpoint: []string{"ep_a", "ep_b", "q_a"}[r.IntN(3)], Ordered: r.IntN(2) == 0,
			Trigger: grapnel.TriggerSchedule, Delay: time.Duration(r.IntN(2)) * time.Second, Drop: []string{"", "", "", "full"}[r.IntN(4)]})
	}
	return in
}

func (r *randomly) batch() store.Batch {
	b := store.Batch{Config: r.config}
	if r.IntN(20) == 0 {
		b.Config-- // refused
	}
	for range 1 + r.IntN(3) {
		b.Events = append(b.Events, r.event())
	}
	if r.IntN(5) == 0 {
		b.Once = &store.Once{Key: fmt.Sprint("once", r.IntN(20)), Expires: r.now.Add(time.Hour), Now: r.now, Answer: func(done any) store.Answer {
			return store.Answer{Status: 202, Body: fmt.Appendf(nil, "%d events", len(done.(store.Accepted).Events))}
		}}
	}
	return b
}

func (r *randomly) change(h store.Head) store.Change {
	c := store.Change{Delivery: h.Delivery, Identity: h.Identity(), Expect: store.AnyAttempts, At: r.now, Status: grapnel.Delivered,
		Attempt: &grapnel.Attempt{Number: h.Attempts + 1, StatusCode: 200, StartedAt: r.now, Duration: time.Millisecond}}
	switch r.IntN(4) {
	case 0:
		c.Status, c.ReasonCode, c.Reason, c.NextDelay = grapnel.Failed, grapnel.ReasonExhausted, "no", time.Second
		c.Audit = &grapnel.AuditEntry{At: r.now, Tenant: "acme", Actor: "me", Verb: grapnel.VerbChange, Delivery: fmt.Sprint(h.Delivery)}
	case 1:
		c.Status, c.Due, c.Trigger, c.EndpointWide = grapnel.Pending, r.now.Add(time.Second), grapnel.TriggerSchedule, r.IntN(2) == 0
		c.Standing = &store.Standing{Endpoint: h.Endpoint, Number: int64(r.ids)}
		tell := store.Batch{Config: r.config, Events: []store.Incoming{r.event()}}
		c.Tell = &tell
	}
	return c
}

// step makes one call, or a few at once that share a transaction.
func (r *randomly) step(ctx context.Context) {
	r.t.Helper()
	r.now = r.now.Add(time.Duration(r.IntN(int(2 * time.Second))))
	switch n := r.IntN(12); {
	case n < 5:
		if r.IntN(8) == 0 {
			b := r.batch()
			if err := r.s.write(ctx, &poisoned{appending{batch: r.s.batch(&b)}}); err == nil {
				r.t.Error("poison had no effect")
			}
			return
		}
		done, err := r.s.Append(ctx, r.batch())
		if err != nil && !errors.Is(err, store.ErrStale) {
			r.t.Fatal(err)
		}
		r.heads = append(r.heads, done.Heads...)
	case n < 9 && len(r.heads) > 0:
		i := r.IntN(len(r.heads))
		done, err := r.s.Record(ctx, []store.Change{r.change(r.heads[i])})
		if err != nil {
			r.t.Fatal(err)
		}
		if r.IntN(2) == 0 {
			r.heads = append(r.heads[:i], r.heads[i+1:]...)
		}
		if next := done[0].Next; next != nil {
			r.heads = append(r.heads, *next)
		}
	case n == 9:
		done, err := r.s.Claim(ctx, store.Claim{Queue: "q_a", Now: r.now, Wants: []store.Want{
			{Token: fmt.Sprint("tok", r.ids, "_", r.Uint64()), Consumer: "c", For: time.Second}}})
		if err != nil {
			r.t.Fatal(err)
		}
		r.leases = append(r.leases, done.Leases...)
	case n == 10 && len(r.leases) > 0:
		_, err := r.s.Extend(ctx, r.leases[r.IntN(len(r.leases))].Token, r.now, time.Minute)
		if err != nil && grapnel.CodeOf(err) != grapnel.CodeConflict {
			r.t.Fatal(err)
		}
	case n == 11 && r.IntN(10) == 0: // by a transaction of SQLite
		if _, err := r.s.End(ctx, "ep_b", store.Ending{Status: grapnel.Skipped, At: r.now}, 2); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestTheJournalMakesTheSameTables lets a store work, and compares its tables with those that a
// later process makes of copies of its files: when it is killed, and when the machine loses its
// power, so that no fill since the last sync of the log is there.
func TestTheJournalMakesTheSameTables(t *testing.T) {
	seeds, steps := 30, 150
	if slow {
		seeds = 4
	}
	if os.Getenv("GRAPNEL_SOAK") != "" {
		seeds = 3000
	}
	replayed := 0
	for seed := range seeds {
		r := &randomly{Rand: rand.New(rand.NewPCG(uint64(seed), 1)), t: t, config: 1, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
		b := Bounds{Young: 1 + r.IntN(40), FillEvery: time.Hour, Journal: journal.Bounds{Half: 1 << (14 + r.IntN(8)), Step: 4096}}
		path := filepath.Join(fast(t), "grapnel.db")
		var err error
		if r.s, err = Open(t.Context(), path, Options{Ballast: -1, Bounds: b}); err != nil {
			t.Fatal(err)
		}
		r.s.checkpoints.at = 1 << 40 // only when this test says so
		var synced string            // the tables as a loss of power leaves them
		for step := range steps {
			r.step(t.Context())
			switch r.IntN(20) {
			case 0: // killed
				killed := snapshot(t, path)
				compare(t, fmt.Sprintf("seed %d, step %d, killed", seed, step), contentAt(t, killed), r.s)
			case 1: // without power
				lost := snapshot(t, path)
				replayed += loosePower(t, r.s, synced, lost)
				compare(t, fmt.Sprintf("seed %d, step %d, without power", seed, step), contentAt(t, lost), r.s)
			case 2:
				// Nothing is newer than the last fill. What is in the tables is on the disk after this.
				_ = r.s.write(t.Context(), filling{})
				copied := make(chan struct{})
				r.s.checkpoints.asked <- copied
				<-copied
				synced = snapshot(t, path)
			}
			if t.Failed() {
				break
			}
		}
		want := contentAt(t, snapshot(t, path))
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		if got := contentAt(t, path); got != want {
			t.Errorf("seed %d: a closed database differs from a killed one: %s", seed, difference(got, want))
		}
	}
	if replayed == 0 {
		t.Error("no copy needed its journal")
	}
}

// loosePower puts the tables of an earlier copy into one, unless SQLite has synced its log since. It
// returns how many frames that makes necessary.
func loosePower(t *testing.T, s *Store, earlier, into string) int {
	t.Helper()
	if earlier == "" {
		return 0
	}
	numbers := func(path string) string {
		conn, err := connect(path, sqlite3.ReadWrite, 64)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return rows(t, conn, "SELECT number FROM journal")[0]
	}
	var had, has uint64
	if _, err := fmt.Sscan(numbers(snapshot(t, earlier)), &had); err != nil {
		t.Fatal(err)
	}
	if had < s.writer.young.synced.Load() {
		return 0
	}
	if _, err := fmt.Sscan(numbers(snapshot(t, into)), &has); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		if err := os.RemoveAll(into + suffix); err != nil {
			t.Fatal(err)
		}
		copyFile(t, earlier+suffix, into+suffix)
	}
	return int(has - had)
}

func compare(t *testing.T, when, got string, s *Store) {
	t.Helper()
	err := s.read(t.Context(), func(r *sqlite3.Conn) error {
		if want := content(t, r); got != want {
			t.Errorf("%s: %s", when, difference(got, want))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is\n%.300s\nwant\n%.300s", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

// TestEntriesAreComplete fills every field that an entry has with values, and reads back what was
// written.
func TestEntriesAreComplete(t *testing.T) {
	// What stands for these in an entry, or has no meaning here.
	left := map[string]bool{"Change.Attempt": true, "Change.Tell": true, "Change.Epoch": true, "Once.Answer": true, "Standing.Standing": true,
		"Answer.Fingerprint": true, "Event.Data": true, "Event.Metadata": true, "Event.Intake": true, "Event.Seq": true, "AuditEntry.Seq": true, "appending.done": true, "recording.done": true,
		"claiming.done": true, "extending.done": true}
	for kind := 1; anew(kind) != nil; kind++ {
		r := rand.New(rand.NewPCG(uint64(kind), 2))
		for range 50 {
			e := anew(kind)
			fillIn(r, reflect.ValueOf(e).Elem(), left)
			f := codec.Into(nil)
			if !writeEntry(f, e) {
				t.Fatal("it is no entry")
			}
			from := codec.From(f.Bytes())
			var got int
			codec.Number(from, &got)
			back := anew(got)
			back.flow(from)
			if err := from.End(); err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprintf("%T", e), reflect.ValueOf(e).Elem(), reflect.ValueOf(back).Elem(), left)
		}
	}
}

// open is a field as one that can be set, also one that is not exported.
func open(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
}

// fillIn gives every field a value that is not its zero.
func fillIn(r *rand.Rand, v reflect.Value, left map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<40)-1<<39, r.Int64N(1e9)).UTC()))
			return
		}
		for i := range v.NumField() {
			if !left[v.Type().Name()+"."+v.Type().Field(i).Name] {
				fillIn(r, open(v.Field(i)), left)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(r, v.Elem(), left)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fillIn(r, v.Index(i), left)
		}
	case reflect.Array:
		for i := range v.Len() {
			fillIn(r, v.Index(i), left)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("text ", r.Uint64()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64() - r.Int64())
	case reflect.Uint8:
		v.SetUint(1 + uint64(r.IntN(255)))
	default:
		panic("a field of kind " + v.Kind().String())
	}
}

// same compares what was written with what was read, field by field.
func same(t *testing.T, at string, want, got reflect.Value, left map[string]bool) {
	t.Helper()
	switch want.Kind() {
	case reflect.Struct:
		if want.Type() == reflect.TypeFor[time.Time]() {
			if !want.Interface().(time.Time).Equal(got.Interface().(time.Time)) {
				t.Errorf("%s is %v, want %v", at, got, want)
			}
			return
		}
		for i := range want.NumField() {
			if f := want.Type().Field(i); !left[want.Type().Name()+"."+f.Name] {
				same(t, at+"."+f.Name, open(want.Field(i)), open(got.Field(i)), left)
			}
		}
	case reflect.Pointer:
		if got.IsNil() {
			t.Errorf("%s is missing", at)
			return
		}
		same(t, at, want.Elem(), got.Elem(), left)
	case reflect.Slice:
		if want.Len() != got.Len() {
			t.Errorf("%s has %d values, want %d", at, got.Len(), want.Len())
			return
		}
		for i := range want.Len() {
			same(t, fmt.Sprint(at, "[", i, "]"), want.Index(i), got.Index(i), left)
		}
	default:
		if !reflect.DeepEqual(want.Interface(), got.Interface()) {
			t.Errorf("%s is %v, want %v", at, got, want)
		}
	}
}
