package sqlite

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// accountFor returns an account to be changed.
func accountFor(t *tx, of accountOf) (*account, error) {
	if t.accounts.last != nil && t.accounts.lastOf == of {
		return t.accounts.last, nil
	}
	a := t.accounts.known[of]
	if a == nil {
		a = new(account)
		_, err := rows.First(t.q.account.Int(of.target).Int(of.tenant), nil, func(q *sqlite3.Stmt) (_ struct{}, err error) {
			if !q.IsNull(0) {
				a.open, a.hour = true, q.Integer(0)
				a.totals, err = codec.DecodeTotals(q.Bytes(1))
			}
			return struct{}{}, err
		})
		if err != nil {
			return nil, err
		}
		t.accounts.known[of] = a
	}
	if !a.touched {
		a.touched = true
		t.accounts.touched = append(t.accounts.touched, of)
	}
	t.accounts.last, t.accounts.lastOf = a, of
	return a, nil
}

// writeAccounts writes the touched accounts.
func writeAccounts(t *tx) error {
	for _, of := range t.accounts.touched {
		a := t.accounts.known[of]
		set := t.q.setAccount.Int(of.target).Int(of.tenant).Int(a.pending).Int(a.made)
		if a.open {
			set.Int(a.hour).Blob(codec.EncodeTotals(&a.totals))
		} else {
			set.Null().Null()
		}
		if err := set.Run(); err != nil {
			return err
		}
		a.touched, a.made, a.pending = false, 0, 0
	}
	t.accounts.touched, t.accounts.last = t.accounts.touched[:0], nil
	if len(t.accounts.known) > t.bounds.Accounts {
		t.accounts.forget()
	}
	return nil
}

// sumQueued counts deliveries that become pending, or stop being pending.
func sumQueued(t *tx, d *place, by int64) error {
	a, err := accountFor(t, accountOf{d.target, d.tenant})
	if err == nil {
		a.pending += by
	}
	return err
}

// sumMade counts a delivery that is new.
func sumMade(t *tx, d *place) error {
	a, err := accountFor(t, accountOf{d.target, d.tenant})
	if err == nil {
		a.made++
	}
	return err
}

// sum changes the totals of an endpoint and those of a type in the hour of a time.
func sum(t *tx, d *place, at time.Time, change func(*grapnel.Totals)) error {
	if err := sumEndpoint(t, d, at, change); err != nil {
		return err
	}
	return sumType(t, d, at, change)
}

// sumEndpoint changes the totals of the hour of a time. An hour that is not the latest comes from a
// clock that was set back.
func sumEndpoint(t *tx, d *place, at time.Time, change func(*grapnel.Totals)) error {
	of := accountOf{d.target, d.tenant}
	a, err := accountFor(t, of)
	if err != nil {
		return err
	}
	hour := codec.HourOf(codec.Micros(at))
	if a.open && hour < a.hour {
		var late grapnel.Totals
		change(&late)
		return addHour(t, hour, of, &late)
	}
	if a.open && hour > a.hour {
		if err := settleAccount(t, of, a); err != nil {
			return err
		}
	}
	a.open, a.hour = true, hour
	change(&a.totals)
	return nil
}

// settleAccount moves the totals of an account to those of past hours.
func settleAccount(t *tx, of accountOf, a *account) error {
	err := addHour(t, a.hour, of, &a.totals)
	a.open, a.totals = false, grapnel.Totals{}
	return err
}

// allTargets stands for all targets of a tenant together. Numbers of targets begin with 1.
const allTargets = 0

// addHour adds to the totals of an hour, the target's and the tenant's.
func addHour(t *tx, hour int64, of accountOf, more *grapnel.Totals) error {
	for _, target := range [...]int64{of.target, allTargets} {
		get := t.q.totalHour.Int(hour).Int(target).Int(of.tenant)
		set := t.q.setTotalHour.Int(hour).Int(target).Int(of.tenant)
		if err := addTotals(get, set, more); err != nil {
			return err
		}
	}
	return nil
}

// addTotals adds to the totals that get returns, and writes them with set, as its next value.
func addTotals(get, set *sqlite3.Stmt, more *grapnel.Totals) error {
	sum, err := rows.First(get, nil, func(q *sqlite3.Stmt) (grapnel.Totals, error) { return codec.DecodeTotals(q.Bytes(0)) })
	if err != nil {
		return err
	}
	sum.Add(more)
	return set.Blob(codec.EncodeTotals(&sum)).Run()
}

// sumTried counts an attempt that was recorded at a time.
func sumTried(t *tx, d *place, a *grapnel.Tried, at time.Time) error {
	return sum(t, d, at, func(sum *grapnel.Totals) { sum.Tried(a, d.Attempts) })
}

// sumEnded counts a finished delivery.
func sumEnded(t *tx, d *place, e *store.Ending) error {
	is := d.Ended(e)
	return sum(t, d, e.At, func(sum *grapnel.Totals) { sum.Ended(&is) })
}
