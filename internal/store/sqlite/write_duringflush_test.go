package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// meanwhile is a store in which a test makes calls while a flush is committed.
type duringFlush struct {
	*Store
	t     *testing.T
	path  string
	steps []string          // of the writer, since the flush began
	calls []func() error    // that are made when the next flush is being committed
	made  chan error        // how each ended
	after map[string]func() // is done at a step of that flush
}

func flushesWhileEventsCome(t *testing.T) *duringFlush {
	t.Helper()
	m := &duringFlush{t: t, made: make(chan error, 100), after: make(map[string]func())}
	m.Store, m.path = openWith(t, Bounds{FlushEvery: time.Hour})
	m.Store.step = m.step
	for n := range 3 { // so that all names are known, and the last one is unflushed
		if _, err := m.append(fmt.Sprint("evt_", n)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// step is called by the writer.
func (m *duringFlush) step(step string) {
	if step == "a flush is being committed" {
		m.steps = nil
		for i, call := range m.calls {
			go func() { m.made <- call() }()
			until(m.t, "the call in line", func() bool { return m.Stats().Queued == i+1 })
		}
		m.calls = nil
	}
	m.steps = append(m.steps, step)
	if do := m.after[step]; do != nil {
		do()
	}
}

// append appends one event for each id, with a delivery.
func (m *duringFlush) append(ids ...string) (store.Accepted, error) {
	b := store.Batch{Config: 1}
	for _, id := range ids {
		b.Events = append(b.Events, store.Incoming{Event: &grapnel.Event{ID: id, Tenant: "acme", Type: "a.b", Data: []byte(id),
			AcceptedAt: time.Unix(1_700_000_000, 0)}, Targets: []store.Target{{Endpoint: "ep"}}})
	}
	return m.Append(m.t.Context(), b)
}

// flush flushes the tables, and waits for the calls that were made meanwhile.
func (m *duringFlush) flush() {
	m.t.Helper()
	n := len(m.calls)
	if _, err := m.Waiting(m.t.Context(), "ep", 1); err != nil {
		m.t.Fatal(err)
	}
	for range n {
		if err := <-m.made; err != nil {
			m.t.Error(err)
		}
	}
}

// same checks that the tables, and those that another process makes of copied files, have the
// events with these ids.
func (m *duringFlush) same(ids ...string) {
	m.t.Helper()
	want := contentAt(m.t, snapshot(m.t, m.path))
	compare(m.t, "killed", want, m.Store)
	for _, id := range ids {
		if n := strings.Count(want, "'"+id+"'"); n != 1 {
			m.t.Errorf("event %s is there %d times", id, n)
		}
	}
}

// TestEventsAreAcceptedDuringAFlush: an event that needs nothing from the tables is durable before
// the flush ends. If the process is killed then, the next one has the event.
func TestEventsAreAcceptedDuringAFlush(t *testing.T) {
	m := flushesWhileEventsCome(t)
	var copies []string
	take := func() { copies = append(copies, snapshot(t, m.path)) }
	m.after["a frame was written"] = take
	m.after["the tables were flushed"] = func() {
		if y := &m.writer.unflushed; y.flushed.Load() != y.number-1 {
			t.Errorf("the tables have %d batches of %d", y.flushed.Load(), y.number)
		}
		take()
	}
	var unflushed store.Accepted
	m.calls = []func() error{
		func() error { _, err := m.append("evt_3"); return err },
		func() (err error) { unflushed, err = m.append("evt_4", "evt_5"); return err },
	}
	m.flush()
	m.after = nil
	if want := []string{"a flush is being committed", "a frame was written", "the tables were flushed"}; !slices.Equal(m.steps, want) {
		t.Errorf("the steps were %q", m.steps)
	}
	if found, err := m.Events(t.Context(), []int64{unflushed.Events[1].Seq}); err != nil || found[0] == nil || found[0].ID != "evt_5" {
		t.Errorf("an unflushed event is read as %+v: %v", found, err)
	}
	m.same("evt_2", "evt_3", "evt_4", "evt_5")
	want := contentAt(t, snapshot(t, m.path))
	if len(copies) != 2 {
		t.Fatalf("there are %d copies", len(copies))
	}
	for i, copied := range copies {
		if got := contentAt(t, copied); got != want {
			t.Errorf("copy %d: %s", i, difference(got, want))
		}
	}
}

// TestAnEventThatNeedsTheTablesAfterAll: an operation that was taken for light, and is not, is done
// after the flush, as are those of its batch.
func TestAnEventThatNeedsTheTablesAfterAll(t *testing.T) {
	m := flushesWhileEventsCome(t)
	for id, duplicate := range map[string]bool{"evt_3": false, "evt_4": true} {
		m.calls = append(m.calls, func() error {
			ids := []string{id, id} // the second one is looked up
			if !duplicate {
				ids = ids[:1]
			}
			done, err := m.append(ids...)
			if err == nil && (done.Events[0].Duplicate || done.Events[len(ids)-1].Duplicate != duplicate) {
				err = fmt.Errorf("%q got %+v", ids, done.Events)
			}
			return err
		})
	}
	m.flush()
	if want := []string{"a flush is being committed", "the tables were flushed", "a frame was written"}; !slices.Equal(m.steps, want) {
		t.Errorf("the steps were %q", m.steps)
	}
	m.same("evt_2", "evt_3", "evt_4")
}

// TestAFlushFailsWhileEventsCome: the next flush has the events of before and those that came.
func TestAFlushFailsWhileEventsCome(t *testing.T) {
	m := flushesWhileEventsCome(t)
	m.flush()
	if err := m.writer.tx.conn.Exec(`PRAGMA foreign_keys = ON; CREATE TEMP TABLE parent (n INTEGER PRIMARY KEY);
		CREATE TEMP TABLE child (n REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`); err != nil {
		t.Fatal(err)
	}
	if _, err := m.append("evt_3"); err != nil {
		t.Fatal(err)
	}
	if err := m.writer.tx.conn.Exec("INSERT INTO child VALUES (1)"); err != nil { // COMMIT fails
		t.Fatal(err)
	}
	m.calls = append(m.calls, func() error { _, err := m.append("evt_4"); return err })
	if _, err := m.Waiting(t.Context(), "ep", 1); err == nil {
		t.Error("the flush did not fail")
	}
	if err := <-m.made; err != nil {
		t.Error(err)
	}
	m.same("evt_2", "evt_3", "evt_4")
}

// others makes events while flushes are committed, beside the calls of a test.
type others struct {
	s     *Store
	mu    sync.Mutex
	n     int
	quiet bool
	light int // that were accepted before their flush was in the tables
	flush bool
	all   sync.WaitGroup
	t     *testing.T
}

// step is called by the writer.
func (o *others) step(step string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch step {
	case "the tables were flushed":
		o.flush = false
	case "a frame was written":
		if o.flush {
			o.light++
		}
	case "a flush is being committed":
		o.flush = true
		if o.quiet {
			return
		}
		before := o.s.Stats().Queued
		for i := range 2 {
			o.n++
			e := &grapnel.Event{ID: fmt.Sprintf("evt_other_%06d", o.n), Tenant: "acme", Type: "t.1", Key: []string{"", "", "k1"}[o.n%3],
				Data: []byte("other"), AcceptedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
			o.all.Go(func() {
				if _, err := o.s.Append(o.t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e,
					Targets: []store.Target{{Endpoint: "ep_a", Ordered: true}}}}}); err != nil {
					o.t.Error(err)
				}
			})
			until(o.t, "the event in line", func() bool { return o.s.Stats().Queued > before+i })
		}
	}
}

// pause waits until all events are made. Until resume there are no more.
func (o *others) pause() {
	o.mu.Lock()
	o.quiet = true
	o.mu.Unlock()
	if err := o.s.write(o.t.Context(), nothing{}); err != nil { // the writer is not in a flush
		o.t.Error(err)
	}
	o.all.Wait()
}

func (o *others) resume() {
	o.mu.Lock()
	o.quiet = false
	o.mu.Unlock()
}
