package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// hot are the statements of every transaction, with arguments. They must not look at a whole table, whatever the server knows of it: plans are
// made once for a connection, often while there is nothing yet.
func hot() map[string]string {
	const some, none = "'{1,2,3}'", "'{}'"
	return map[string]string{
		lanesLock:     some,
		loneLock:      some,
		positionsSQL:  "'{1}','{k}','{1}'," + some,
		placesQuery:   some,
		linesQuery:    some + ",'{1}','{k}'",
		overQuery:     some,
		metQuery:      "'{a,b}'",
		knownQuery:    "'{}'",
		answersQuery:  "'{a,b}'",
		dropPending:   some,
		guardLock:     none + "," + some,
		changePending: some + "," + some + "," + some + "," + some + "," + some + ",'{t,t,t}','{f,f,f}','{a,a,a}','{a,a,a}','{a,a,a}'," + some + ",'{a,a,a}'," + some,
		setResults:    some + "," + some + ",'{a,a,a}'",
		countItems:    some + ",'{a,a,a}'",
	}
}

// whole finds tables that are looked at from one end to the other. Those that are always small may be.
var whole = regexp.MustCompile(`Seq Scan on (event|pending|finished|lane|attempt|redelivery|lease|mark|known|answer|replay_item)\b`)

const fill = `
	INSERT INTO target (endpoint, shard) SELECT 'ep_' || n, n % 256 FROM generate_series(1, 100) n;
	INSERT INTO kind (tenant, type, source) SELECT 'acme', 'type.' || n, '' FROM generate_series(1, 20) n;
	INSERT INTO lane (target, key, last) SELECT 1 + n % 100, 'k' || n, 1 FROM generate_series(1, 20000) n;
	INSERT INTO event SELECT n, 'evt_' || n, 1 + n % 20, 'k' || n, n, n, n, n, 1, '', 0, 0, NULL, NULL, NULL FROM generate_series(1, 50000) n;
	INSERT INTO finished SELECT n, 1 + n % 100, n, 1 + n % 20, 1 + n % 20000, 1, n, n, 0, 0, 1, 200, CASE WHEN n % 20 = 0 THEN 'failed' ELSE 'delivered' END,
		'none', '', '', NULL FROM generate_series(1, 40000) n;
	INSERT INTO pending SELECT n, 1 + n % 100, n, 1 + n % 20, 1 + n % 20000, 2, n, 0, n, n, NULL, 0, 0, 0, true, false, 'schedule', '', '', ''
		FROM generate_series(40001, 50000) n;
	INSERT INTO lease SELECT n, 't' || n, 1 + n % 100, 'c', 0, 0 FROM generate_series(40001, 45000) n;
	INSERT INTO redelivery SELECT n, n - 100 FROM generate_series(20001, 25000) n;
	INSERT INTO mark (delivery) SELECT n FROM generate_series(1, 5000) n;
	INSERT INTO replay_item SELECT n, 1, n, n, n, 'pending' FROM generate_series(1, 5000) n;
	ANALYZE`

func TestPlans(t *testing.T) {
	url := database(t)
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
	run("SET plan_cache_mode = force_generic_plan")
	run("SELECT " + strings.ReplaceAll(planned, "true", "false"))
	for _, state := range []struct{ name, sql string }{{"new", "SELECT 1"}, {"full", fill}} {
		run(state.sql)
		n := 0
		for sql, args := range hot() {
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
			if text := strings.Join(plan, "\n"); whole.MatchString(text) {
				t.Errorf("%s database: %s\n%s", state.name, sql, text)
			}
		}
	}
}

// TestReadPlans looks at what reads do that the engine and the dashboard make all the time. They are planned each time, for what there is.
func TestReadPlans(t *testing.T) {
	url := database(t)
	s := open(t, url, Options{})
	defer func() { _ = s.Close() }()
	if _, err := s.pool.Exec(t.Context(), fill, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	list := func(q store.DeliveryQuery) (string, []any) {
		q.Limit = 50
		f, err := s.listQuery(t.Context(), &q)
		if err != nil || f == nil {
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
	for name, q := range map[string]query{
		"heads":                   of(headsQuery, "ep_1", 10),
		"head":                    of(placesQuery, []int64{45000}),
		"events":                  of(eventsQuery, []int64{1, 2, 3}),
		"delivery":                of(deliveriesQuery, []int64{45000}),
		"origins":                 of(originsQuery, []int64{45000}),
		"event":                   of(eventByIDQuery, "evt_5"),
		"of an event":             of(ofEventQuery, int64(5), int64(5), int64(5)),
		"newest":                  of(ageQuery),
		"fresh":                   of(freshQuery, int64(49900), []int16{1, 2, 3}, 10),
		"oldest":                  of(oldestQuery, "ep_1", int64(0), int64(1<<60), 100),
		"late":                    of(lateQuery, "ep_1", int64(0), int64(1<<60), 100),
		"newest deliveries":       listed(store.DeliveryQuery{}),
		"an endpoint's":           listed(store.DeliveryQuery{Endpoint: "ep_1"}),
		"an endpoint's failed":    listed(store.DeliveryQuery{Endpoint: "ep_1", Status: []grapnel.Status{grapnel.Failed}}),
		"an endpoint's dead ones": listed(store.DeliveryQuery{Endpoint: "ep_1", DeadLetters: true}),
		"those of a key":          listed(store.DeliveryQuery{Key: "k77"}),
	} {
		rows, err := s.pool.Query(t.Context(), "EXPLAIN "+q.sql, q.args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text := strings.Join(plan, "\n"); whole.MatchString(text) {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
