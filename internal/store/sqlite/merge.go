package sqlite

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	oldAccountsQuery = "SELECT target, tenant FROM tally WHERE hour < ? AND status = 1 LIMIT ?" // one row per endpoint
	anyOldHourQuery  = "SELECT 1 FROM total_hour WHERE hour < ? LIMIT 1"
	anyOldTypeQuery  = "SELECT 1 FROM total_type WHERE whole = 0 AND hour < ? LIMIT 1"
)

// mergeDays turns hours older than HoursKept into days.
func (s *Store) mergeDays(ctx context.Context, now time.Time) error {
	below := codec.Midnight(codec.HourOf(codec.Micros(now.Add(-store.HoursKept))))
	for {
		o := &merging{below: below, most: s.bounds.Merged}
		some := false
		err := s.read(ctx, func(r *sqlite3.Conn) (err error) {
			hours, err := integer(r.Query(anyOldHourQuery).Int(below))
			if err != nil {
				return err
			}
			types, err := integer(r.Query(anyOldTypeQuery).Int(below))
			if err != nil {
				return err
			}
			o.accounts, err = oldAccounts(r, below, o.most)
			some = hours == 1 || types == 1 || len(o.accounts) > 0
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
	return each(r.Query(oldAccountsQuery).Int(below).Int(int64(most)), func(q *sqlite3.Stmt) (accountOf, error) {
		return accountOf{q.Integer(0), q.Integer(1)}, nil
	})
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
	if err := o.types(t); err != nil {
		return err
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

// types adds rows of hours to the rows of their days. The writer forgets its cached rows first,
// because some of them are deleted here.
func (o *merging) types(t *tx) error {
	if err := t.writeTypes(); err != nil {
		return err
	}
	t.types.forget()
	for range o.most {
		q := t.q.oldType.Int(o.below)
		found, err := q.Row()
		if !found {
			return err
		}
		of := typeOf{q.Integer(0), q.Integer(1), q.String(2)}
		sum, err := codec.DecodeTotals(q.Bytes(3))
		if q.Reset(); err != nil {
			return err
		}
		if err := t.addTypeDay(of, &sum); err != nil {
			return err
		}
		if err := t.q.dropType.Int(of.hour).Int(of.tenant).Text(of.name).Run(); err != nil {
			return err
		}
	}
	return nil
}

// addTypeDay adds totals of an hour to those of its day, under no name if the day has too many
// types.
func (t *tx) addTypeDay(of typeOf, sum *grapnel.Totals) error {
	day := codec.Midnight(of.hour)
	if of.name != "" {
		q := t.q.typeTotal.Int(1).Int(day).Int(of.tenant).Text(of.name)
		found, err := q.Row()
		if err != nil {
			return err
		}
		if found {
			q.Reset()
		} else if told, err := lookUp(t.q.typesTold.Int(1).Int(day).Int(of.tenant)); err != nil {
			return err
		} else if told >= store.TypesCounted {
			of.name = ""
		}
	}
	get := t.q.typeTotal.Int(1).Int(day).Int(of.tenant).Text(of.name)
	set := t.q.setTypeTotal.Int(1).Int(day).Int(of.tenant).Text(of.name)
	return addTotals(get, set, sum)
}
