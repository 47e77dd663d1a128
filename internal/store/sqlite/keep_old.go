package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// oldEvent is an event with the rows of it to remove.
type oldEvent struct {
	seq, first, made int64
	key              string
	deliveries       []int64

	// Counts of rows that were removed, and whether the event was.
	over, attempts int // deliveries, and their attempts
	gone           bool
}

func (e *oldEvent) size() int { return max(len(e.deliveries), 1) }

// searcher looks for expired rows.
type searcher struct {
	keep  store.Keep
	limit int
	slack time.Duration // Bounds.Slack
	found []oldEvent
	kinds map[int64]int64 // by kind: the time before which an event was accepted, and its deliveries finished, if they are expired
	last  int64           // the latest of these
}

// old returns the rows to remove, up to limit. Each block is read in a transaction of its own: a
// transaction that is open for long keeps the log from being emptied.
func (s *keeper) old(ctx context.Context, keep store.Keep, limit int) ([]oldEvent, error) {
	f := &searcher{keep: keep, limit: limit, slack: s.bounds.Slack}
	if limit <= 0 {
		return nil, nil
	}
	if err := s.read(ctx, f.learn); err != nil {
		return nil, err
	}
	for block, more := s.purge.block, true; ; block++ {
		err := s.snapshot(ctx, func(r *sqlite3.Conn) (err error) {
			block, more, err = f.block(r, block)
			return err
		})
		if err != nil {
			return nil, err
		}
		s.purge.block = block
		if f.limit <= 0 {
			return f.found, nil
		}
		if !more {
			s.purge.block = 0
			return f.found, nil
		}
	}
}

// learn computes the retention of each kind of events.
func (f *searcher) learn(r *sqlite3.Conn) (err error) {
	q := r.Query(kindsQuery)
	f.kinds, f.last = make(map[int64]int64), -1<<62
	for q.More(&err) {
		before := codec.Micros(f.keep.Now.Add(-f.keep.Of(q.String(1), q.String(2))))
		f.kinds[q.Integer(0)] = before
		f.last = max(f.last, before)
	}
	return err
}

// block reads the events of the given block, or of the next one that has any, and returns its
// number; false: no block is left.
func (f *searcher) block(r *sqlite3.Conn, block int64) (int64, bool, error) {
	q := r.Query(nextEventQuery)
	found, err := q.Int(block << rows.BlockBits).Row()
	if !found {
		return block, false, err
	}
	block = q.Integer(0) >> rows.BlockBits
	oldest := q.Integer(1) - f.slack.Microseconds()
	if q.Integer(1) > codec.Micros(f.keep.Now) {
		oldest = -1 << 62 // of a clock that was ahead: it says nothing about the events behind
	}
	q.Reset()
	if oldest >= f.last {
		return block, true, nil
	}
	seqs, err := f.events(r, block, oldest)
	for _, e := range seqs {
		if f.limit <= 0 || err != nil {
			break
		}
		err = f.event(r, e[0], f.kinds[e[1]])
	}
	return block, true, err
}

// events are the row ids and kinds of the events of a block that may be old enough.
func (f *searcher) events(r *sqlite3.Conn, block, oldest int64) (all [][2]int64, err error) {
	q := r.Query(eventsKindsQuery)
	q.Int(block)
	for q.More(&err) {
		if before, known := f.kinds[q.Integer(1)]; known && oldest < before {
			all = append(all, [2]int64{q.Integer(0), q.Integer(1)})
		}
	}
	slices.SortFunc(all, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	return all, err
}

// event examines one event.
func (f *searcher) event(r *sqlite3.Conn, seq, before int64) error {
	e, err := rows.First(r.Query(oldEventQuery).Int(seq).Int(before), nil, func(q *sqlite3.Stmt) (oldEvent, error) {
		return oldEvent{seq: seq, first: q.Integer(0), made: q.Integer(1), key: q.String(2)}, nil
	})
	if e.seq == 0 {
		return err
	}
	left := false
	look := func(delivery int64) error {
		is, err := stateOf(r, delivery, before)
		if is == stateOld {
			e.deliveries = append(e.deliveries, delivery)
			f.limit--
		}
		left = left || is == stateStays
		return err
	}
	for number := e.first; number < e.first+e.made && f.limit > 0 && err == nil; number++ {
		err = look(number)
	}
	again := r.Query(redeliveriesQuery).Int(seq)
	defer again.Reset()
	for f.limit > 0 && err == nil && again.More(&err) { // an event may have a million of them
		err = look(again.Integer(0))
	}
	switch {
	case err != nil:
		return err
	case len(e.deliveries) > 0:
		f.found = append(f.found, e)
	case !left:
		f.limit--
		f.found = append(f.found, e)
	}
	return nil
}

// state is a delivery's state for Purge.
type state int

const (
	stateGone  state = iota
	stateStays       // it is pending, or its retention has not passed
	stateOld
)

func stateOf(r *sqlite3.Conn, delivery, before int64) (state, error) {
	is, err := rows.First(r.Query(overQuery).Int(delivery), nil, func(q *sqlite3.Stmt) (state, error) {
		if q.Integer(0) < before {
			return stateOld, nil
		}
		return stateStays, nil
	})
	if is != stateGone || err != nil {
		return is, err
	}
	waits, err := rows.Integer(r.Query(waitsQuery).Int(delivery))
	if waits == 1 {
		is = stateStays
	}
	return is, err
}
