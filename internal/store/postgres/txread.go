package postgres

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// planned is set for a transaction that writes. Plans are made once per connection, often while
// tables are empty and a sequential scan is free, and stay when the tables have grown. So such
// scans are ruled out, with the joins that build on them.
const planned = "set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), " +
	"set_config('enable_mergejoin', 'off', true)"

// plannedOnce sets the same for all transactions of a connection, and keeps one plan for each
// statement. Without that, PostgreSQL plans those of lanes and numbers again at each call: it
// expects ten elements of an array whose length it does not know, so a plan for one seems cheaper.
var plannedOnce = "SET plan_cache_mode = force_generic_plan; SELECT " + strings.ReplaceAll(planned, "true", "false") + "; "

// Locks.
const (
	beginShared  = "SELECT " + planned + ", pg_advisory_xact_lock_shared($1::int, $2::int)"
	shareLock    = "SELECT pg_advisory_xact_lock_shared($1::int, $2::int)"
	aloneLock    = "SELECT pg_advisory_xact_lock($1::int, $2::int)"
	lanesLock    = "SELECT FROM lane WHERE number IN (SELECT lane FROM pending WHERE seq = ANY($1) AND lane <> 0) ORDER BY target, key FOR UPDATE"
	loneLock     = "SELECT FROM pending WHERE seq = ANY($1) AND lane = 0 ORDER BY seq FOR UPDATE"
	positionsSQL = `INSERT INTO lane AS l (target, key, last)
		SELECT target, key, sum(n) FROM (
			SELECT * FROM unnest($1::int[], $2::text[], $3::bigint[]) u(target, key, n)
			UNION ALL SELECT target, key, 0 FROM lane WHERE number IN (SELECT lane FROM pending WHERE seq = ANY($4) AND lane <> 0)
		) w GROUP BY target, key ORDER BY target, key COLLATE "C"
		ON CONFLICT (target, key) DO UPDATE SET last = l.last + excluded.last WHERE excluded.last > 0
		RETURNING number, target, key, last`
)

// The queries that read. Of each lane they read one delivery more than the transaction changes in
// it: so the next head is known whatever happens to those.
const (
	endpointsQuery = "SELECT id, tenant, deleted FROM endpoint WHERE id = ANY($1)"
	versionQuery   = `SELECT version, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
		ARRAY(SELECT nextval('event_number') FROM generate_series(1, $1::int)),
		ARRAY(SELECT nextval('delivery_number') FROM generate_series(1, $2::int)) FROM configuration`
)

var placesQuery = "SELECT " + placeColumns + " FROM pending p" + placeJoins + " WHERE p.seq = ANY($1)"

// linesQuery reads the pending deliveries of lanes. over is the source of finished deliveries: the
// tables of some days (calendar.of).
func linesQuery(over string) string {
	return `WITH touched AS (
			SELECT lane, count(*) + 1 AS n FROM (
				SELECT lane FROM pending WHERE seq = ANY($1) AND lane <> 0
				UNION ALL SELECT lane FROM ` + over + ` f WHERE seq = ANY($1) AND lane <> 0
				UNION ALL SELECT w.number FROM lane w JOIN unnest($2::int[], $3::text[]) u(target, key) ON w.target = u.target AND w.key = u.key
			) x GROUP BY lane)
		SELECT ` + placeColumns + ` FROM touched CROSS JOIN LATERAL (
			SELECT * FROM pending WHERE lane = touched.lane AND lane <> 0 ORDER BY position LIMIT touched.n) p` + placeJoins
}

func overQuery(over string) string {
	return "SELECT f.seq, f.status, k.tenant, f.event, f.created, t.endpoint, f.lane FROM " + over +
		" f JOIN kind k ON k.number = f.kind JOIN target t ON t.number = f.target WHERE f.seq = ANY($1)"
}

// begin takes the locks and reads the rows, in one round trip.
func begin(t *tx) error {
	n := t.needs
	t.epochs = make(map[int16]int64)
	t.endpoints, t.answers, t.events, t.known = make(map[string]decide.Object), make(map[string]*answer), make(map[eventName]*met),
		make(map[string]*known)
	t.named = make(map[int64]bool)
	t.places, t.over, t.lanes, t.byName = make(map[int64]*place), make(map[int64]*over), make(map[int64]*lane), make(map[laneOf]*lane)
	t.standings, t.tallies, t.totals = make(map[string]standing), make(map[tallyOf]*tally), make(map[totalOf]*grapnel.Totals)
	t.types = make(map[typeOf]*grapnel.Totals)

	were := t.store.highest.now()
	b := new(pgx.Batch)
	b.Queue("begin")
	if w := t.store.writing; w.prelude() != "" { // its connections do not have plannedOnce either
		w.queuePrelude(b)
		b.Queue("SELECT " + planned)
	}
	lock := shareLock
	if n.exclusive {
		lock = aloneLock
	}
	b.Queue(lock, lockClass, lockConfiguration)
	if n.refers {
		b.Queue(shareLock, lockClass, lockRemoval)
	}
	if n.queue != "" {
		queue, err := t.names.target(n.queue)
		if err != nil {
			return err
		}
		b.Queue(queueLock, queue)
	}
	switch shards := sortedKeys(n.shards, cmp.Compare[int16]); {
	case len(n.guarded) > 0:
		b.Queue(guardLock, shards, n.guarded).Query(t.readEpochs)
	case len(shards) > 0:
		b.Queue(shardsLock, shards).Query(t.readEpochs)
	}
	if len(n.keys) > 0 {
		b.Queue(answersQuery, keysOf(n.keys)).Query(t.readAnswers)
	}
	targets, keys, counts, err := n.wanted(&t.names)
	if err != nil {
		return err
	}
	ended := t.calendar.of("finished", n.deliveries)
	switch {
	case len(targets) > 0:
		b.Queue(positionsSQL, targets, keys, counts, n.deliveries).Query(t.readPositions)
		b.Queue(forgottenQuery, targets).Query(t.readForgotten)
	case len(n.deliveries) > 0:
		b.Queue(lanesLock, n.deliveries)
	}
	askLone(t, b)
	b.Queue(versionQuery, n.newEvents, n.newNumbers).QueryRow(func(row pgx.Row) error {
		return row.Scan(&t.version, &t.clock, &t.eventSeqs, &t.seqs)
	})
	if len(n.deliveries) > 0 {
		b.Queue(placesQuery, n.deliveries).Query(t.readPlaces)
	}
	if len(n.deliveries) > 0 || len(targets) > 0 {
		b.Queue(linesQuery(ended), n.deliveries, targets, keys).Query(t.readPlaces)
	}
	if len(n.deliveries) > 0 {
		b.Queue(overQuery(ended), n.deliveries).Query(t.readOver)
	}
	if len(n.endpoints) > 0 {
		b.Queue(endpointsQuery, possible(keysOf(n.endpoints))).Query(t.readEndpoints)
	}
	if len(n.ids) > 0 {
		ids := column(sortedKeys(n.ids, byName), func(name eventName) string { return name.id })
		b.Queue(metQuery(t.calendar.holders(ids)), ids, n.tenants()).Query(t.readMet)
	}
	if len(n.known) > 0 {
		b.Queue(knownQuery, column(keysOf(n.known), func(key string) []byte { return []byte(key) })).Query(t.readKnown)
	}
	if err := t.conn.SendBatch(t.ctx, b).Close(); err != nil {
		return err
	}
	if err := checkNumbers(t, were); err != nil {
		return err
	}
	if missed(t) {
		return errUnlike
	}
	t.store.days.clock.Store(t.clock)
	if len(t.eventSeqs) > 0 && dayOf(t.eventSeqs[0]) != t.calendar.current {
		return fmt.Errorf("%w: a day has begun", errSpoiled)
	}
	return readNamed(t)
}

// load locks further deliveries and finds them, for an operation that only then knows which it
// needs.
func (t *tx) load(seqs []int64) error {
	if len(seqs) == 0 {
		return nil
	}
	b := new(pgx.Batch)
	b.Queue(lanesLock, seqs)
	b.Queue(loneLock, seqs)
	b.Queue(placesQuery, seqs).Query(t.readPlaces)
	return t.conn.SendBatch(t.ctx, b).Close()
}

func (t *tx) readPositions(rows pgx.Rows) error {
	var number, last int64
	var of laneOf
	if err := (asked{rows: rows}).each([]any{&number, &of.target, &of.key, &last}, func() { t.lane(number, of).drawn = last }); err != nil {
		return err
	}
	for w, n := range t.needs.lanes {
		target, err := t.names.target(w.endpoint)
		if err != nil {
			return err
		}
		l, err := t.laneBy(target, w.key)
		if err != nil {
			return err
		}
		l.given = l.drawn - n
	}
	return nil
}

// laneBy is the lane of a key. An ordered delivery without its lane would be sent out of order, so
// a lane that was not read is an error.
func (t *tx) laneBy(target int32, key string) (*lane, error) {
	if l := t.byName[laneOf{target, key}]; l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("%w: key %q has no lane at endpoint number %d", errSpoiled, key, target)
}

// lane is the lane with this number.
func (t *tx) lane(number int64, of laneOf) *lane {
	l := t.lanes[number]
	if l == nil {
		l = &lane{laneOf: of, number: number}
		t.lanes[number], t.byName[of] = l, l
	}
	return l
}

func (t *tx) readPlaces(rows pgx.Rows) error {
	return readPlaces(asked{rows: rows}, func(p *place) {
		if t.places[p.Seq] != nil {
			return
		}
		if p.inLane != 0 {
			p.lane = t.lane(p.inLane, laneOf{p.target, p.Key})
			p.lane.add(p)
		}
		t.places[p.Seq] = p
	})
}

func (t *tx) readOver(rows pgx.Rows) error {
	var seq, lane int64
	var is over
	return asked{rows: rows}.each([]any{&seq, &is.Status, &is.tenant, &is.Event, &is.Created, &is.Endpoint, &lane}, func() {
		found := is
		found.lane = t.lanes[lane]
		t.over[seq] = &found
	})
}

func (t *tx) readEndpoints(rows pgx.Rows) error {
	var id string
	is := decide.Object{There: true}
	return asked{rows: rows}.each([]any{&id, &is.Tenant, &is.Deleted}, func() { t.endpoints[id] = is })
}

// open refuses an endpoint that takes no new deliveries.
func (t *tx) open(endpoint string) error {
	is := t.endpoints[endpoint]
	return is.Open()
}
