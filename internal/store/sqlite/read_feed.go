package sqlite

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// feedTargetQuery finds a target, and the highest row id of its purged deliveries.
const feedTargetQuery = "SELECT number, purged FROM target WHERE endpoint = ?"

// Feed goes by row ids: the one writer gives them in the order in which it makes batches durable,
// and a flush writes all rows up to one of them.
func (s *feeder) Feed(ctx context.Context, scope store.Scope, q store.FeedQuery) (store.FeedPage, error) {
	if _, some := scope.Narrow(""); !some || q.Limit <= 0 {
		return store.FeedPage{}, ctx.Err()
	}
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) (page store.FeedPage, err error) {
		q := q
		page, lost, err := s.feed(ctx, r, scope, q)
		if err == nil && lost {
			q.After = nil
			page, _, err = s.feed(ctx, r, scope, q)
			page.Gap = true
		}
		return page, err
	})
}

// feed reads a page; lost: the store does not have the delivery of the mark.
func (s *feeder) feed(ctx context.Context, r *sqlite3.Conn, scope store.Scope, q store.FeedQuery) (
	page store.FeedPage, lost bool, err error) {
	var target int64
	var mark store.FeedMark
	if q.After != nil {
		mark = *q.After
	}
	is, err := rows.First(r.Query(feedTargetQuery).Text(q.Endpoint), nil, func(found *sqlite3.Stmt) (is store.FeedState, _ error) {
		target, is.Purged = found.Integer(0), found.Integer(1)
		is.UpTo = is.Purged // everything is settled
		return is, nil
	})
	if err != nil {
		return page, false, err
	}
	if mark.Of.Event != 0 {
		d, err := fetch(r, s.packer, mark.Seq)
		if err != nil {
			return page, false, err
		}
		is.Known = d != nil && mark.Of.Is(d.EventSeq, d.EndpointID, d.CreatedAt.UnixMicro())
	}
	if q.After.Lost(is) || target == 0 {
		return q.Page(scope, nil, is), q.After.Lost(is), nil
	}
	read, err := s.readFeed(ctx, r, target, mark.Seq, q.Limit)
	return q.Page(scope, read, is), false, err
}

// readFeed reads a target's deliveries behind a row id. The finished ones are in the blocks of an
// index.
func (s *feeder) readFeed(ctx context.Context, r *sqlite3.Conn, target, after int64, limit int) (read []grapnel.Delivery, err error) {
	numbers, err := rows.Integers(r.Query(oldestQuery).Int(after).Int(target).Int(int64(limit)))
	if err != nil {
		return nil, err
	}
	there, err := stored(r, oldestFinishedQuery, newestFinishedQuery)
	if err != nil {
		return nil, err
	}
	if len(numbers) == limit {
		there.below = min(there.below, numbers[limit-1])
	}
	in := there.and(window{from: after + 1, below: there.below})
	for block, found := in.from>>rows.BlockBits, 0; found < limit && block <= (in.below-1)>>rows.BlockBits && !in.empty(); block++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		some, err := rows.Integers(r.Query(finishedTargetQuery).Int(block).Int(target))
		if err != nil {
			return nil, err
		}
		some = newestFirst(some, in)
		numbers, found = append(numbers, some...), found+len(some)
	}
	slices.Sort(numbers)
	for _, n := range numbers[:min(len(numbers), limit)] {
		d, err := fetch(r, s.packer, n)
		if err != nil {
			return nil, err
		}
		if d != nil {
			read = append(read, d.Delivery)
		}
	}
	return read, nil
}
