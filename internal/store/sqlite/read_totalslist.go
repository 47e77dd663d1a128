package sqlite

import (
	"context"
	"math"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// The queries return an hour or a day, a tenant, totals, and a target or a type. A number of a
// target is above 0 if it is not of all targets together.
const (
	nextHourQuery     = "SELECT hour FROM total_hour WHERE hour >= ? ORDER BY hour LIMIT 1"
	totalHoursQuery   = "SELECT hour, tenant, body, target FROM total_hour WHERE target = ? AND hour = ?"
	totalHourAllQuery = "SELECT hour, tenant, body, target FROM total_hour WHERE hour = ? AND target > 0"
	totalDaysQuery    = "SELECT day, tenant, body, target FROM total_day WHERE target = ? AND day >= ? AND day <= ? ORDER BY day"
	totalDaysAllQuery = "SELECT day, tenant, body, target FROM total_day WHERE target > 0 AND day >= ? AND day <= ?"
	openHoursQuery    = "SELECT hour, tenant, totals, target FROM tally WHERE target = ? AND hour >= ? AND hour <= ? AND status = 1"
	// openAllQuery finds one row for each endpoint.
	openAllQuery     = "SELECT hour, tenant, totals, target FROM tally WHERE hour >= ?1 AND hour <= ?2 AND status = 1 AND (?3 = 0 OR tenant = ?3)"
	typesQuery       = "SELECT hour, tenant, body, type FROM total_type WHERE whole = ? AND hour >= ? AND hour <= ?"
	nextTypesQuery   = "SELECT hour FROM total_type WHERE whole = ? AND hour >= ? ORDER BY hour LIMIT 1"
	typesTenantQuery = "SELECT hour, tenant, body, type FROM total_type WHERE whole = ? AND hour = ? AND tenant = ?"
	tenantQuery      = "SELECT number FROM tenant WHERE name = ?"
	tenantNameQuery  = "SELECT name FROM tenant WHERE number = ?"
	targetNameQuery  = "SELECT endpoint FROM target WHERE number = ?"
)

// totalsList makes one list of totals.
type totalsList struct {
	ctx         context.Context
	r           *sqlite3.Conn
	query       *store.TotalsQuery
	target      int64
	tenant      int64 // 0: any
	first, last int64 // hours
	sums        *store.Sums
	names       map[int64]string // of the groups
	taken       int              // rows that were read
}

// adder adds encoded totals to those of a time or of a group.
type adder = func(at time.Time, group string, totals []byte) error

func (l *totalsList) add(at time.Time, group string, totals []byte) error {
	return codec.AddTotals(totals, l.sums.Of(at, group))
}

// duplicates adds only the duplicates.
func (l *totalsList) duplicates(at time.Time, group string, totals []byte) error {
	sum, err := codec.DecodeTotals(totals)
	l.sums.AddDuplicates(at, group, &sum)
	return err
}

// Totals reads each hour separately: the rows of one target are not adjacent.
func (s *reader) Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error) {
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) ([]grapnel.Bucket, error) {
		l := totalsList{ctx: ctx, r: r, query: &q, first: -1 << 53, last: 1 << 53, sums: store.NewSums(&q), names: make(map[int64]string)}
		if !q.From.IsZero() {
			l.first = codec.HourOf(codec.Micros(q.From))
		}
		if !q.To.IsZero() {
			l.last = codec.HourOf(codec.Micros(q.To) - 1)
		}
		if q.Daily {
			l.first, l.last = codec.Midnight(l.first), codec.FirstHour(codec.DayOf(l.last)+1)-1
		}
		some, err := l.aim(scope)
		if !some || err != nil {
			return nil, err
		}
		gathers := []func() error{l.types}
		if !q.ByTypes() {
			gathers = append(gathers, l.days, l.hours, l.open)
		}
		for _, gather := range gathers {
			if err := gather(); err != nil {
				return nil, err
			}
		}
		return l.sums.List(), nil
	})
}

// aim finds the targets and tenants to read; false: none.
func (l *totalsList) aim(scope store.Scope) (found bool, err error) {
	q := l.query
	if q.Impossible() {
		return false, nil
	}
	l.target = allTargets
	if q.Endpoint != "" {
		l.target, err = rows.Integer(l.r.Query(targetQuery).Text(q.Endpoint))
		if l.target == 0 || err != nil {
			return false, err
		}
	}
	tenant, some := scope.Narrow(q.Tenant)
	if !some || tenant == "" {
		return some, nil
	}
	l.tenant, err = rows.Integer(l.r.Query(tenantQuery).Text(tenant))
	return l.tenant != 0, err
}

// each says whether the rows of each target are read, in place of those of all together.
func (l *totalsList) each() bool { return l.target == allTargets && l.query.By == store.ByEndpoint }

// rows begins a query: of all targets, or of the one of the list.
func (l *totalsList) rows(all bool, ofAll, ofOne string) *sqlite3.Stmt {
	if all {
		return l.r.Query(ofAll)
	}
	return l.r.Query(ofOne).Int(l.target)
}

func (l *totalsList) days() error {
	rows := l.rows(l.each(), totalDaysAllQuery, totalDaysQuery)
	return l.take(rows.Int(codec.DayOf(l.first)).Int(codec.DayOf(l.last)), codec.FirstHour, l.add)
}

// bucket is the hour at which the bucket of an hour begins.
func (l *totalsList) bucket(hour int64) int64 {
	if l.query.Daily {
		return codec.Midnight(hour)
	}
	return hour
}

func (l *totalsList) hours() error {
	for hour := l.first; hour <= l.last; hour++ {
		before := l.taken
		if err := l.take(l.rows(l.each(), totalHourAllQuery, totalHoursQuery).Int(hour), l.bucket, l.add); err != nil {
			return err
		}
		if l.taken > before {
			continue // the next hour mostly has totals as well
		}
		after, found, err := rows.Next(l.r.Query(nextHourQuery).Int(hour + 1))
		if !found {
			return err
		}
		hour = after - 1
	}
	return nil
}

// open reads the accounts. There is none for all targets together.
func (l *totalsList) open() error {
	all := l.target == allTargets
	rows := l.rows(all, openAllQuery, openHoursQuery).Int(l.first).Int(l.last)
	if all {
		rows.Int(l.tenant)
	}
	return l.take(rows, l.bucket, l.add)
}

// types reads the totals by type, or only their duplicates.
func (l *totalsList) types() error {
	add := l.add
	switch {
	case l.query.AlsoTypes():
		add = l.duplicates
	case !l.query.ByTypes():
		return nil
	}
	if err := l.typesOf(0, l.first, l.bucket, add); err != nil {
		return err
	}
	return l.typesOf(1, codec.Midnight(l.first), codec.Midnight, add)
}

// typesOf reads rows of hours, or those of whole days. Those of one tenant are adjacent only within
// an hour.
func (l *totalsList) typesOf(whole, first int64, bucket func(int64) int64, add adder) error {
	query := typesQuery
	if l.tenant != 0 {
		query = typesTenantQuery
	}
	q := l.r.Query(query)
	if l.tenant == 0 {
		return l.take(q.Int(whole).Int(first).Int(l.last), bucket, add)
	}
	for hour := first; ; hour++ {
		var found bool
		var err error
		if hour, found, err = rows.Next(l.r.Query(nextTypesQuery).Int(whole).Int(hour)); !found || hour > l.last {
			return err
		}
		if err := l.take(q.Int(whole).Int(hour).Int(l.tenant), bucket, add); err != nil {
			return err
		}
	}
}

// take adds rows.
func (l *totalsList) take(q *sqlite3.Stmt, bucket func(int64) int64, add adder) (err error) {
	for q.More(&err) {
		l.taken++
		if err := l.row(q, bucket, add); err != nil {
			q.Reset()
			return err
		}
	}
	return err
}

func (l *totalsList) row(q *sqlite3.Stmt, bucket func(int64) int64, add adder) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	if l.tenant != 0 && l.tenant != q.Integer(1) || l.query.Type != "" && l.query.Type != q.String(3) {
		return nil
	}
	group, err := "", error(nil)
	switch l.query.By {
	case store.ByType:
		group = q.String(3)
	case store.ByTenant:
		group, err = l.name(tenantNameQuery, q.Integer(1))
	case store.ByEndpoint:
		group, err = l.name(targetNameQuery, q.Integer(3))
	}
	if err != nil {
		return err
	}
	return add(codec.Moment(codec.HourBegins(bucket(q.Integer(0)))), group, q.Bytes(2))
}

// name is the name behind a number.
func (l *totalsList) name(query string, number int64) (string, error) {
	return cached(l.names, math.MaxInt, number, func() (string, error) { return rows.LookUpText(l.r.Query(query).Int(number)) })
}
