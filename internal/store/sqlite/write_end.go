package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// End takes the oldest first, so in each lane it stops at the lowest position that is left, which
// is then the head.
//
// Pending deliveries have no index by endpoint and row id, because every delivery would pay for it.
// The deliveries to end are looked up on a connection for reading, from where the last call for
// this endpoint stopped, and the writer ends those that are still pending.
func (s *changer) End(ctx context.Context, endpoint string, e store.Ending, limit int) (int, error) {
	ended := 0
	for ended < limit {
		found, err := s.oldest(ctx, endpoint, limit-ended)
		if e.UpTo != 0 {
			within, _ := slices.BinarySearch(found, e.UpTo+1)
			found = found[:within]
		}
		if err != nil || len(found) == 0 {
			return ended, err
		}
		n := 0
		if err := s.write(ctx, &change{shrinks: true, do: func(t *tx) (err error) {
			n, err = endAll(t, found, e)
			return err
		}}); err != nil {
			return ended, err
		}
		ended += n
		s.drained.upTo(endpoint, found[len(found)-1])
	}
	return ended, nil
}

// endAll ends those deliveries that are still pending, and counts them.
func endAll(t *tx, deliveries []int64, e store.Ending) (n int, err error) {
	for _, seq := range deliveries {
		d, err := t.place(seq)
		if err != nil {
			return 0, err
		}
		if d == nil {
			continue
		}
		if _, err := finish(t, d, e, nil, 0); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// oldest returns the row ids of an endpoint's oldest pending deliveries, at most limit.
func (s *changer) oldest(ctx context.Context, endpoint string, limit int) ([]int64, error) {
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) ([]int64, error) {
		target, waiting, err := waitingAt(r, endpoint)
		if err != nil || waiting == 0 {
			return nil, err
		}
		if waiting <= int64(s.bounds.Gathered) {
			found, err := gather(r, target, "")
			slices.Sort(found)
			return found[:min(len(found), limit)], err
		}
		return rows.Integers(r.Query(oldestQuery).Int(s.drained.from(endpoint)).Int(target).Int(min(waiting, int64(limit))))
	})
}

// waitingAt returns an endpoint's number, 0 if it has none, and its number of pending deliveries.
func waitingAt(r *sqlite3.Conn, endpoint string) (target, waiting int64, err error) {
	if target, err = rows.Integer(r.Query(targetQuery).Text(endpoint)); err != nil || target == 0 {
		return 0, 0, err
	}
	waiting, err = rows.Integer(r.Query(waitingQuery).Int(target))
	return target, waiting, err
}

// gather returns the row ids of all pending deliveries of a target that fit a condition, in no
// order.
func gather(r *sqlite3.Conn, target int64, fits string) ([]int64, error) {
	return rows.Integers(r.Query(fmt.Sprintf(gatherQuery, fits)).Int(target))
}

// gatherQuery finds all pending deliveries of one target by the two existing indexes, in no
// order. A further condition is checked in their rows.
const gatherQuery = `SELECT seq FROM pending WHERE head = 1 AND target = ?1%[1]s
		UNION ALL SELECT seq FROM pending WHERE position > 0 AND target = ?1 AND head = 0%[1]s`
