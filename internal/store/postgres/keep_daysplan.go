package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

const (
	lastEventQuery = "SELECT accepted FROM %event ORDER BY seq DESC LIMIT 1"
	stateQuery     = `SELECT purged, (SELECT coalesce(max(seq), -1) FROM %event), (SELECT coalesce(max(seq), -1) FROM %finished)
		FROM ledger`
	goingQuery = `SELECT g.target, k.tenant, g.status, g.n, g.newest FROM (
			SELECT d.target, d.kind, d.status, count(*) AS n, max(d.seq) AS newest FROM %finished d
				JOIN unnest($1::int[], $2::bigint[]) cut(kind, before) ON cut.kind = d.kind AND d.finished < before AND ` + acceptedAt + ` < before
			GROUP BY d.target, d.kind, d.status
		) g JOIN kind k ON k.number = g.kind`
	stayingQuery = `SELECT d.seq, d.event FROM %finished d LEFT JOIN unnest($1::int[], $2::bigint[]) cut(kind, before) ON cut.kind = d.kind
		WHERE (d.finished < before AND ` + acceptedAt + ` < before) IS NOT TRUE LIMIT $3`
	// One query for both, because events are large: the events that stay, and the number of deleted
	// events without deliveries.
	ofEvents = `SELECT coalesce((array_agg(seq) FILTER (WHERE stays))[1:$3], '{}'), count(*) FILTER (WHERE made = 0 AND NOT stays) FROM (
			SELECT seq, made, cut.kind IS NULL OR accepted >= before OR last >= $4 AS stays FROM %event e
				LEFT JOIN unnest($1::int[], $2::bigint[]) cut(kind, before) ON cut.kind = e.kind
		) e`
	waitingOfDay  = "SELECT seq, event FROM pending WHERE seq >= $1 AND seq < $2 ORDER BY seq LIMIT $3"
	keepEvents    = "INSERT INTO kept_event SELECT * FROM %event WHERE seq = ANY($1) AND seq <> ALL($2)"
	keepFinished  = "INSERT INTO kept_finished SELECT * FROM %finished WHERE seq = ANY($1)"
	keepAttempts  = "INSERT INTO kept_attempt SELECT * FROM %attempt WHERE delivery = ANY($1)"
	repeatedOfDay = "SELECT DISTINCT event FROM redelivery WHERE event >= $1 AND event < $2 AND delivery >= $2 LIMIT $3"
	changedInDay  = `SELECT EXISTS (SELECT FROM pending WHERE seq >= $1 AND seq < $2 AND seq <> ALL($3))
		OR EXISTS (SELECT FROM %finished WHERE seq > $4 AND seq <> ALL($3))`
	exclusively = "LOCK TABLE ONLY event, ONLY finished, ONLY attempt IN ACCESS EXCLUSIVE MODE"
)

// ofDayTables inserts the names of a day's tables into a query.
func ofDayTables(query string, day int64) string {
	for _, of := range dated {
		query = strings.ReplaceAll(query, "%"+of, tableOf(of, day))
	}
	return query
}

// isOld says whether the retention of a day's last event has passed for every kind of the day. It
// reads the kinds only if the answer depends on them, because one rule says yes and another no. If
// the answer is no then, it is errNotNow, so that the kinds are not read in every round.
func (s *keeper) isOld(ctx context.Context, day int64, keep *store.Keep) (bool, error) {
	var last int64
	err := s.chores.QueryRow(ctx, ofDayTables(lastEventQuery, day)).Scan(&last)
	switch {
	case rows.IsNone(err):
		return true, nil
	case err != nil || last >= codec.Micros(keep.Now.Add(-slices.Min(retentions(keep)))):
		return false, err
	case last < codec.Micros(keep.Now.Add(-slices.Max(retentions(keep)))):
		return true, nil
	}
	before, err := cutoffs(ctx, s.chores, eventKinds, day, keep)
	for _, cut := range before {
		if err == nil && last >= cut {
			return false, errNotNow
		}
	}
	return err == nil, err
}

// The kinds of a day: those of its events, one index step each, and those of deliveries that repeat
// events of earlier days.
const (
	eventKinds = `WITH RECURSIVE one AS (
			(SELECT kind FROM %event ORDER BY kind LIMIT 1)
			UNION ALL SELECT (SELECT kind FROM %event WHERE kind > one.kind ORDER BY kind LIMIT 1) FROM one WHERE one.kind IS NOT NULL
		) SELECT k.number, k.tenant, k.type FROM one CROSS JOIN LATERAL (SELECT * FROM kind WHERE number = one.kind OFFSET 0) k`
	dayKinds = eventKinds + ` UNION SELECT k.number, k.tenant, k.type FROM (SELECT DISTINCT kind FROM %finished WHERE replay_of <> 0) f
		CROSS JOIN LATERAL (SELECT * FROM kind WHERE number = f.kind OFFSET 0) k`
)

// cutoffs are, for each kind of a day, the time before which an event must have been accepted, and
// a delivery finished, to be deleted.
func cutoffs(ctx context.Context, db rows.Queries, kinds string, day int64, keep *store.Keep) (before map[int32]int64, err error) {
	before = make(map[int32]int64)
	var number int32
	var k kind
	err = rows.Ask(ctx, db, ofDayTables(kinds, day)).Each([]any{&number, &k.tenant, &k.eventType}, func() {
		before[number] = codec.Micros(keep.Now.Add(-keep.Of(k.tenant, k.eventType)))
	})
	return before, err
}

// lookAtDay plans which rows of a day stay.
func (s *keeper) lookAtDay(ctx context.Context, tx pgx.Tx, day int64, keep *store.Keep) (*clearance, error) {
	before, err := cutoffs(ctx, tx, dayKinds, day, keep)
	if err != nil {
		return nil, err
	}
	c := &clearance{day: day, long: keep.Shortest().Microseconds(), most: s.bounds.DayStays, events: []int64{},
		tallies: make(map[tallyOf]*tally), highest: make(map[int32]int64)}
	kinds := sortedKeys(before, cmp.Compare[int32])
	cuts := rows.Column(kinds, func(kind int32) int64 { return before[kind] })
	events := make(map[int64]bool)
	pairs := func(sql string, args ...any) (seqs []int64, err error) {
		seqs = []int64{} // not NULL
		var seq, event int64
		err = rows.Ask(ctx, tx, ofDayTables(sql, day), args...).Each([]any{&seq, &event}, func() {
			seqs = append(seqs, seq)
			events[event] = true
		})
		return seqs, err
	}
	// The cheapest queries come first, because they may show already that too much stays.
	if err = tx.QueryRow(ctx, ofDayTables(stateQuery, day)).Scan(&c.purged, &c.lastEvent, &c.lastOver); err != nil {
		return nil, err
	}
	var seqs []int64
	for _, read := range []func() error{
		func() error { c.waiting, err = pairs(waitingOfDay, begins(day), begins(day+1), c.most+1); return err },
		func() error { seqs, err = c.repeated(ctx, tx); return err },
		func() error { c.over, err = pairs(stayingQuery, kinds, cuts, c.most+1); return err },
		func() error {
			return tx.QueryRow(ctx, ofDayTables(ofEvents, day), kinds, cuts, c.most+1, begins(day+1)).Scan(&seqs, &c.counted)
		},
	} {
		if err := read(); err != nil {
			return nil, err
		}
		for _, event := range seqs {
			events[event] = true
		}
		if len(c.over)+len(c.waiting)+len(events) > c.most {
			return nil, errNotNow
		}
	}
	for event := range events {
		if dayOf(event) == day {
			c.events = append(c.events, event)
		}
	}
	if err := c.count(ctx, tx, kinds, cuts); err != nil {
		return nil, err
	}
	c.counted += int(c.removed)
	if stay := c.stays(); stay > 0 && c.counted < s.days.worth*stay {
		return nil, errNotNow
	}
	return c, nil
}

// repeated are the events of the day that have deliveries of later days.
func (c *clearance) repeated(ctx context.Context, db pgx.Tx) ([]int64, error) {
	return rows.FirstColumn[int64](rows.Ask(ctx, db, repeatedOfDay, begins(c.day), begins(c.day+1), c.most+1))
}

// count counts the deliveries to delete.
func (c *clearance) count(ctx context.Context, tx pgx.Tx, kinds []int32, cuts []int64) error {
	var of tallyOf
	var status grapnel.Status
	var n, newest int64
	err := rows.Ask(ctx, tx, ofDayTables(goingQuery, c.day), kinds, cuts).Each([]any{&of.target, &of.tenant, &status, &n, &newest}, func() {
		*store.Entry(c.tallies, of).of(status) -= n
		c.removed, c.newest, c.highest[of.target] = c.removed+n, max(c.newest, newest), max(c.highest[of.target], newest)
	})
	return err
}

// stays is the number of rows that stay.
func (c *clearance) stays() int { return len(c.events) + len(c.over) + len(c.waiting) }

// clearance is the plan for clearing a day.
type clearance struct {
	day       int64
	long      int64   // the shortest retention, in microseconds: see forgetPage
	most      int     // limit for the rows that stay
	events    []int64 // events that stay
	over      []int64 // finished deliveries that stay
	waiting   []int64 // deliveries that were pending
	tallies   map[tallyOf]*tally
	counted   int             // as counted by Purge
	removed   int64           // deliveries to delete
	newest    int64           // highest row id of those
	highest   map[int32]int64 // the same by target
	lastEvent int64
	lastOver  int64
	purged    int64 // ledger's count of purged deliveries, of all nodes
}

// errNotNow says that a day is not worth clearing yet.
var errNotNow = errors.New("postgres: too much of the day has to stay")

// retentions are those of all rules, and the one without a rule.
func retentions(keep *store.Keep) []time.Duration {
	return append(rows.Column(keep.Rules, func(r store.KeepRule) time.Duration { return r.For }), keep.For)
}
