package postgres

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// drawFrom makes the sequences continue in a day, as if it were that day. For a past day some of
// its row ids may be in use.
func drawFrom(t *testing.T, s *Store, day int64) {
	t.Helper()
	err := s.inDays(t.Context(), func(tx pgx.Tx) error { return makeDay(t.Context(), tx, day) })
	for _, sequence := range []string{"event_number", "delivery_number"} {
		if err == nil {
			_, err = s.pool.Exec(t.Context(), raise, sequence, begins(day)+100)
		}
	}
	if err == nil {
		_, err = s.readDays(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.highest.mu.Lock() // row ids of a past day are lower than the ones drawn so far
	s.highest.counters = counters{}
	s.highest.mu.Unlock()
}

// TestMoveOverDays imports rows of days that the other database does not have, including day 0,
// while another node has an outdated calendar.
func TestMoveOverDays(t *testing.T) {
	t.Parallel()
	a, all := nodes(t, 1)[0], nodes(t, 2)
	b, other := all[0], all[1]
	today := a.days.known.Load().current
	a.days.chore.Lock()
	a.days.again = time.Now().Add(time.Hour) // the calendar knows only the day just drawn
	a.days.chore.Unlock()
	acme := settle(t, a, "acme")
	settle(t, b, "zoe")
	ids := make(map[int64]string)
	var waits []int64
	for _, day := range []int64{0, today - 40, today - 2, today} {
		drawFrom(t, a, day)
		ids[day] = grapnel.NewID(grapnel.EventPrefix, midnight(max(day, 1)).Add(time.Hour), bytes.NewReader([]byte(fmt.Sprintf("%010d", day))))
		own := fmt.Sprint("own", day)
		seq := acme.append(acme.event(ids[day], "", acme.endpoint), acme.event(own, "d", acme.endpoint)).Heads[0].Delivery
		if dayOf(seq) != day {
			t.Fatalf("number %d is of day %d, not %d", seq, dayOf(seq), day)
		}
		waits = append(waits, seq)
	}
	before := digests(t, a, "acme")
	m := newMove(t, a, b, "acme", "m")
	m.seal()
	m.bring()
	m.open()
	same(t, rowsOf(digests(t, b, "acme")), rowsOf(before), "rows")
	config, err := b.Config(t.Context())
	acme.must(err)
	by := config.Tenancies[0].Shifts[0].By
	acme.Store = other
	for day, id := range ids {
		for _, id := range []string{id, fmt.Sprint("own", day)} {
			if placed := acme.append(acme.event(id, map[bool]string{true: "d"}[id == fmt.Sprint("own", day)],
				acme.endpoint)).Events[0]; !placed.Duplicate {
				t.Errorf("%s of day %d is %+v", id, day, placed)
			}
		}
	}
	for _, seq := range waits {
		if dayOf(seq+by) != dayOf(seq) {
			t.Errorf("%d has become %d, of another day", seq, seq+by)
		}
		if done := acme.record(store.Change{Delivery: seq + by, Expect: store.AnyAttempts, Status: grapnel.Delivered,
			At: at(70)}); !done[0].Applied {
			t.Errorf("%d: %+v", seq+by, done)
		}
		if d, err := b.Delivery(t.Context(), store.Of("acme"), seq+by); err != nil || d.Status != grapnel.Delivered {
			t.Errorf("%d: %+v, %v", seq+by, d, err)
		}
	}
	m.erase(50)
	isEmpty(t, a, "acme")

	// It moves back, into days that have only empty tables left.
	back := newMove(t, b, a, "acme", "m2")
	back.seal()
	back.bring()
	back.open()
	back.erase(50)
	same(t, digests(t, a, "acme")["event"].rows, before["event"].rows, "events that came back")
	var names int
	acme.must(b.pool.QueryRow(t.Context(), "SELECT count(*) FROM event_named WHERE id LIKE 'own%'").Scan(&names))
	same(t, names, 0, "names that are left behind")
	acme.Store = a
	for day, id := range ids {
		if placed := acme.append(acme.event(id, "", acme.endpoint)).Events[0]; !placed.Duplicate {
			t.Errorf("%s of day %d is %+v", id, day, placed)
		}
	}
	balanced(t, a)
	balanced(t, b)
}
