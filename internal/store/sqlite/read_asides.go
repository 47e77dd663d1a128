package sqlite

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// readAside reads the asideColumns of a row.
func (s *reader) readAside(ctx context.Context, q *sqlite3.Stmt) (grapnel.Aside, error) {
	a := grapnel.Aside{ID: q.String(0), Tenant: q.String(1), Why: rows.ReadWord(q, 2, rows.Asides), Event: q.String(3),
		ContentType: q.String(4), Size: int(q.Integer(5))}
	in, err := s.packer.DecodeIntake(ctx, q.Bytes(6), a.Tenant, a.ID)
	if err != nil {
		return a, fmt.Errorf("sqlite: intake of request %s: %w", a.ID, err)
	}
	a.Intake = *in
	return a, nil
}

// Aside returns a request with its body.
func (s *reader) Aside(ctx context.Context, scope store.Scope, id string) (grapnel.Aside, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (grapnel.Aside, error) {
		none := store.ErrNotFound("request")
		return rows.First(r.Query(asideQuery).Text(id), none, func(q *sqlite3.Stmt) (a grapnel.Aside, err error) {
			if !scope.Allows(q.String(1)) {
				return a, none
			}
			if a, err = s.readAside(ctx, q); err != nil {
				return a, err
			}
			f := codec.Frozen{Data: q.Bytes(9), Packed: q.Integer(7), Sum: q.Integer(8)}
			if err = s.packer.ThawAside(ctx, &a, &f); err != nil {
				return a, fmt.Errorf("sqlite: request %s: %w", id, err)
			}
			return a, nil
		})
	})
}

// AsideList returns at most Limit requests; Limit 0 returns none. Corrupt ones are left out.
func (s *reader) AsideList(ctx context.Context, scope store.Scope, q store.AsideQuery) ([]grapnel.Aside, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (list []grapnel.Aside, err error) {
		var some bool
		if q.Tenant, some = scope.Narrow(q.Tenant); !some {
			return nil, nil
		}
		for len(list) < q.Limit {
			sql, values := asidesQuery(q)
			if sql == "" {
				return nil, nil
			}
			most, found := min(q.Limit-len(list), math.MaxInt32), 0
			rows := r.Query(sql).Texts(values...).Int(int64(most))
			for rows.More(&err) {
				a, err := s.readAside(ctx, rows)
				if found++; q.After != "" {
					q.After = a.ID
				} else {
					q.Before = a.ID
				}
				if err != nil {
					s.log.Error("corrupt request in the database", "request", a.ID)
					continue
				}
				list = append(list, a)
			}
			if err != nil || found < most {
				return list, err
			}
		}
		return list, nil
	})
}

// asidesQuery is the SQL of a list with the values of its filters; the last value is the limit. It
// is empty if nothing can be found. An index for each filter has the ids of one reason in their
// order, so a list of any reason is merged from one part for each, and many that are unverified do
// not hide the few that are in conflict.
func asidesQuery(q store.AsideQuery) (sql string, values []string) {
	reasons := rows.Asides[1:]
	if q.Why != "" {
		reasons = []grapnel.AsideReason{q.Why}
	}
	var f rows.Filters
	f.Equal("source", q.Source)
	f.Equal("tenant", q.Tenant)
	f.Add("id < ?", q.Before)
	f.Add("id > ?", q.After)
	var parts []string
	for _, reason := range reasons {
		if why, known := rows.Asides.Place(reason); known {
			of := rows.Filters{All: append(f.All, fmt.Sprintf("why = %d", why))}
			parts, values = append(parts, "SELECT "+asideColumns+" FROM aside"+of.Where()), append(values, f.Values...)
		}
	}
	if len(parts) == 0 {
		return "", nil
	}
	order := " ORDER BY id DESC LIMIT ?"
	if q.After != "" {
		order = " ORDER BY id LIMIT ?"
	}
	return strings.Join(parts, " UNION ALL ") + order, values
}
