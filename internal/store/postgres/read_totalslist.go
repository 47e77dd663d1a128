package postgres

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// The queries return an hour, whether it stands for its day, the group, and totals.
const (
	ofHours     = " AND at >= $3 AND at < $4 ORDER BY at"
	totalsQuery = "SELECT at, whole, '', " + totalColumns + ` FROM total
		WHERE ($1 OR tenant = $2) AND ($5 OR target = (SELECT number FROM target WHERE endpoint = $6))` + ofHours
	totalsTenantQuery = "SELECT at, whole, tenant, " + totalColumns + ` FROM total
		WHERE ($1 OR tenant = $2) AND ($5 OR target = (SELECT number FROM target WHERE endpoint = $6))` + ofHours
	totalsEndpointQuery = "SELECT at, whole, t.endpoint, " + totalColumns + ` FROM total JOIN target t ON t.number = total.target
		WHERE ($1 OR tenant = $2) AND ($5 OR t.endpoint = $6)` + ofHours
	ofTypes          = " FROM total_type WHERE ($1 OR tenant = $2) AND ($5 OR type = $6)" + ofHours
	typesQuery       = "SELECT at, whole, '', " + totalColumns + ofTypes
	typesTenantQuery = "SELECT at, whole, tenant, " + totalColumns + ofTypes
	typesTypeQuery   = "SELECT at, whole, type, " + totalColumns + ofTypes
)

// Totals sums the rows that the query selects.
func (s *lister) Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error) {
	tenant, some := scope.Narrow(q.Tenant)
	if !some || q.Impossible() {
		return nil, ctx.Err()
	}
	q.Tenant = tenant
	sums := store.NewSums(&q)
	endpoints := map[store.Grouping]string{store.ByTime: totalsQuery, store.ByTenant: totalsTenantQuery,
		store.ByEndpoint: totalsEndpointQuery}
	types := map[store.Grouping]string{store.ByTime: typesQuery, store.ByTenant: typesTenantQuery, store.ByType: typesTypeQuery}
	var err error
	switch {
	case q.ByTypes():
		err = s.readTotals(ctx, &q, types[q.By], q.Type, sums.Add)
	case q.AlsoTypes():
		if err = s.readTotals(ctx, &q, types[q.By], "", sums.AddDuplicates); err != nil {
			break
		}
		fallthrough
	default:
		err = s.readTotals(ctx, &q, endpoints[q.By], q.Endpoint, sums.Add)
	}
	if err != nil {
		return nil, readError(ctx, err)
	}
	return sums.List(), nil
}

// readTotals reads the rows of one endpoint or type, or of all, within the query's time. take gets
// the time, the group and the totals of each.
func (s *lister) readTotals(ctx context.Context, q *store.TotalsQuery, sql, one string,
	take func(time.Time, string, *grapnel.Totals)) error {
	from, to := int64(-1<<53), int64(1<<53) // in hours
	if !q.From.IsZero() {
		from = codec.Midnight(codec.HourOf(codec.Micros(q.From)))
	}
	if !q.To.IsZero() {
		to = codec.FirstHour(codec.DayOf(codec.HourOf(codec.Micros(q.To)-1)) + 1)
	}
	var hour int64
	var whole bool
	var group string
	var row totalsRow
	rows := rows.Ask(ctx, s.reading, sql, q.Tenant == "", q.Tenant, from, to, one == "", one)
	return rows.Try(append([]any{&hour, &whole, &group}, row.into()...), func() error {
		next := hour + 1
		if whole || q.Daily {
			day := codec.DayOf(hour)
			hour, next = codec.FirstHour(day), codec.FirstHour(day+1)
		}
		if !q.From.IsZero() && codec.HourBegins(next) <= codec.Micros(q.From) || !q.To.IsZero() && codec.HourBegins(hour) >= codec.Micros(q.To) {
			return nil
		}
		sum, err := row.totals()
		if err == nil {
			take(codec.Moment(codec.HourBegins(hour)), group, sum)
		}
		return err
	})
}

const countsQuery = `SELECT t.endpoint, sum(y.pending)::bigint, sum(y.delivered)::bigint, sum(y.failed)::bigint, sum(y.dropped)::bigint,
		sum(y.discarded)::bigint, sum(y.skipped)::bigint
	FROM tally y JOIN target t ON t.number = y.target WHERE $1 OR y.tenant = $2 GROUP BY t.endpoint`

// Counts sums the maintained counters.
func (s *reader) Counts(ctx context.Context, scope store.Scope) (map[string]map[grapnel.Status]int64, error) {
	tenant, one := scope.One()
	counts := make(map[string]map[grapnel.Status]int64)
	if one && !scope.Allows(tenant) {
		return counts, ctx.Err()
	}
	var endpoint string
	var n [len(tallyStatuses)]int64
	err := rows.Ask(ctx, s.chores, countsQuery, !one, tenant).Each([]any{&endpoint, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5]}, func() {
		of := make(map[grapnel.Status]int64)
		for i, status := range tallyStatuses {
			if n[i] != 0 {
				of[status] = n[i]
			}
		}
		if len(of) > 0 {
			counts[endpoint] = of
		}
	})
	return counts, readError(ctx, err)
}

const imbalanceQuery = `SELECT (coalesce(sum(made - pending - delivered - failed - dropped - discarded - skipped), 0)
	- (SELECT purged FROM ledger))::bigint FROM tally`

// Imbalance compares counters that are maintained separately: created deliveries are counted for
// ever, pending and finished ones go up and down.
func (s *reader) Imbalance(ctx context.Context) (n int64, err error) {
	err = s.chores.QueryRow(ctx, imbalanceQuery).Scan(&n)
	return n, readError(ctx, err)
}
