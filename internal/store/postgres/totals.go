package postgres

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// tallyOf identifies a row of counts: an endpoint and a tenant.
type tallyOf struct {
	target int32
	tenant string
}

// tally is a change of counts.
type tally struct{ made, pending, delivered, failed, dropped, discarded, skipped int64 }

// of returns the count of a final status.
func (y *tally) of(status grapnel.Status) *int64 {
	switch status {
	case grapnel.Delivered:
		return &y.delivered
	case grapnel.Failed:
		return &y.failed
	case grapnel.Dropped:
		return &y.dropped
	case grapnel.Discarded:
		return &y.discarded
	case grapnel.Skipped:
		return &y.skipped
	}
	return &y.pending
}

// totalOf identifies a row of totals: an endpoint, a tenant and an hour since 1970.
type totalOf struct {
	hour   int64
	target int32
	tenant string
}

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
	onTotal = ` ON CONFLICT (at, target, tenant, slot, whole) DO UPDATE SET delivered = y.delivered + excluded.delivered,
			failed = y.failed + excluded.failed, dropped = y.dropped + excluded.dropped, discarded = y.discarded + excluded.discarded,
			skipped = y.skipped + excluded.skipped, retried = y.retried + excluded.retried, first = y.first + excluded.first,
			attempts = y.attempts + excluded.attempts, latency = ` + sumLatency
	totalColumns = "delivered, failed, dropped, discarded, skipped, retried, first, attempts"
	addTotal     = `INSERT INTO total AS y (at, target, tenant, slot, whole, ` + totalColumns + `, latency)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)` + onTotal
)

func (t *tx) tally(p *place) *tally {
	of := tallyOf{p.target, p.tenant}
	if t.tallies[of] == nil {
		t.tallies[of] = new(tally)
	}
	return t.tallies[of]
}

func (t *tx) flushTallies(b *pgx.Batch) {
	if len(t.tallies) == 0 {
		return
	}
	rows := sortedKeys(t.tallies, func(x, y tallyOf) int {
		return cmp.Or(cmp.Compare(x.target, y.target), strings.Compare(x.tenant, y.tenant))
	})
	of := func(field func(*tally) int64) []int64 {
		return column(rows, func(o tallyOf) int64 { return field(t.tallies[o]) })
	}
	b.Queue(addTallies, column(rows, func(o tallyOf) int32 { return o.target }), column(rows, func(o tallyOf) string { return o.tenant }),
		t.slot,
		of(func(y *tally) int64 { return y.made }), of(func(y *tally) int64 { return y.pending }),
		of(func(y *tally) int64 { return y.delivered }),
		of(func(y *tally) int64 { return y.failed }), of(func(y *tally) int64 { return y.dropped }),
		of(func(y *tally) int64 { return y.discarded }),
		of(func(y *tally) int64 { return y.skipped }))
}

func (t *tx) total(p *place, at int64) *grapnel.Totals {
	of := totalOf{codec.HourOf(at), p.target, p.tenant}
	if t.totals[of] == nil {
		t.totals[of] = new(grapnel.Totals)
	}
	return t.totals[of]
}

// tried counts an attempt that was recorded at a time.
func (t *tx) tried(p *place, a *grapnel.Attempt, at int64) {
	sum := t.total(p, at)
	sum.Attempts++
	if a.StatusCode > 0 {
		sum.Latency.Count(a.Duration)
	}
}

// ended counts a finished delivery.
func (t *tx) ended(p *place, e *store.Ending) {
	*t.tally(p).of(e.Status)++
	if !e.Uncounted {
		t.total(p, codec.Micros(e.At)).Ended(e.Status, int(p.attempts))
	}
}

func (t *tx) flushTotals(b *pgx.Batch) {
	for _, of := range sortedKeys(t.totals, func(x, y totalOf) int {
		return cmp.Or(cmp.Compare(x.hour, y.hour), cmp.Compare(x.target, y.target), strings.Compare(x.tenant, y.tenant))
	}) {
		queueTotal(b, of, t.slot, false, t.totals[of])
	}
}

// queueTotal adds to a row of totals.
func queueTotal(b *pgx.Batch, of totalOf, slot int16, whole bool, sum *grapnel.Totals) {
	b.Queue(addTotal, of.hour, of.target, of.tenant, slot, whole, sum.Delivered, sum.Failed, sum.Dropped, sum.Discarded, sum.Skipped,
		sum.Retried,
		sum.FirstAttemptSuccess, sum.Attempts, bucketsOf(&sum.Latency))
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

const totalsQuery = `SELECT at, whole, ` + totalColumns + `, latency FROM total
	WHERE ($1 OR tenant = $2) AND ($3 OR target = (SELECT number FROM target WHERE endpoint = $4)) AND at >= $5 AND at < $6 ORDER BY at`

// Totals sums the rows that the query selects.
func (s *Store) Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error) {
	tenant, some := scope.Narrow(q.Tenant)
	if !some {
		return nil, ctx.Err()
	}
	from, to := int64(-1<<53), int64(1<<53) // in hours
	if !q.From.IsZero() {
		from = codec.Midnight(codec.HourOf(codec.Micros(q.From)))
	}
	if !q.To.IsZero() {
		to = codec.FirstHour(codec.DayOf(codec.HourOf(codec.Micros(q.To)-1)) + 1)
	}
	rows, err := s.reading.Query(ctx, totalsQuery, tenant == "", tenant, q.Endpoint == "", q.Endpoint, from, to)
	if err != nil {
		return nil, readError(ctx, err)
	}
	buckets := make(map[int64]*grapnel.Totals)
	err = readTotals(rows, func(hour int64, whole bool, sum *grapnel.Totals) {
		next := hour + 1
		if whole || q.Daily {
			day := codec.DayOf(hour)
			hour, next = codec.FirstHour(day), codec.FirstHour(day+1)
		}
		if !q.From.IsZero() && codec.HourBegins(next) <= codec.Micros(q.From) || !q.To.IsZero() && codec.HourBegins(hour) >= codec.Micros(q.To) {
			return
		}
		if buckets[hour] == nil {
			buckets[hour] = new(grapnel.Totals)
		}
		buckets[hour].Add(sum)
	})
	if err != nil {
		return nil, readError(ctx, err)
	}
	var list []grapnel.Bucket
	for _, hour := range sortedKeys(buckets, cmp.Compare[int64]) {
		list = append(list, grapnel.Bucket{At: codec.Moment(codec.HourBegins(hour)), Totals: *buckets[hour]})
	}
	return list, nil
}

func readTotals(rows pgx.Rows, take func(hour int64, whole bool, sum *grapnel.Totals)) error {
	defer rows.Close()
	for rows.Next() {
		var hour int64
		var whole bool
		var sum grapnel.Totals
		var latency []int64
		if err := rows.Scan(&hour, &whole, &sum.Delivered, &sum.Failed, &sum.Dropped, &sum.Discarded, &sum.Skipped, &sum.Retried,
			&sum.FirstAttemptSuccess, &sum.Attempts, &latency); err != nil {
			return err
		}
		for i, n := range latency[:min(len(latency), grapnel.LatencyBuckets)] {
			sum.Latency[i] = uint32(n)
		}
		take(hour, whole, &sum)
	}
	return rows.Err()
}

// Rows of past hours, and rows of hours too old to be stored separately, are deleted and returned,
// so that they can be inserted again as one row.
const (
	settleQuery = `DELETE FROM total WHERE (at, target, tenant, slot, whole) IN (
			SELECT at, target, tenant, slot, whole FROM total WHERE NOT whole AND (at < $1 OR at < $2 AND slot >= 0) AND ` + unsealed + `
			ORDER BY at, target, tenant, slot LIMIT $3 FOR UPDATE)
		RETURNING at, target, tenant, ` + totalColumns + `, latency`
	settled = -1 // the slot of a merged row
)

// merge merges the rows of a past hour into one, and hours that are old into days.
func (s *Store) merge(ctx context.Context, now time.Time) error {
	old := codec.Midnight(codec.HourOf(codec.Micros(now.Add(-store.HoursKept))))
	for {
		n, err := s.settle(ctx, old, codec.HourOf(codec.Micros(now))-1)
		if n == 0 || err != nil {
			return err
		}
	}
}

func (s *Store) settle(ctx context.Context, old, over int64) (n int, err error) {
	ctx, done := s.chores.bound(ctx)
	defer done()
	err = pgx.BeginFunc(ctx, s.chores, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, settleQuery, old, over, s.bounds.MergePage)
		if err != nil {
			return err
		}
		type part struct {
			totalOf
			whole bool
		}
		sums := make(map[part]*grapnel.Totals)
		var of totalOf
		var sum grapnel.Totals
		var latency []int64
		_, err = pgx.ForEachRow(rows, []any{&of.hour, &of.target, &of.tenant, &sum.Delivered, &sum.Failed, &sum.Dropped, &sum.Discarded,
			&sum.Skipped, &sum.Retried, &sum.FirstAttemptSuccess, &sum.Attempts, &latency}, func() error {
			n++
			sum.Latency = grapnel.Latency{}
			for i, n := range latency[:min(len(latency), grapnel.LatencyBuckets)] {
				sum.Latency[i] = uint32(n)
			}
			p := part{of, of.hour < old}
			if p.whole {
				p.hour = codec.Midnight(p.hour)
			}
			if sums[p] == nil {
				sums[p] = new(grapnel.Totals)
			}
			sums[p].Add(&sum)
			return nil
		})
		if err != nil || n == 0 {
			return err
		}
		b := new(pgx.Batch)
		for _, p := range sortedKeys(sums, func(x, y part) int {
			return cmp.Or(cmp.Compare(x.hour, y.hour), cmp.Compare(x.target, y.target), strings.Compare(x.tenant, y.tenant))
		}) {
			queueTotal(b, p.totalOf, settled, p.whole, sums[p])
		}
		return tx.SendBatch(ctx, b).Close()
	})
	return n, asError(err)
}

const countsQuery = `SELECT t.endpoint, sum(y.pending)::bigint, sum(y.delivered)::bigint, sum(y.failed)::bigint, sum(y.dropped)::bigint,
		sum(y.discarded)::bigint, sum(y.skipped)::bigint
	FROM tally y JOIN target t ON t.number = y.target WHERE $1 OR y.tenant = $2 GROUP BY t.endpoint`

// Counts sums the maintained counters.
func (s *Store) Counts(ctx context.Context, scope store.Scope) (map[string]map[grapnel.Status]int64, error) {
	tenant, one := scope.One()
	counts := make(map[string]map[grapnel.Status]int64)
	if one && !scope.Allows(tenant) {
		return counts, ctx.Err()
	}
	rows, err := s.chores.Query(ctx, countsQuery, !one, tenant)
	if err != nil {
		return nil, readError(ctx, err)
	}
	statuses := []grapnel.Status{grapnel.Pending, grapnel.Delivered, grapnel.Failed, grapnel.Dropped, grapnel.Discarded, grapnel.Skipped}
	var endpoint string
	n := make([]int64, len(statuses))
	_, err = pgx.ForEachRow(rows, []any{&endpoint, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5]}, func() error {
		of := make(map[grapnel.Status]int64)
		for i, status := range statuses {
			if n[i] != 0 {
				of[status] = n[i]
			}
		}
		if len(of) > 0 {
			counts[endpoint] = of
		}
		return nil
	})
	return counts, readError(ctx, err)
}

const imbalanceQuery = `SELECT (coalesce(sum(made - pending - delivered - failed - dropped - discarded - skipped), 0)
	- (SELECT purged FROM ledger))::bigint FROM tally`

// Imbalance compares counters that are maintained separately: created deliveries are counted for
// ever, pending and finished ones go up and down.
func (s *Store) Imbalance(ctx context.Context) (n int64, err error) {
	err = s.chores.QueryRow(ctx, imbalanceQuery).Scan(&n)
	return n, readError(ctx, err)
}
