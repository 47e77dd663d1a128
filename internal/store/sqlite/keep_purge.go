package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

// Purge looks for expired rows on a connection for reading, event by event, and removes them in
// small transactions, each of which checks again whether it may. Meanwhile deleted bytes are
// overwritten with zeros. Then the log, which has earlier versions of the pages, is copied
// completely into the database and truncated.
//
// Blocks of events that were all read are not read again until the last block has been.
func (s *keeper) Purge(ctx context.Context, keep store.Keep, limit int) (int, error) {
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	s.purge.long = keep.Shortest()
	if err := s.mergeDays(ctx, keep.Now); err != nil {
		return 0, err
	}
	swept, err := s.sweepBlocks(ctx)
	if err != nil {
		return 0, err
	}
	found, err := s.old(ctx, keep, limit)
	if err != nil {
		return 0, err
	}
	if s.purge.deferred = s.purge.deferred || swept || len(found) > 0; !s.purge.deferred {
		return 0, nil
	}
	removed := 0
	err = s.erased(ctx, func() (err error) {
		removed, err = s.removeOld(ctx, found)
		return err
	})
	return removed, err
}

// erased calls remove and then removes the deleted bytes from the files. If that fails the next
// call does it.
func (s *keeper) erased(ctx context.Context, remove func() error) error {
	s.purge.deferred = true
	err := s.pinned(ctx, func() error {
		err := s.dropHoles(ctx)
		if err == nil {
			err = remove()
		}
		if err == nil {
			err = s.scrubPurged(ctx)
		}
		return err
	})
	if err == nil {
		err = s.empty(ctx)
	}
	if err == nil {
		err = s.punch(ctx)
	}
	s.purge.deferred = err != nil
	return err
}

// removeOld removes the rows found, a few in each transaction.
func (s *keeper) removeOld(ctx context.Context, found []oldEvent) (removed int, err error) {
	return s.removeParts(ctx, found, func(t *tx, part []oldEvent) (int, error) { return purgeAll(t, part, s.purge.long) })
}

// removeParts calls remove in transactions that remove few rows each.
func (s *keeper) removeParts(ctx context.Context, found []oldEvent, remove func(*tx, []oldEvent) (int, error)) (removed int, err error) {
	for len(found) > 0 {
		n := 0
		for size := 0; n < len(found) && (n == 0 || size+found[n].size() <= s.bounds.Purged); n++ {
			size += found[n].size()
		}
		of := 0
		if err := s.write(ctx, &change{shrinks: true, do: func(t *tx) (err error) {
			of, err = remove(t, found[:n])
			return err
		}}); err != nil {
			return removed, err
		}
		removed += of
		found = found[n:]
	}
	return removed, nil
}

// purgeAll removes some events, or some of their deliveries.
func purgeAll(t *tx, events []oldEvent, long time.Duration) (removed int, err error) {
	purged := make(map[int64]int64) // by target
	for i := range events {
		n, err := purgeEvent(t, &events[i], long.Microseconds(), purged)
		if err != nil {
			return 0, err
		}
		removed += n
	}
	for target, highest := range purged {
		if err := t.conn.Query(raisePurgedQuery).Int(highest).Int(target).Run(); err != nil {
			return removed, err
		}
	}
	t.ledger.event, t.ledger.delivery = t.events.last, t.deliveries.last
	return removed, nil
}

// raisePurgedQuery notes the highest row id of a target's purged deliveries, so that a feed shows a
// gap (Feed).
const raisePurgedQuery = "UPDATE target SET purged = max(purged, ?) WHERE number = ?"

// purgeEvent removes an event's expired deliveries, and the event if none is left. It raises the
// highest row id of each target in purged.
func purgeEvent(t *tx, e *oldEvent, long int64, purged map[int64]int64) (removed int, err error) {
	e.over, e.attempts, e.gone = 0, 0, false
	for _, number := range e.deliveries {
		q := t.q.dropFinished.Int(number)
		found, err := q.Row()
		if err != nil {
			return removed, err
		}
		if !found {
			continue
		}
		target, status, ending, position, took := q.Integer(0), q.Integer(2), q.Integer(3), q.Integer(4), q.Integer(5)
		t.tallies[tally{target, q.Integer(1), status}]--
		purged[target] = max(purged[target], number)
		e.over, e.attempts = e.over+1, e.attempts+int(q.Integer(6))
		q.Reset()
		if status == rows.StatusFailed {
			if err := t.conn.Query(dropLetterQuery).Int(target).Int(number).Run(); err != nil {
				return removed, err
			}
		}
		t.ledger.purged++
		removed++
		if err := errors.Join(t.q.dropAttempts.Int(number).Run(), t.q.dropMark.Int(number).Run(), t.q.dropRedelivery.Int(number).Run(),
			t.q.dropEnding.Int(ending).Run(), forgetLane(t, laneOf{target, e.key}, position, took >= long)); err != nil {
			return removed, err
		}
	}
	end := e.first + e.made
	left, err := rows.Integer(t.q.anyDelivery.Int(e.first).Int(end).Int(e.first).Int(end).Int(e.seq))
	if left == 1 || err != nil {
		return removed, err
	}
	if err := errors.Join(leaveHole(t, e.seq), t.q.dropEvent.Int(e.seq).Run()); err != nil {
		return removed, err
	}
	if e.gone = t.conn.Changed() > 0; e.gone && len(e.deliveries) == 0 {
		removed++
	}
	return removed, nil
}
