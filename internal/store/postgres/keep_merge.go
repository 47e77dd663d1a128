package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// merge merges the rows of a past hour into one, and hours that are old into days.
func (s *keeper) merge(ctx context.Context, now time.Time) error {
	past := pastHours{old: codec.Midnight(codec.HourOf(codec.Micros(now.Add(-store.HoursKept)))), over: codec.HourOf(codec.Micros(now)) - 1,
		page: s.bounds.MergePage}
	for _, merge := range []func(context.Context, pgx.Tx, pastHours) (int, error){endpointTotals.merge, typeTotals.merge} {
		for n := 1; n > 0; {
			err := s.inChore(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
				if _, err = tx.Exec(ctx, aloneLock, lockClass, lockTotals); err == nil {
					n, err = merge(ctx, tx, past)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// inChore runs a transaction in the background.
func (s *keeper) inChore(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	ctx, done := s.chores.bound(ctx)
	defer done()
	return asError(pgx.BeginFunc(ctx, s.chores, func(tx pgx.Tx) error { return do(ctx, tx) }))
}

// pastHours are the hours to merge.
type pastHours struct {
	old, over int64 // hours before old become days; those before over are one row
	page      int
}

// merge merges at most a page of rows, and returns how many.
func (r *totalsTable[K]) merge(ctx context.Context, tx pgx.Tx, past pastHours) (n int, err error) {
	hours, days := make(map[K]*grapnel.Totals), make(map[K]*grapnel.Totals)
	var of K
	var row totalsRow
	err = rows.Ask(ctx, tx, r.settle, past.old, past.over, past.page).Try(append(r.columns(&of), row.into()...), func() error {
		n++
		sums, to := hours, of
		if hour := r.hour(&to); *hour < past.old {
			sums, *hour = days, codec.Midnight(*hour)
		}
		sum, err := row.totals()
		if err != nil {
			return err
		}
		if sums[to] != nil {
			sum.Add(sums[to])
		}
		sums[to] = sum
		return nil
	})
	if err != nil || n == 0 {
		return n, err
	}
	b := new(pgx.Batch)
	r.queue(b, hours, settled, false)
	r.queue(b, days, settled, true)
	return n, tx.SendBatch(ctx, b).Close()
}
