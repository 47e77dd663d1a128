package sqlite

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	oldAccountsQuery = "SELECT target, tenant FROM tally WHERE hour < ? AND status = 1 LIMIT ?" // one row per endpoint
	anyOldHourQuery  = "SELECT 1 FROM total_hour WHERE hour < ? LIMIT 1"
)

// mergeDays turns hours older than HoursKept into days.
func (s *Store) mergeDays(ctx context.Context, now time.Time) error {
	below := codec.Midnight(codec.HourOf(codec.Micros(now.Add(-store.HoursKept))))
	for {
		o := &merging{below: below, most: s.bounds.Merged}
		some := false
		err := s.read(ctx, func(r *sqlite3.Conn) (err error) {
			hours, err := integer(r, anyOldHourQuery, func(q *sqlite3.Stmt) { q.Int(below) })
			if err != nil {
				return err
			}
			o.accounts, err = oldAccounts(r, below, o.most)
			some = hours == 1 || len(o.accounts) > 0
			return err
		})
		if err != nil || !some {
			return err
		}
		if err := s.write(ctx, o); err != nil {
			return err
		}
	}
}

func oldAccounts(r *sqlite3.Conn, below int64, most int) (all []accountOf, err error) {
	q, err := r.Prepare(oldAccountsQuery)
	if err != nil {
		return nil, err
	}
	q.Int(below).Int(int64(most))
	for {
		more, err := q.Next()
		if !more {
			return all, err
		}
		all = append(all, accountOf{q.Integer(0), q.Integer(1)})
	}
}

// merging turns some hours into days.
type merging struct {
	below    int64
	most     int         // rows of hours
	accounts []accountOf // those whose latest hour has to be merged
}

func (o *merging) grows() bool { return false }

func (o *merging) apply(t *tx) error {
	for _, of := range o.accounts {
		a, err := t.account(of)
		if err != nil {
			return err
		}
		if a.open && a.hour < o.below {
			if err := t.settle(of, a); err != nil {
				return err
			}
		}
	}
	for range o.most {
		q := t.q.oldHour.Int(o.below)
		found, err := q.Row()
		if !found {
			return err
		}
		hour, of := q.Integer(0), accountOf{q.Integer(1), q.Integer(2)}
		sum, err := codec.DecodeTotals(q.Bytes(3))
		if q.Reset(); err != nil {
			return err
		}
		day := codec.DayOf(hour)
		get := t.q.totalDay.Int(of.target).Int(day).Int(of.tenant)
		set := t.q.setTotalDay.Int(of.target).Int(day).Int(of.tenant)
		if err := addTotals(get, set, &sum); err != nil {
			return err
		}
		if err := t.q.dropHour.Int(hour).Int(of.target).Int(of.tenant).Run(); err != nil {
			return err
		}
	}
	return nil
}
