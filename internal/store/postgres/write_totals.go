package postgres

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

const (
	addTallies = `INSERT INTO tally AS y (target, tenant, slot, made, pending, delivered, failed, dropped, discarded, skipped)
		SELECT u.target, u.tenant, $3, made, pending, delivered, failed, dropped, discarded, skipped
		FROM unnest($1::int[], $2::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[])
			u(target, tenant, made, pending, delivered, failed, dropped, discarded, skipped)
		ON CONFLICT (target, tenant, slot) DO UPDATE SET made = y.made + excluded.made, pending = y.pending + excluded.pending,
			delivered = y.delivered + excluded.delivered, failed = y.failed + excluded.failed, dropped = y.dropped + excluded.dropped,
			discarded = y.discarded + excluded.discarded, skipped = y.skipped + excluded.skipped`
	// sumLatency adds two rows of buckets, one of which may be longer.
	sumLatency = `(SELECT coalesce(array_agg(coalesce(a, 0) + coalesce(b, 0) ORDER BY i), '{}') FROM unnest(y.latency, excluded.latency)
			WITH ORDINALITY u(a, b, i))`
	// sumCounters adds two rows of counters.
	sumCounters = `(SELECT coalesce(array_agg(c << 48 | n ORDER BY c), '{}') FROM (
			SELECT x >> 48 AS c, sum(x & 281474976710655)::bigint AS n FROM unnest(y.counters || excluded.counters) x GROUP BY 1) z)`
	setTotal = ` DO UPDATE SET delivered = y.delivered + excluded.delivered,
			failed = y.failed + excluded.failed, dropped = y.dropped + excluded.dropped, discarded = y.discarded + excluded.discarded,
			skipped = y.skipped + excluded.skipped, retried = y.retried + excluded.retried, first = y.first + excluded.first,
			attempts = y.attempts + excluded.attempts, latency = ` + sumLatency + ", counters = " + sumCounters
	totalColumns = "delivered, failed, dropped, discarded, skipped, retried, first, attempts, latency, counters"
	addTotal     = `INSERT INTO total AS y (at, target, tenant, slot, whole, ` + totalColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (at, target, tenant, slot, whole)` + setTotal
)

func (t *tx) tally(p *place) *tally {
	return store.Entry(t.tallies, tallyOf{p.target, p.tenant})
}

func flushTallies(t *tx, b *pgx.Batch) {
	if len(t.tallies) == 0 {
		return
	}
	list := sortedKeys(t.tallies, func(x, y tallyOf) int {
		return cmp.Or(cmp.Compare(x.target, y.target), strings.Compare(x.tenant, y.tenant))
	})
	values := []any{rows.Column(list, func(o tallyOf) int32 { return o.target }),
		rows.Column(list, func(o tallyOf) string { return o.tenant }), t.slot,
		rows.Column(list, func(o tallyOf) int64 { return t.tallies[o].made })}
	for i := range tallyStatuses {
		values = append(values, rows.Column(list, func(o tallyOf) int64 { return t.tallies[o].in[i] }))
	}
	b.Queue(addTallies, values...)
}

// sum changes the totals of a delivery's endpoint, and those of its type, in the hour of a time.
func (t *tx) sum(p *place, at int64, change func(*grapnel.Totals)) {
	hour := codec.HourOf(at)
	change(store.Entry(t.totals, totalOf{hour, p.target, p.tenant}))
	change(store.Entry(t.types, typeOf{hour, p.tenant, p.eventType}))
}

func flushTotals(t *tx, b *pgx.Batch) {
	endpointTotals.queue(b, t.totals, t.slot, false)
	typeTotals.queue(b, t.types, t.slot, false)
}

// totalsTable is a table of totals, whose rows have keys.
type totalsTable[K comparable] struct {
	add     string // adds to a row
	settle  string // deletes rows of past hours, and returns them
	columns func(*K) []any
	hour    func(*K) *int64
	compare func(K, K) int
}

var endpointTotals = totalsTable[totalOf]{add: addTotal, settle: settleQuery,
	columns: func(of *totalOf) []any { return []any{&of.hour, &of.target, &of.tenant} },
	hour:    func(of *totalOf) *int64 { return &of.hour },
	compare: func(x, y totalOf) int {
		return cmp.Or(cmp.Compare(x.hour, y.hour), cmp.Compare(x.target, y.target), strings.Compare(x.tenant, y.tenant))
	}}

// queue adds to the rows of some totals, in the order of their keys.
func (r *totalsTable[K]) queue(b *pgx.Batch, sums map[K]*grapnel.Totals, slot int16, whole bool) {
	for _, of := range sortedKeys(sums, r.compare) {
		b.Queue(r.add, slices.Concat(r.columns(&of), []any{slot, whole}, totalValues(sums[of]))...)
	}
}

// countsOf are the first values of totalColumns.
func countsOf(t *grapnel.Totals) []any {
	return []any{&t.Delivered, &t.Failed, &t.Dropped, &t.Discarded, &t.Skipped, &t.Retried, &t.FirstAttemptSuccess, &t.Attempts}
}

// totalValues are the values of totalColumns.
func totalValues(sum *grapnel.Totals) []any {
	return append(countsOf(sum), bucketsOf(&sum.Latency), countersOf(sum))
}

// A counter is its number and its count in one integer.
const (
	counterShift = 48
	counterCount = 1<<counterShift - 1
)

// countersOf returns the counters other than latencies, which have a column of their own.
func countersOf(sum *grapnel.Totals) []int64 {
	counters := []int64{}
	codec.EachCounter(sum, func(counter int, n int64) {
		if counter >= grapnel.LatencyBuckets {
			counters = append(counters, int64(counter)<<counterShift|n&counterCount)
		}
	})
	return counters
}

// totalsRow reads totalColumns.
type totalsRow struct {
	counts            grapnel.Totals // without latency and counters
	latency, counters []int64
}

func (r *totalsRow) into() []any { return append(countsOf(&r.counts), &r.latency, &r.counters) }

// totals returns the totals that were read last.
func (r *totalsRow) totals() (*grapnel.Totals, error) {
	sum := r.counts
	for i, n := range r.latency[:min(len(r.latency), grapnel.LatencyBuckets)] {
		sum.Latency[i] = uint64(n)
	}
	for _, counter := range r.counters {
		if !codec.AddCounter(&sum, int(counter>>counterShift), counter&counterCount) {
			return nil, codec.ErrMangled
		}
	}
	return &sum, nil
}

// bucketsOf returns the buckets up to the last one that is not zero.
func bucketsOf(l *grapnel.Latency) []int64 {
	buckets := []int64{}
	for i, n := range l {
		if n == 0 {
			continue
		}
		buckets = append(buckets, make([]int64, i+1-len(buckets))...)
		buckets[i] = int64(n)
	}
	return buckets
}

var typeTotals = totalsTable[typeOf]{add: addType, settle: settleTypes,
	columns: func(of *typeOf) []any { return []any{&of.hour, &of.tenant, &of.eventType} },
	hour:    func(of *typeOf) *int64 { return &of.hour },
	compare: func(x, y typeOf) int {
		return cmp.Or(cmp.Compare(x.hour, y.hour), strings.Compare(x.tenant, y.tenant), strings.Compare(x.eventType, y.eventType))
	}}

// publishedAgain counts an event that its tenant has published before.
func publishedAgain(t *tx, e *incoming) {
	store.Entry(t.types, typeOf{codec.HourOf(codec.Micros(e.AcceptedAt)), e.Tenant, e.Type}).Duplicates++
}

// addType decides in the database whether a type is told apart, because other nodes add types too.
// Two transactions that add the last ones at once may exceed the number by one.
var addType = `INSERT INTO total_type AS y (at, tenant, type, slot, whole, ` + totalColumns + `)
	SELECT $1::bigint, $2::text, CASE WHEN $3::text = ''
			OR EXISTS (SELECT FROM total_type WHERE at = $1 AND tenant = $2 AND type = $3 AND whole = $5)
			OR (SELECT count(DISTINCT type) FROM total_type WHERE at = $1 AND tenant = $2 AND type <> '' AND whole = $5) < ` +
	strconv.Itoa(store.TypesCounted) + ` THEN $3 ELSE '' END,
		$4::smallint, $5::boolean, $6::bigint, $7::bigint, $8::bigint, $9::bigint, $10::bigint, $11::bigint, $12::bigint, $13::bigint,
		$14::bigint[], $15::bigint[]
	ON CONFLICT (at, tenant, type, slot, whole)` + setTotal

// Rows of past hours, and rows of hours too old to be stored separately, are deleted and returned,
// so that they can be inserted again as one row.
const (
	settleQuery = `DELETE FROM total WHERE (at, target, tenant, slot, whole) IN (
			SELECT at, target, tenant, slot, whole FROM total WHERE NOT whole AND (at < $1 OR at < $2 AND slot >= 0)
			ORDER BY at, target, tenant, slot LIMIT $3 FOR UPDATE)
		RETURNING at, target, tenant, ` + totalColumns
	settleTypes = `DELETE FROM total_type WHERE (at, tenant, type, slot, whole) IN (
			SELECT at, tenant, type, slot, whole FROM total_type WHERE NOT whole AND (at < $1 OR at < $2 AND slot >= 0)
			ORDER BY at, tenant, type, slot LIMIT $3 FOR UPDATE)
		RETURNING at, tenant, type, ` + totalColumns
	settled = -1 // the slot of a merged row
)
