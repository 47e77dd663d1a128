package postgres

import (
	"bytes"
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

// TestFirstDayOfTwoNodes: two nodes start on a new database at the same moment. One drops the
// tables of day 0 while the other waits to check them. That is no failure.
func TestFirstDayOfTwoNodes(t *testing.T) {
	t.Parallel()
	url := database(t)
	if _, err := Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	opened := make(chan *Store)
	on(t, url, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(t.Context(), conn, func(other pgx.Tx) error {
			if _, err := other.Exec(t.Context(), "LOCK TABLE event_first IN SHARE UPDATE EXCLUSIVE MODE"); err != nil {
				return err
			}
			go func() {
				s, err := Open(context.WithoutCancel(t.Context()), url, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				if err != nil {
					t.Error(err)
				}
				opened <- s
			}()
			for waits := false; !waits; {
				const query = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'event_first'::regclass)"
				if err := other.QueryRow(t.Context(), query).Scan(&waits); err != nil {
					return err
				}
			}
			_, err := other.Exec(t.Context(), "DROP TABLE event_first, finished_first, attempt_first")
			return err
		})
	})
	s := <-opened
	if s == nil {
		return
	}
	defer func() { _ = s.Close() }()
	if c := s.days.known.Load(); log.Len() > 0 || c.has(0) || c.newest() != c.current+ahead {
		t.Errorf("%+v, logged: %s", c, &log)
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

// TestOldDatabase upgrades a database from before there were days while a program of that version
// keeps using it.
func TestOldDatabase(t *testing.T) {
	t.Parallel()
	url := database(t)
	on(t, url, func(conn *pgx.Conn) error { return migrate(t.Context(), conn, stepsUpTo(t, "days")) })
	old, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close(t.Context()) }()
	const (
		number = `SELECT nextval('event_number'), nextval('delivery_number')`
		event  = `INSERT INTO event (seq, id, kind, key, accepted, occurred, first, last, made, content_type, packed, sum, metadata, data, intake)
			SELECT * FROM unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::bigint[], $5::bigint[], $6::bigint[], $6::bigint[], $3::int[],
				$4::text[], $7::smallint[], $5::bigint[], $8::bytea[], $8::bytea[], $8::bytea[])`
		over = `INSERT INTO finished SELECT $1::bigint, 1, $2::bigint, 1, 0, 0, $3::bigint, $3::bigint, 0, 0, 1, 200, 'delivered', 'none', '', '', NULL`
		met  = "SELECT e.id, e.seq FROM event e WHERE e.id = ANY($1)"
	)
	write := func(id string) (seq int64) {
		t.Helper()
		var delivery int64
		if err := old.QueryRow(t.Context(), number).Scan(&seq, &delivery); err != nil {
			t.Fatal(err)
		}
		at := at(0).UnixMicro()
		if _, err := old.Exec(t.Context(), event, []int64{seq}, []string{id}, []int32{1}, []string{""}, []int64{at}, []int64{delivery},
			[]int16{0}, [][]byte{nil}); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if _, err := old.Exec(t.Context(), over, delivery, seq, at); err != nil {
			t.Fatal(err)
		}
		return seq
	}
	find := func(ids ...string) {
		t.Helper()
		rows, err := old.Query(t.Context(), met, ids)
		if err != nil {
			t.Fatal(err)
		}
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id string, err error) {
			var seq int64
			return id, row.Scan(&id, &seq)
		})
		if slices.Sort(found); err != nil || !slices.Equal(found, ids) {
			t.Errorf("the program of before finds %v (%v), want %v", found, err, ids)
		}
	}
	if _, err := old.Exec(t.Context(), `INSERT INTO target (endpoint, shard) VALUES ('ep_1', 1); INSERT INTO kind (tenant, type, source) VALUES ('acme', 'invoice.paid', '');
		INSERT INTO tally VALUES (1, 'acme', 0, 4, 0, 4, 0, 0, 0, 0)`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	write("a")
	find("a")
	plan, err := Inspect(t.Context(), url)
	if err != nil || len(plan.Steps) == 0 {
		t.Fatal(plan, err)
	}
	for _, step := range plan.Steps {
		if step.Name == "days" && (step.Heavy || step.Cuts || len(step.Does) != 3) {
			t.Errorf("what is said of the step: %+v", step)
		}
	}
	if _, err := Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	write("b")
	s := open(t, url, Options{CallersClock: true})
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if c := s.days.known.Load(); !c.has(0) || c.current == 0 {
		t.Fatalf("the days of an old database: %+v", c)
	}
	if seq := write("c"); dayOf(seq) != s.days.known.Load().current {
		t.Error("the program of before goes on in another day")
	}
	cross(t, s)
	write("d")
	find("a", "b", "c", "d")
	for _, id := range []string{"a", "b", "c", "d"} {
		done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{incomingTo(id, "k", "ep_1")}})
		if err != nil || !done.Events[0].Conflict {
			t.Errorf("%s: %+v, %v", id, done, err)
		}
	}
	publish(t, s, incomingTo("e", "", "ep_1"))
	find("a", "b", "c", "d", "e")
	list, err := s.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 10})
	if err != nil || len(list) != 5 || list[0].EventID != "e" || list[4].EventID != "a" {
		t.Errorf("%d deliveries, %v: %+v", len(list), err, list)
	}
	// The tables of day 0 are dropped as a whole, too.
	n, err := s.Purge(t.Context(), store.Keep{Now: at(0).Add(100 * aDay), For: 30 * aDay, Slack: aDay}, 100)
	if days := tablesOf(t, s); err != nil || n != 4 || slices.Contains(days, 0) {
		t.Errorf("purged %d, %v; days %v", n, err, days)
	}
	balanced(t, s)
}
