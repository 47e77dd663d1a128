package sqlite

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	nextHourQuery   = "SELECT hour FROM total_hour WHERE hour >= ? ORDER BY hour LIMIT 1"
	totalHoursQuery = "SELECT hour, tenant, body FROM total_hour WHERE hour = ? AND target = ?"
	totalDaysQuery  = "SELECT day, tenant, body FROM total_day WHERE target = ? AND day >= ? AND day <= ? ORDER BY day"
	openHoursQuery  = "SELECT hour, tenant, totals FROM tally WHERE hour >= ? AND hour <= ? AND status = 1 AND target = ?"
	openAllQuery    = "SELECT hour, tenant, totals FROM tally WHERE hour >= ? AND hour <= ? AND status = 1" // one row per endpoint
	tenantQuery     = "SELECT number FROM tenant WHERE name = ?"
)

// totalsList makes one list of totals.
type totalsList struct {
	ctx         context.Context
	r           *sqlite3.Conn
	target      int64
	tenant      int64 // 0: any
	first, last int64 // hours
	daily       bool
	buckets     []grapnel.Bucket
	places      map[int64]int // of buckets, by hour
}

// Totals reads each hour separately: the rows of one target are not adjacent.
func (s *Store) Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) (list []grapnel.Bucket, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		l := totalsList{ctx: ctx, r: r, first: -1 << 53, last: 1 << 53, daily: q.Daily, places: make(map[int64]int)}
		if !q.From.IsZero() {
			l.first = codec.HourOf(codec.Micros(q.From))
		}
		if !q.To.IsZero() {
			l.last = codec.HourOf(codec.Micros(q.To) - 1)
		}
		if q.Daily {
			l.first, l.last = codec.Midnight(l.first), codec.FirstHour(codec.DayOf(l.last)+1)-1
		}
		some, err := l.aim(scope, q)
		if !some || err != nil {
			return err
		}
		for _, gather := range []func() error{l.days, l.hours, l.open} {
			if err := gather(); err != nil {
				return err
			}
		}
		list = l.buckets
		slices.SortFunc(list, func(a, b grapnel.Bucket) int { return a.At.Compare(b.At) })
		return nil
	})
	return list, err
}

// aim finds the targets and tenants to read; false: none.
func (l *totalsList) aim(scope store.Scope, q store.TotalsQuery) (bool, error) {
	var err error
	l.target = allTargets
	if q.Endpoint != "" {
		l.target, err = integer(l.r, targetQuery, func(s *sqlite3.Stmt) { s.Text(q.Endpoint) })
		if l.target == 0 || err != nil {
			return false, err
		}
	}
	tenant, one := scope.One()
	switch {
	case !one && q.Tenant == "":
		return true, nil
	case !one:
		tenant = q.Tenant
	case q.Tenant != "" && q.Tenant != tenant:
		return false, nil
	}
	l.tenant, err = integer(l.r, tenantQuery, func(s *sqlite3.Stmt) { s.Text(tenant) })
	return l.tenant != 0, err
}

func (l *totalsList) days() error {
	q, err := l.r.Prepare(totalDaysQuery)
	if err != nil {
		return err
	}
	return l.take(q.Int(l.target).Int(codec.DayOf(l.first)).Int(codec.DayOf(l.last)), codec.FirstHour)
}

// bucket is the hour at which the bucket of an hour begins.
func (l *totalsList) bucket(hour int64) int64 {
	if l.daily {
		return codec.Midnight(hour)
	}
	return hour
}

func (l *totalsList) hours() error {
	next, err := l.r.Prepare(nextHourQuery)
	if err != nil {
		return err
	}
	rows, err := l.r.Prepare(totalHoursQuery)
	if err != nil {
		return err
	}
	for hour := l.first; ; hour++ {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		found, err := next.Int(hour).Row()
		if !found {
			return err
		}
		hour = next.Integer(0)
		next.Reset()
		if hour > l.last {
			return nil
		}
		if err := l.take(rows.Int(hour).Int(l.target), l.bucket); err != nil {
			return err
		}
	}
}

// open reads the accounts. There is none for all targets together.
func (l *totalsList) open() error {
	query := openHoursQuery
	if l.target == allTargets {
		query = openAllQuery
	}
	q, err := l.r.Prepare(query)
	if err != nil {
		return err
	}
	q.Int(l.first).Int(l.last)
	if l.target != allTargets {
		q.Int(l.target)
	}
	return l.take(q, l.bucket)
}

// take adds rows of an hour or day, a tenant and totals.
func (l *totalsList) take(q *sqlite3.Stmt, bucket func(int64) int64) error {
	for {
		more, err := q.Next()
		if !more {
			return err
		}
		hour := bucket(q.Integer(0))
		if l.tenant != 0 && l.tenant != q.Integer(1) {
			continue
		}
		sum, err := codec.DecodeTotals(q.Bytes(2))
		if err != nil {
			q.Reset()
			return err
		}
		place, there := l.places[hour]
		if !there {
			place = len(l.buckets)
			l.places[hour] = place
			l.buckets = append(l.buckets, grapnel.Bucket{At: codec.Moment(codec.HourBegins(hour))})
		}
		l.buckets[place].Add(&sum)
	}
}
