package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// manyDays is enough for lists of a month to meet many tables. The database is in the last of these
// days.
const manyDays = 40

// hot are the statements of every transaction, with arguments. They must not scan a whole table,
// whatever the server's statistics say: plans are made once per connection, often while tables are
// empty. Nor may they visit all days, because each would have to be locked.
func hot(c *calendar) map[string]string {
	const some, none = "'{1,2,3}'", "'{}'"
	today, before := c.of("finished", []int64{begins(c.current)}), c.of("finished", []int64{begins(c.current), begins(c.current - 1)})
	id := grapnel.NewID(grapnel.EventPrefix, midnight(c.current), strings.NewReader("0123456789"))
	return map[string]string{
		lanesLock:                         some,
		loneLock:                          some,
		positionsSQL:                      "'{1}','{k}','{1}'," + some,
		forgottenQuery:                    "'{1}'",
		placesQuery:                       some,
		lockLone:                          some,
		takeLone:                          some,
		leasedQuery:                       some,
		linesQuery(today):                 some + ",'{1}','{k}'",
		linesQuery(before):                some + ",'{1}','{k}'",
		overQuery(today):                  some,
		overQuery(before):                 some,
		metQuery(c.holders([]string{id})): "'{a,b}','{acme}'",
		knownQuery:                        "'{}'",
		answersQuery:                      "'{a,b}'",
		dropPending:                       some,
		shardsLock:                        some,
		guardLock:                         none + "," + some,
		changePending.SQL: some + "," + some + "," + some + "," + some + "," + some +
			",'{t,t,t}','{f,f,f}','{a,a,a}','{a,a,a}','{a,a,a}'," + some + ",'{a,a,a}'," + some,
		setResults: some + "," + some + ",'{a,a,a}'",
		countItems: some + ",'{a,a,a}'",
	}
}

// whole finds sequential scans. Tables that are always small may be scanned.
var whole = regexp.MustCompile(`Seq Scan on ((event|finished|attempt)(_\d{8})?|pending|lane|redelivery|lease|mark|known|answer|replay_item|document|event_name)\b`)

// ofDay finds tables of one day.
var ofDay = regexp.MustCompile(`\b(event|finished|attempt)_(first|\d{8})\b`)

// someDays begins manyDays days.
func someDays(t *testing.T, s *Store) {
	t.Helper()
	last := s.days.known.Load().current
	if _, err := s.pool.Exec(t.Context(), "SELECT setval('event_number', 1, false), setval('delivery_number', 1, false)"); err != nil {
		t.Fatal(err)
	}
	for day := last - manyDays + 1; day <= last; day++ {
		if err := s.begin(t.Context(), day); err != nil {
			t.Fatal(err)
		}
	}
}

// fill puts 1250 events into each day.
func fill(last int64) string {
	of := func(n string) string { return fmt.Sprintf("((%d + %s / 1250) << 36) + %s", last-manyDays+1, n, n) }
	return `
	CREATE FUNCTION of(n bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT ` + of("n") + `';
	INSERT INTO target (endpoint, shard) SELECT 'ep_' || n, n % 256 FROM generate_series(1, 100) n;
	INSERT INTO kind (tenant, type, source) SELECT 'acme', 'type.' || n, '' FROM generate_series(1, 20) n;
	INSERT INTO lane (target, key, last) SELECT 1 + n % 100, 'k' || n, 1 FROM generate_series(1, 20000) n;
	INSERT INTO event SELECT of(n), 'evt_' || n, 'acme', 1 + n % 20, 'k' || n, n, n, of(n), of(n), 1, '', 0, 0, NULL, NULL, NULL
		FROM generate_series(1, 49999) n;
	INSERT INTO finished SELECT of(n), 1 + n % 100, of(n), 1 + n % 20, 1 + n % 20000, 1, n, n, 0, 0, 1, 200,
		CASE WHEN n % 20 = 0 THEN 'failed' ELSE 'delivered' END, 'none', '', '', NULL FROM generate_series(1, 49999) n WHERE n % 5 <> 0;
	INSERT INTO pending SELECT of(n), 1 + n % 100, of(n), 1 + n % 20, 1 + n % 20000, 2, n, 0, n, n, NULL, 0, 0, 0, true, false, 'schedule', '', '', ''
		FROM generate_series(5, 49999, 5) n;
	INSERT INTO lease SELECT of(n), 't' || n, 1 + n % 100, 'c', 0, 0 FROM generate_series(5, 25000, 5) n;
	INSERT INTO redelivery SELECT of(n), of(n - 100) FROM generate_series(20001, 25000) n;
	INSERT INTO mark (delivery) SELECT of(n) FROM generate_series(1, 5000) n;
	INSERT INTO document SELECT 'acme', CASE WHEN n % 2 = 0 THEN 'alert' ELSE 'sli' END, 'a' || n, 1, n, '' FROM generate_series(1, 20000) n;
	INSERT INTO replay_item SELECT n, 1, n, n, n, 'pending' FROM generate_series(1, 5000) n;
	ANALYZE`
}

func TestPlans(t *testing.T) {
	url := blank(t)
	s := open(t, url, Options{})
	defer func() { _ = s.Close() }()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	run(plannedOnce)
	someDays(t, s)
	days := s.days.known.Load()
	for _, state := range []struct{ name, sql string }{{"new", "SELECT 1"}, {"full", fill(days.current)}} {
		run(state.sql)
		n := 0
		for sql, args := range hot(days) {
			n++
			name := fmt.Sprint(state.name, n)
			run("PREPARE " + name + " AS " + sql)
			rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE "+name+"("+args+")", pgx.QueryExecModeSimpleProtocol)
			if err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
			plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
			if text := strings.Join(plan, "\n"); whole.MatchString(text) || len(ofDay.FindAllString(text, -1)) > 4*fewDays {
				t.Errorf("%s database: %s\n%s", state.name, sql, text)
			}
		}
	}
}

// TestReadPlans checks the frequent reads of the engine and the dashboard. They are planned each
// time, with the current statistics.
func TestReadPlans(t *testing.T) {
	url := blank(t)
	s := open(t, url+"&random_page_cost=1.1", Options{Bounds: Bounds{Conns: Conns{Patience: time.Minute}}})
	defer func() { _ = s.Close() }()
	someDays(t, s)
	today := s.days.known.Load().current
	if _, err := s.pool.Exec(t.Context(), fill(today), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	number := func(n int64) int64 { return begins(today-manyDays+1+n/1250) + n }
	list := func(q store.DeliveryQuery) (string, []any) {
		q.Limit = 50
		l, err := s.listing(t.Context(), &q)
		if err != nil || l == nil {
			t.Fatalf("%+v: %v", q, err)
		}
		f, err := s.listQuery(t.Context(), l, 0)
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		return f.sql(), f.values
	}
	type query struct {
		sql  string
		args []any
	}
	of := func(sql string, args ...any) query { return query{sql, args} }
	listed := func(q store.DeliveryQuery) query {
		sql, args := list(q)
		return query{sql, args}
	}
	documented := func(q store.DocumentQuery) query {
		q.Kind, q.Limit = "alert", 50
		f := documentsQuery(q)
		return query{f.sql(), f.values}
	}
	// Days are small here, which may make a scan cheaper than an index. Then the index must at least
	// be usable.
	small := map[string]bool{"of an event": true, "those of a key": true, "lanes to forget": true, "a day's lanes to forget": true}
	for name, q := range map[string]query{
		"heads":                   of(headsQuery, "ep_1", 10),
		"head":                    of(placesQuery, []int64{number(45000)}),
		"events":                  of(eventsQuery, []int64{number(1), number(2), number(3)}),
		"delivery":                of(deliveriesQuery, []int64{number(45000)}),
		"origins":                 of(originsQuery, []int64{number(45000)}),
		"event":                   of(eventByIDQuery, "evt_5", "", int64(0), int64(0), []int64{number(5)}),
		"of an event":             of(ofEventQuery, number(5), number(5), number(5), []int64{number(256)}),
		"newest":                  of(ageQuery),
		"fresh":                   of(freshQuery, number(49900), []int16{1, 2, 3}, 10),
		"oldest":                  of(oldestQuery, "ep_1", int64(0), int64(1<<60), 100),
		"late":                    of(lateQuery, "ep_1", int64(0), int64(1<<60), 100),
		"newest deliveries":       listed(store.DeliveryQuery{}),
		"an endpoint's":           listed(store.DeliveryQuery{Endpoint: "ep_1"}),
		"an endpoint's failed":    listed(store.DeliveryQuery{Endpoint: "ep_1", Status: []grapnel.Status{grapnel.Failed}}),
		"an endpoint's dead ones": listed(store.DeliveryQuery{Endpoint: "ep_1", DeadLetters: true}),
		"document":                of(documentQuery, "acme", "alert", "a77"),
		"documents":               documented(store.DocumentQuery{}),
		"documents backwards":     documented(store.DocumentQuery{After: "a77", Backwards: true}),
		"a tenant's documents":    documented(store.DocumentQuery{Tenant: "acme", After: "a77"}),
		"documents to clear":      of(clearDocuments, "alert", int64(1), 10),
		"those of a key":          listed(store.DeliveryQuery{Key: "k77"}),
		"lanes to forget":         of(forgetLanes, []int64{number(45000), number(45001)}, int64(1)),
		"a day's lanes to forget": of(ofDayTables(forgetPage, today), begins(today), 10, []int64{-1}, int64(1)),
	} {
		var plan []string
		err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
			if small[name] {
				if _, err := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off"); err != nil {
					return err
				}
			}
			rows, err := tx.Query(t.Context(), "EXPLAIN "+q.sql, q.args...)
			if err == nil {
				plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
			}
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := strings.Join(plan, "\n")
		for day := today + 1; day <= today+ahead; day++ { // the days ahead, which are empty
			for _, of := range dated {
				text = strings.ReplaceAll(text, "Seq Scan on "+tableOf(of, day), "")
			}
		}
		if whole.MatchString(text) {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// TestWritesKeepTheirPlans: no statement of a transaction that writes is planned at each call.
func TestWritesKeepTheirPlans(t *testing.T) {
	s := open(t, blank(t), Options{})
	defer func() { _ = s.Close() }()
	for n := range 8 { // PostgreSQL compares plans after five calls
		for _, key := range []string{"", "k"} {
			in := incomingTo(fmt.Sprint(key, n), key, "ep_1")
			done, err := s.Append(t.Context(), store.Batch{Config: version(t, s), Events: []store.Incoming{in}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Record(t.Context(), []store.Change{deliver(done.Heads[0])}); err != nil {
				t.Fatal(err)
			}
		}
	}
	kept := 0
	for _, conn := range s.writing.AcquireAllIdle(t.Context()) {
		rows, err := conn.Query(t.Context(), "SELECT statement, custom_plans, generic_plans FROM pg_prepared_statements",
			pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		var sql string
		var again, once int
		if _, err := pgx.ForEachRow(rows, []any{&sql, &again, &once}, func() error {
			kept += once
			if again > 0 {
				t.Errorf("planned %d times: %s", again, sql)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		conn.Release()
	}
	if kept < 100 {
		t.Errorf("%d calls with a plan that is kept, want more", kept)
	}
}
