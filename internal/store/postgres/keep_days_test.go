package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// cross begins the next day.
func cross(t *testing.T, s *Store) (today int64) {
	t.Helper()
	for {
		c, err := s.readDays(t.Context())
		if err == nil {
			err = s.begin(t.Context(), c.current+1)
		}
		switch {
		case stateOf(err) == stateLocked: // other writers held the lock: try again, as daily does
		case err != nil:
			t.Fatal(err)
		default:
			return c.current + 1
		}
	}
}

// dayDrawn is the day of a newly drawn row id.
func dayDrawn(t *testing.T, s *Store, sequence string) int64 {
	t.Helper()
	var n int64
	if err := s.pool.QueryRow(t.Context(), "SELECT nextval($1)", sequence).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return dayOf(n)
}

// TestDaysBegin: days begin by the database's clock, at several nodes at once, and never go back.
func TestDaysBegin(t *testing.T) {
	t.Parallel()
	all := nodes(t, 3)
	today := dayAt(time.Now().UnixMicro()) // the server uses this machine's clock
	if c := all[0].days.known.Load(); c.current < today-1 || c.has(0) || c.newest() != c.current+ahead {
		t.Fatalf("a new database: %+v", c)
	}
	publish(t, all[0], incomingTo("before", "k", "ep_1"))
	for i := range int64(3) {
		var together sync.WaitGroup
		for _, s := range all {
			together.Go(func() {
				if err := s.begin(context.Background(), today+1+i); err != nil {
					t.Error(err)
				}
			})
		}
		together.Wait()
		for _, s := range all {
			id := fmt.Sprint("on", i, "at", slices.Index(all, s))
			if e := publish(t, s, incomingTo(id, "k", "ep_1")); dayOf(e.Seq) != today+1+i {
				t.Errorf("%s has the number of day %d, want %d", id, dayOf(e.Seq), today+1+i)
			}
		}
	}
	for _, earlier := range []int64{today, 0, -5} { // a clock that was set back
		if err := all[1].begin(t.Context(), earlier); err != nil {
			t.Error(err)
		}
		for _, sequence := range []string{"event_number", "delivery_number"} {
			if day := dayDrawn(t, all[1], sequence); day != today+3 {
				t.Errorf("%s: day %d after the clock was at %d, want %d", sequence, day, earlier, today+3)
			}
		}
	}
	heads, err := all[2].Heads(t.Context(), "ep_1", 10)
	if err != nil || len(heads) != 1 {
		t.Fatal(heads, err)
	}
	for position := int64(1); position <= 10; position++ { // positions in a lane follow the order of the days
		done, err := all[position%3].Record(t.Context(), []store.Change{deliver(heads[0])})
		if err != nil || !done[0].Applied || heads[0].Position != position {
			t.Fatalf("position %d: %+v, %v", position, done, err)
		}
		if done[0].Next != nil {
			heads[0] = *done[0].Next
		}
	}
}

// TestMidnight: the next writer begins the new day, by the database's clock; a clock that goes back
// does not end it.
func TestMidnight(t *testing.T) {
	t.Parallel()
	all := nodes(t, 2)
	today := all[0].days.known.Load().current
	for _, s := range all {
		for _, day := range []int64{today + 1, today} {
			s.days.clock.Store(midnight(day).UnixMicro())
			s.daily()
			if c := s.days.known.Load(); c.current != today+1 || c.newest() != today+1+ahead {
				t.Errorf("at midnight of day %d: %+v", day, c)
			}
		}
	}
	if e := publish(t, all[0], incomingTo("a", "", "ep_1")); dayOf(e.Seq) != today+1 {
		t.Errorf("the number is of day %d, want %d", dayOf(e.Seq), today+1)
	}
}

// TestDaysNeedLocks: a database that stores more days than its table of locks has space for is
// warned about, with the setting that is enough.
func TestDaysNeedLocks(t *testing.T) {
	t.Parallel()
	small := pgtest.For(t, pgtest.Options{Settings: map[string]string{"max_connections": "30", "max_locks_per_transaction": "10"}})
	if _, err := small.Create(t.Context(), "small"); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	s := open(t, small.URL("small"), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	defer func() { _ = s.Close() }()
	if _, err := s.pool.Exec(t.Context(), "INSERT INTO node VALUES ('killed', '', false, now() - interval '2 hours')"); err != nil {
		t.Fatal(err)
	}
	warned := func() bool { return strings.Contains(log.String(), "max_locks_per_transaction") }
	first := s.days.known.Load().current
	for day := first; day <= first+12; day++ { // fifteen days, as two are ahead
		if err := s.begin(t.Context(), day); err != nil {
			t.Fatal(err)
		}
		stored := len(s.days.known.Load().days)
		if few := stored*locksOfDay*usual.Conns.Reads <= 600; warned() == few {
			t.Fatalf("%d days are warned about: %t", stored, warned())
		}
	}
	if !strings.Contains(log.String(), "max_locks_per_transaction=10 days=15 least=14") {
		t.Errorf("the log is %s", log.String())
	}
}

// TestTheFirstDayThatCannotBegin: a new database whose first tables cannot be created is not
// opened, because no table would take its events. It is once they can be.
func TestTheFirstDayThatCannotBegin(t *testing.T) {
	t.Parallel()
	url := blank(t)
	if _, err := Migrate(t.Context(), url, Password{}); err != nil {
		t.Fatal(err)
	}
	inTheWay := tableOf("finished", dayAt(time.Now().UnixMicro())) + " (theirs int)"
	on(t, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "CREATE TABLE "+inTheWay)
		return err
	})
	if s, err := Open(t.Context(), url, Options{}); err == nil {
		_ = s.Close()
		t.Fatal("it was opened")
	}
	on(t, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "DROP TABLE "+strings.TrimSuffix(inTheWay, " (theirs int)"))
		return err
	})
	s := open(t, url, Options{})
	defer func() { _ = s.Close() }()
	publish(t, s, incomingTo("a", "", "ep_1"))
	if c := s.days.known.Load(); c.newest() != c.current+ahead {
		t.Errorf("%+v", c)
	}
}

// TestRowsHaveNames: no row may name kind 0 or target 0, in the tables of any day.
func TestRowsHaveNames(t *testing.T) {
	t.Parallel()
	s := nodes(t, 1)[0]
	e := publish(t, s, incomingTo("a", "k", "ep_1"))
	for _, sql := range []string{"UPDATE event SET kind = 0", "UPDATE pending SET kind = 0", "UPDATE pending SET target = 0", "UPDATE lane SET target = 0",
		`INSERT INTO finished SELECT seq, 0, event, kind, lane, position, created, created, 0, 0, 0, 0, 'delivered', '', '', '' FROM pending`,
		`INSERT INTO finished SELECT seq, target, event, 0, lane, position, created, created, 0, 0, 0, 0, 'delivered', '', '', '' FROM pending`} {
		if _, err := s.pool.Exec(t.Context(), sql); stateOf(err) != stateCheck {
			t.Errorf("%s (of event %d): %v", sql, e.Seq, err)
		}
	}
}

// TestDayThatCannotBegin: publishing continues with row ids of the day before, and the day begins
// as soon as its tables can be created.
func TestDayThatCannotBegin(t *testing.T) {
	t.Parallel()
	s := nodes(t, 1)[0]
	today := s.days.known.Load().current
	const inTheWay = "CREATE TABLE %s (theirs int)"
	if _, err := s.pool.Exec(t.Context(), fmt.Sprintf(inTheWay, tableOf("finished", today+ahead+1))); err != nil {
		t.Fatal(err)
	}
	if err := s.begin(t.Context(), today+ahead+1); err == nil {
		t.Fatal("a day has begun whose tables could not be made")
	}
	if e := publish(t, s, incomingTo("a", "", "ep_1")); dayOf(e.Seq) != today {
		t.Errorf("the number is of day %d, want %d", dayOf(e.Seq), today)
	}
	// No tables have been created for a long time, and the prepared days have passed.
	if e := publish(t, s, incomingTo("a", "", "ep_1")); !e.Duplicate {
		t.Error("published again: not a duplicate")
	}
	if _, err := s.pool.Exec(t.Context(), "DROP TABLE "+tableOf("finished", today+ahead+1)); err != nil {
		t.Fatal(err)
	}
	if err := s.begin(t.Context(), today+ahead+1); err != nil {
		t.Fatal(err)
	}
	if e := publish(t, s, incomingTo("b", "", "ep_1")); dayOf(e.Seq) != today+ahead+1 {
		t.Errorf("the number is of day %d, want %d", dayOf(e.Seq), today+ahead+1)
	}
}

func publish(t *testing.T, s *Store, in ...store.Incoming) store.Placed {
	t.Helper()
	done, err := s.Append(t.Context(), store.Batch{Config: version(t, s), Events: in})
	if err != nil {
		t.Fatal(err)
	}
	return done.Events[0]
}

// idsAround are ids of all forms: ids that Grapnel makes, at times around and far from a day,
// others that look like them, and publishers' own.
func idsAround(day int64, random *rand.ChaCha8) (ids []string) {
	for _, off := range []time.Duration{-40 * 24 * time.Hour, -48 * time.Hour, -24 * time.Hour, -time.Hour, -time.Millisecond, 0,
		time.Millisecond,
		12 * time.Hour, 24*time.Hour - time.Millisecond, 24 * time.Hour, 48 * time.Hour, 400 * 24 * time.Hour} {
		ids = append(ids, grapnel.NewID(grapnel.EventPrefix, midnight(day).Add(off), random))
	}
	first := firstID(day)
	return append(ids, first, first+"x", first[:len(first)-1], strings.ToUpper(first), first+strings.Repeat("z", 30), "evt_",
		"evt_zzzzzzzzzzzzzzzzzzzzzzzzzz",
		fmt.Sprint("order-", day, "-", random.Uint64()), fmt.Sprint(random.Uint64()))
}

// TestIDsOverDays publishes ids of all forms repeatedly at two nodes, for two tenants, while days
// begin. Each tenant's event is accepted exactly once, and every reader finds it after that.
func TestIDsOverDays(t *testing.T) {
	t.Parallel()
	idsOverDays(t, nodes(t, 2))
}

func idsOverDays(t *testing.T, all []*Store) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{5})
	pick := rand.New(random)
	day := all[0].days.known.Load().current
	var ids []string
	for d := day - 1; d <= day+6; d++ {
		ids = append(ids, idsAround(d, random)...)
	}
	config := version(t, all[0])
	accepted := make(map[string]int)
	numbers := make(map[string]int64)
	var mu sync.Mutex
	for round := range 6 {
		var both sync.WaitGroup
		for _, s := range all {
			order := pick.Perm(len(ids))
			both.Go(func() {
				for len(order) > 0 {
					n := min(len(order), 7)
					var b store.Batch
					b.Config = config
					for _, i := range order[:n] {
						zoes := incomingTo(ids[i], "")
						zoes.Event.Tenant = "zoe"
						b.Events = append(b.Events, incomingTo(ids[i], "", "ep_1"), zoes)
					}
					order = order[n:]
					done, err := s.Append(context.Background(), b)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for i, e := range done.Events {
						id := b.Events[i].Event.Tenant + b.Events[i].Event.ID
						if e.Conflict {
							t.Errorf("%s: a conflict with nothing", id)
						}
						if !e.Duplicate {
							accepted[id]++
							numbers[id] = e.Seq
						}
					}
					mu.Unlock()
				}
			})
		}
		if round%2 == 1 {
			cross(t, all[0]) // beside them
		}
		both.Wait()
		cross(t, all[round%2])
	}
	for _, id := range ids {
		if accepted["acme"+id] != 1 || accepted["zoe"+id] != 1 {
			t.Errorf("%s was accepted %d and %d times", id, accepted["acme"+id], accepted["zoe"+id])
		}
		other := incomingTo(id, "another key", "ep_1")
		done, err := all[1].Append(t.Context(), store.Batch{Config: config, Events: []store.Incoming{other}})
		if err != nil || !done.Events[0].Conflict {
			t.Errorf("%s with something else: %+v, %v", id, done, err)
		}
		e, ds, err := all[1].Event(t.Context(), store.Everyone(), "acme", id)
		if err != nil || e.Seq != numbers["acme"+id] || len(ds) != 1 {
			t.Errorf("%s: %+v, %+v, %v", id, e, ds, err)
		}
	}
	balanced(t, all[0])
}
