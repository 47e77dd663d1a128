package sqlite

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// The tally has the latest hour of an endpoint that is not older than store.HoursKept, else its
// latest day has it. Its rows are in the order of the endpoints, so it is read as a whole: by
// number, so that no name is looked up and copied for a row.
const (
	tenantTallyQuery = "SELECT target, tenant, n, letters, hour FROM tally WHERE status = 1 AND (?1 = 0 OR tenant = ?1)"
	latestDayQuery   = "SELECT max(day) FROM total_day WHERE target = ?"
)

// TenantCounts reads one snapshot.
func (s *reader) TenantCounts(ctx context.Context, tenants []string, limit int64) (map[string]store.TenantCount, error) {
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) (all map[string]store.TenantCount, err error) {
		c := store.NewTenantCounter(tenants)
		names, only := make(map[int64]string, len(tenants)), int64(0)
		for _, name := range tenants {
			number, err := rows.Integer(r.Query(tenantQuery).Text(name))
			if err != nil {
				return nil, err
			}
			if number != 0 {
				names[number], only = name, number
			}
		}
		if len(names) > 1 {
			only = 0
		}
		q := r.Query(tenantTallyQuery).Int(only)
		for len(names) > 0 && q.More(&err) {
			tenant, wanted := names[q.Integer(1)]
			if !wanted {
				continue
			}
			var active time.Time
			if !q.IsNull(4) {
				active = codec.Moment(codec.HourBegins(q.Integer(4)))
			} else if active, err = latestDay(r, q.Integer(0)); err != nil {
				return nil, err
			}
			c.Add(tenant, q.Integer(2), q.Integer(3), active)
		}
		if err != nil {
			return nil, err
		}
		return c.Letters(limit, func(shares []int64) ([]int64, error) { return shares, nil })
	})
}

// latestDay is the latest day of a target's totals; zero: it has none.
func latestDay(r *sqlite3.Conn, target int64) (time.Time, error) {
	return rows.First(r.Query(latestDayQuery).Int(target), nil, func(q *sqlite3.Stmt) (at time.Time, _ error) {
		if !q.IsNull(0) {
			at = codec.Moment(codec.HourBegins(codec.FirstHour(q.Integer(0))))
		}
		return at, nil
	})
}
