package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	oldAccountsQuery = "SELECT target, tenant FROM tally WHERE hour < ? AND status = 1 LIMIT ?" // one row per endpoint
	anyOldHourQuery  = "SELECT 1 FROM total_hour WHERE hour < ? LIMIT 1"
	anyOldTypeQuery  = "SELECT 1 FROM total_type WHERE whole = 0 AND hour < ? LIMIT 1"
)

// mergeDays turns hours older than HoursKept into days.
func (s *keeper) mergeDays(ctx context.Context, now time.Time) error {
	below := codec.Midnight(codec.HourOf(codec.Micros(now.Add(-store.HoursKept))))
	for {
		var accounts []accountOf // those whose latest hour has to be merged
		some := false
		err := s.read(ctx, func(r *sqlite3.Conn) (err error) {
			hours, err := rows.Integer(r.Query(anyOldHourQuery).Int(below))
			if err != nil {
				return err
			}
			types, err := rows.Integer(r.Query(anyOldTypeQuery).Int(below))
			if err != nil {
				return err
			}
			accounts, err = rows.Each(r.Query(oldAccountsQuery).Int(below).Int(int64(s.bounds.Merged)), func(q *sqlite3.Stmt) (accountOf, error) {
				return accountOf{q.Integer(0), q.Integer(1)}, nil
			})
			some = hours == 1 || types == 1 || len(accounts) > 0
			return err
		})
		if err != nil || !some {
			return err
		}
		merge := func(t *tx) error { return mergeDays(t, accounts, below, s.bounds.Merged) }
		if err := s.write(ctx, &change{shrinks: true, do: merge}); err != nil {
			return err
		}
	}
}

// mergeDays turns hours before one into days: those of some accounts, and a number of rows of each
// kind. The writer forgets its cached totals of types, because some of their rows are deleted.
func mergeDays(t *tx, accounts []accountOf, below int64, most int) error {
	for _, of := range accounts {
		a, err := accountFor(t, of)
		if err != nil {
			return err
		}
		if a.open && a.hour < below {
			if err := settleAccount(t, of, a); err != nil {
				return err
			}
		}
	}
	if err := writeTypes(t); err != nil {
		return err
	}
	t.types.forget()
	err := mergeRows(most, func() *sqlite3.Stmt { return t.q.oldType.Int(below) }, func(q *sqlite3.Stmt, sum *grapnel.Totals) error {
		of := typeOf{q.Integer(0), q.Integer(1), q.String(2)}
		return errors.Join(addTypeDay(t, of, sum), t.q.dropType.Int(of.hour).Int(of.tenant).Text(of.name).Run())
	})
	if err != nil {
		return err
	}
	return mergeRows(most, func() *sqlite3.Stmt { return t.q.oldHour.Int(below) }, func(q *sqlite3.Stmt, sum *grapnel.Totals) error {
		hour, tenant, target := q.Integer(0), q.Integer(1), q.Integer(2)
		day := codec.DayOf(hour)
		get := t.q.totalDay.Int(target).Int(day).Int(tenant)
		set := t.q.setTotalDay.Int(target).Int(day).Int(tenant)
		return errors.Join(addTotals(get, set, sum), t.q.dropHour.Int(hour).Int(target).Int(tenant).Run())
	})
}

// mergeRows calls merge for the row that a query finds, and its totals, until none is left. merge
// removes the row.
func mergeRows(most int, next func() *sqlite3.Stmt, merge func(*sqlite3.Stmt, *grapnel.Totals) error) error {
	for range most {
		found, err := rows.First(next(), nil, func(q *sqlite3.Stmt) (bool, error) {
			sum, err := codec.DecodeTotals(q.Bytes(3))
			if err == nil {
				err = merge(q, &sum)
			}
			return true, err
		})
		if !found || err != nil {
			return err
		}
	}
	return nil
}

// addTypeDay adds totals of an hour to those of its day, under no name if the day has too many
// types.
func addTypeDay(t *tx, of typeOf, sum *grapnel.Totals) error {
	day := codec.Midnight(of.hour)
	if of.name != "" {
		q := t.q.typeTotal.Int(1).Int(day).Int(of.tenant).Text(of.name)
		there, err := rows.First(q, nil, func(*sqlite3.Stmt) (bool, error) { return true, nil })
		if err != nil {
			return err
		}
		told, err := rows.LookUp(t.q.typesTold.Int(1).Int(day).Int(of.tenant))
		if err != nil {
			return err
		}
		if !there && told >= store.TypesCounted {
			of.name = ""
		}
	}
	get := t.q.typeTotal.Int(1).Int(day).Int(of.tenant).Text(of.name)
	set := t.q.setTypeTotal.Int(1).Int(day).Int(of.tenant).Text(of.name)
	return addTotals(get, set, sum)
}
