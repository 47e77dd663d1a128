package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// A feed is read by row id. A transaction draws its row ids before it commits, so a row id that is
// visible says nothing about lower ones: an open transaction may have drawn them. A feed ends below
// the row ids that open transactions can have (horizon).

const (
	// drawnQuery is the highest row id of a delivery that was drawn. After a jump to a new day
	// (jumpSQL) the sequence has the row id that is to be drawn next.
	drawnQuery = "SELECT last_value - (NOT is_called)::int FROM delivery_number"
	// drawersQuery finds the open transactions that have drawn row ids. nextval locks the sequence
	// until the end of its transaction, and a commit is visible before its locks are released.
	drawersQuery = `SELECT virtualtransaction FROM pg_locks WHERE relation = 'delivery_number'::regclass AND mode = 'RowExclusiveLock'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	// feedStateQuery reads what a page needs after its rows: a purge notes its row ids in the
	// transaction that deletes the rows.
	feedStateQuery = `SELECT t.purged, EXISTS (SELECT FROM pending WHERE seq = $2 AND event = $3 AND created = $4 AND target = t.number)
		OR EXISTS (SELECT FROM finished WHERE seq = $2 AND event = $3 AND created = $4 AND target = t.number) FROM target t WHERE t.number = $1`
)

// settle returns the row id up to which all transactions have ended. It waits a moment for those
// that were open when it was called.
func (s *lister) settle(ctx context.Context) (upTo int64, err error) {
	late := time.NewTimer(s.bounds.FeedWait)
	defer late.Stop()
	for first, pause := int64(0), s.bounds.FeedWait/64; ; pause *= 2 {
		look := s.horizon.begin()
		var drawn int64
		if err := s.reading.QueryRow(ctx, drawnQuery).Scan(&drawn); err != nil {
			return 0, err
		}
		open, err := rows.FirstColumn[string](rows.Ask(ctx, s.reading, drawersQuery))
		if err != nil {
			return 0, err
		}
		first = cmp.Or(first, drawn)
		if upTo = s.horizon.end(look, drawn, open); upTo >= first {
			return upTo, nil
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-late.C:
			return upTo, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Feed reads days after days from the mark on, each statement those of few days; see starts.
func (s *lister) Feed(ctx context.Context, scope store.Scope, q store.FeedQuery) (page store.FeedPage, err error) {
	if _, some := scope.Narrow(""); !some || q.Limit <= 0 {
		return page, ctx.Err()
	}
	var is store.FeedState
	if is.UpTo, err = s.settle(ctx); err != nil {
		return page, readError(ctx, err)
	}
	targets, err := rows.FirstColumn[int32](rows.Ask(ctx, s.reading, targetNumbersQuery, []string{q.Endpoint}))
	if err != nil {
		return page, readError(ctx, err)
	}
	var mark store.FeedMark
	if q.After != nil {
		mark = *q.After
	}
	var read []grapnel.Delivery
	if len(targets) > 0 {
		if read, err = s.readFeed(ctx, targets[0], mark.Seq, is.UpTo, q.Limit); err == nil {
			err = s.reading.QueryRow(ctx, feedStateQuery, targets[0], mark.Seq, mark.Of.Event,
				mark.Of.CreatedAt.UnixMicro()).Scan(&is.Purged, &is.Known)
			is.Known = is.Known && mark.Of.Endpoint == q.Endpoint
		}
		if err != nil {
			return page, readError(ctx, err)
		}
	}
	if q.After.Lost(is) {
		q.After = nil
		page, err = s.Feed(ctx, scope, q)
		page.Gap = true
		return page, err
	}
	return q.Page(scope, read, is), nil
}

// readFeed reads a target's deliveries behind a row id, in the order of their row ids.
func (s *lister) readFeed(ctx context.Context, target int32, after, upTo int64, limit int) (read []grapnel.Delivery, err error) {
	for _, end := range s.days.known.Load().ends(after, upTo, s.bounds.ListDays) {
		for more := true; more; {
			f, left := new(filter), limit-len(read)
			f.text("SELECT " + showColumns + " FROM (")
			for i, part := range []listed{{waitingShape, "pending"}, {overShape, "finished"}} {
				if i > 0 {
					f.text(" UNION ALL ")
				}
				f.text("(SELECT " + part.shape + " FROM " + part.table + " d WHERE d.seq > ").value(after).text(" AND d.seq <= ").value(end)
				f.text(" AND d.target = ").value(target).text(" ORDER BY d.seq LIMIT ").value(left).text(")")
			}
			f.text(")" + showJoins + " ORDER BY d.seq LIMIT ").value(left)
			seqs, err := s.readDeliveries(ctx, s.reading, f.ask(ctx, s.reading), func(d grapnel.Delivery, _ []byte) { read = append(read, d) })
			if err != nil || len(read) == limit {
				return read, err
			}
			if more = len(seqs) == left; more { // some were purged since
				after = seqs[left-1]
			}
		}
		after = end
	}
	return read, nil
}

// ends are the row ids at which the statements of a feed end, one after the other; see starts.
func (c *calendar) ends(after, upTo int64, first int) (ends []int64) {
	at, _ := slices.BinarySearchFunc(c.days, dayOf(after), func(d day, number int64) int { return cmp.Compare(d.number, number) })
	for n := first; at+n < len(c.days); n *= 8 {
		if end := begins(c.days[at+n].number) - 1; end < upTo {
			ends = append(ends, end)
		}
	}
	return append(ends, upTo)
}
