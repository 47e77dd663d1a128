package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func balanced(t *testing.T, s *Store) {
	t.Helper()
	if n, err := s.Imbalance(t.Context()); err != nil || n != 0 {
		t.Errorf("imbalance %d, %v", n, err)
	}
}

// tablesOf are the days whose tables exist.
func tablesOf(t *testing.T, s *Store) (days []int64) {
	t.Helper()
	c, err := s.readDays(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range c.days {
		days = append(days, d.number)
	}
	return days
}

// TestDayGoesWhole follows three days with stragglers of every kind until all their rows are
// removed.
func TestDayGoesWhole(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "&default_query_exec_mode=exec"} {
		s := open(t, blank(t)+mode, Options{CallersClock: true})
		dayGoesWhole(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

const aDay = 24 * time.Hour

func dayGoesWhole(t *testing.T, s *Store) {
	const kept = 30 * aDay
	putEndpoint(t, s, "ep_1")
	day := s.days.known.Load().current
	random := rand.NewChaCha8([32]byte{6})
	begin := midnight(day)
	on := func(d int, hour int) time.Time {
		return begin.Add(time.Duration(d)*aDay + time.Duration(hour)*time.Hour)
	}
	heads := make(map[string]store.Head)
	accept := func(name string, when time.Time) string {
		t.Helper()
		in := incomingTo(name, "", "ep_1")
		if len(name) > 3 { // half of them have Grapnel's ids
			in.Event.ID = grapnel.NewID(grapnel.EventPrefix, when, random)
		}
		in.Event.AcceptedAt, in.Event.OccurredAt = when, when
		done, err := s.Append(t.Context(), store.Batch{Config: version(t, s), Events: []store.Incoming{in}})
		if err != nil || len(done.Heads) != 1 {
			t.Fatal(done, err)
		}
		heads[name] = done.Heads[0]
		return in.Event.ID
	}
	finish := func(name string, when time.Time, status grapnel.Status) {
		t.Helper()
		c := deliver(heads[name])
		c.At, c.Status = when, status
		done, err := s.Record(t.Context(), []store.Change{c})
		if err != nil || !done[0].Applied {
			t.Fatal(done, err)
		}
	}
	purge := func(now time.Time, want int) {
		t.Helper()
		n, err := s.Purge(t.Context(), store.Keep{Now: now, For: kept, Slack: aDay}, 1000)
		if err != nil || n != want {
			t.Errorf("on day %d: purged %d (%v), want %d", dayAt(now.UnixMicro())-day, n, err, want)
		}
		balanced(t, s)
	}
	gone := func(is bool, ids ...string) {
		t.Helper()
		for _, id := range ids {
			if _, _, err := s.Event(t.Context(), store.Everyone(), "", id); is != (grapnel.CodeOf(err) == grapnel.CodeNotFound) {
				t.Errorf("%s: gone should be %v: %v", id, is, err)
			}
		}
	}

	var plain []string
	for d := range 3 {
		for i := range 40 {
			name := fmt.Sprint("d", d, []string{"x", "long"}[i%2], i)
			plain = append(plain, accept(name, on(d, i/2)))
			finish(name, on(d, i/2+1), grapnel.Delivered)
		}
		if d == 0 {
			plain = append(plain, accept("n", on(d, 20)), accept("named", on(d, 20)))
			finish("n", on(d, 21), grapnel.Failed)
			finish("named", on(d, 21), grapnel.Failed)
			note := "seen"
			if err := s.Annotate(t.Context(), store.Everyone(), store.Annotation{Delivery: heads["n"].Delivery, Note: &note,
				At: on(d, 22)}); err != nil {
				t.Fatal(err)
			}
		}
		cross(t, s)
	}
	late, waits, again := accept("late", on(3, 1)), accept("waits", on(3, 1)), accept("again", on(3, 1))
	attempted := deliver(heads["waits"])
	attempted.Status, attempted.Due = grapnel.Pending, on(4, 1)
	done, err := s.Record(t.Context(), []store.Change{attempted})
	if err != nil {
		t.Fatal(err)
	}
	heads["waits"] = *done[0].Next
	own := accept("own", on(3, 2))
	for i := range 60 {
		name := fmt.Sprint("d3long", i)
		plain = append(plain, accept(name, on(3, 3)))
		finish(name, on(3, 4), grapnel.Delivered)
	}
	finish("again", on(3, 5), grapnel.Failed)
	cross(t, s)
	finish("late", on(10, 0), grapnel.Failed)
	finish("own", on(10, 0), grapnel.Failed)
	redelivered, err := s.Again(t.Context(), store.Everyone(), store.Redelivery{Of: heads["again"].Delivery,
		Trigger: grapnel.TriggerManual, At: on(4, 0)})
	if err != nil {
		t.Fatal(err)
	}

	purge(on(30, 0), 0) // no row is expired
	purge(on(31, 0), 42)
	gone(true, plain[:42]...)
	gone(false, plain[42:]...)
	if days := tablesOf(t, s); days[0] != day+1 {
		t.Errorf("the first day is still there: %d", days)
	}
	var leftover int
	if err := s.pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM mark WHERE note <> '') + (SELECT count(*) FROM event_name WHERE seq < $1)", begins(day+1)).
		Scan(&leftover); err != nil || leftover != 0 {
		t.Errorf("%d rows are left over, %v", leftover, err)
	}
	purge(on(33, 0), 80) // two days at once
	// Some rows of the fourth day have to stay, with everything that belongs to them.
	purge(on(34, 1), 61) // the sixty, and the redelivery
	gone(true, plain[122:]...)
	gone(false, late, waits, again, own)
	d, err := s.Delivery(t.Context(), store.Everyone(), heads["waits"].Delivery)
	if err != nil || len(d.Attempts) != 1 || d.EventID != waits {
		t.Errorf("what waits: %+v, %v", d, err)
	}
	if d, err = s.Delivery(t.Context(), store.Everyone(), heads["late"].Delivery); err != nil || len(d.Attempts) != 1 || d.EventID != late {
		t.Errorf("what was over late: %+v, %v", d, err)
	}
	if d, err = s.Delivery(t.Context(), store.Everyone(), redelivered.Delivery); err != nil || d.EventID != again {
		t.Errorf("what was made again: %+v, %v", d, err)
	}
	for _, id := range []string{late, waits, again, own} {
		in := incomingTo(id, "another key", "ep_1")
		done, err := s.Append(t.Context(), store.Batch{Config: version(t, s), Events: []store.Incoming{in}})
		if err != nil || !done.Events[0].Conflict {
			t.Errorf("%s is there and was accepted again: %+v, %v", id, done, err)
		}
	}
	if done := publish(t, s, incomingTo(plain[0], "", "ep_1")); done.Duplicate || done.Conflict {
		t.Errorf("an id that is gone is not free: %+v", done)
	}
	finish("waits", on(34, 2), grapnel.Delivered)
	heads["redelivered"] = *redelivered.Head
	finish("redelivered", on(34, 2), grapnel.Delivered)
	// The redelivery belongs to a current day, so its event and the other rows of the event's day are
	// removed row by row, and then the day.
	purge(on(67, 0), 4)
	purge(on(67, 2), 0)
	if days := tablesOf(t, s); days[0] != day+4 {
		t.Errorf("days that are left: %d", days)
	}
	gone(true, late, waits, again, own)
}

func putEndpoint(t *testing.T, s *Store, id string) {
	t.Helper()
	if _, err := s.PutEndpoint(t.Context(), store.Everyone(), endpoint(t, id), store.With{}); err != nil {
		t.Fatal(err)
	}
}

// TestDayGoesThroughAPooler uses a pooler that lends connections for single transactions.
func TestDayGoesThroughAPooler(t *testing.T) {
	t.Parallel()
	s := nodesAt(t, pooler(t).URL(made(t)), 1)[0]
	dayGoesWhole(t, s)
}

// TestDayGoesBesideOthers: other callers publish, and hold long reads. A day that is being read
// stays until the reader ends, and no other transaction is blocked meanwhile.
func TestDayGoesBesideOthers(t *testing.T) {
	t.Parallel()
	url := blank(t)
	all := nodesAt(t, url, 2)
	s, beside := all[0], all[1]
	const many = 300
	var b store.Batch
	b.Config = version(t, s)
	for i := range many {
		b.Events = append(b.Events, incomingTo(fmt.Sprint("old", i), fmt.Sprint("k", i%7), "ep_1"))
	}
	if _, err := s.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if n, err := s.End(t.Context(), "ep_1", store.Ending{Status: grapnel.Failed, At: at(10)}, many); err != nil || n != many {
		t.Fatal(n, err)
	}
	old, err := beside.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 1})
	if err != nil || len(old) != 1 {
		t.Fatal(old, err)
	}
	day := cross(t, s)
	publish(t, beside, incomingTo("new", "", "ep_1")) // it knows both days from here on

	over := make(chan struct{})
	var others sync.WaitGroup
	for n := range 4 {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				in := incomingTo(fmt.Sprint("live", n, "-", i), fmt.Sprint("k", i%7), "ep_1")
				if _, err := all[n%2].Append(context.Background(), store.Batch{Config: b.Config, Events: []store.Incoming{in}}); err != nil {
					t.Error(err)
					return
				}
				if _, err := beside.EventList(context.Background(), store.Everyone(), store.EventQuery{Limit: 3}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	keep := store.Keep{Now: at(0).Add(30*aDay + 12*time.Hour), For: 30 * aDay, Slack: aDay}
	purge := func(want int, days ...int64) {
		t.Helper()
		n, err := s.Purge(t.Context(), keep, 10)
		if err != nil || n != want {
			t.Errorf("purged %d (%v), want %d", n, err, want)
		}
		if there := tablesOf(t, s); !slices.Equal(there, days) {
			t.Errorf("the days are %d, want %d", there, days)
		}
	}
	on(t, url, func(reader *pgx.Conn) error {
		tx, err := reader.Begin(t.Context())
		if err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), "SELECT FROM event LIMIT 1"); err != nil {
			return err
		}
		purge(0, day-1, day, day+1, day+2)
		return tx.Rollback(t.Context())
	})
	purge(many, day, day+1, day+2)
	close(over)
	others.Wait()
	done, err := beside.Record(t.Context(), []store.Change{deliver(store.Head{Delivery: old[0].Seq})})
	if err != nil || done[0].Applied || done[0].Status != "" {
		t.Errorf("recording what is gone, at a node that does not know: %+v, %v", done, err)
	}
	if done := publish(t, beside, incomingTo("old1", "", "ep_1")); done.Duplicate || done.Conflict {
		t.Errorf("an id that is gone: %+v", done)
	}
	balanced(t, beside)
}
