package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// The queries that read. Of each lane they read one delivery more than the transaction changes in
// it: so the next head is known whatever happens to those.
const (
	endpointsQuery = "SELECT id, tenant, deleted FROM endpoint WHERE id = ANY($1)"
	versionQuery   = `SELECT version, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
		ARRAY(SELECT nextval('event_number') FROM generate_series(1, $1::int)),
		ARRAY(SELECT nextval('delivery_number') FROM generate_series(1, $2::int)) FROM configuration`
)

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

func (t *tx) readPositions(got pgx.Rows) error {
	var number, last int64
	var of laneOf
	if err := (rows.Answered(got)).Each([]any{&number, &of.target, &of.key, &last}, func() { t.lane(number, of).drawn = last }); err != nil {
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

func (t *tx) readPlaces(got pgx.Rows) error {
	return readPlaces(rows.Answered(got), func(p *place) {
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

func (t *tx) readOver(got pgx.Rows) error {
	var seq, lane int64
	var is over
	return rows.Answered(got).Each([]any{&seq, &is.Status, &is.tenant, &is.Event, &is.Created, &is.Endpoint, &lane}, func() {
		found := is
		found.lane = t.lanes[lane]
		t.over[seq] = &found
	})
}

func (t *tx) readEndpoints(got pgx.Rows) error {
	var id string
	is := decide.Object{There: true}
	return rows.Answered(got).Each([]any{&id, &is.Tenant, &is.Deleted}, func() { t.endpoints[id] = is })
}
