package sqlite

import (
	"errors"
	"fmt"
)

// rowIDs assigns the row ids of events, or of deliveries. Each is above all assigned before it: one
// assigned in a transaction that was rolled back is not used again, and Purge stores the highest in
// the ledger before it removes the row. These rely on that:
//
//   - drained: an endpoint has no pending delivery up to some row id;
//   - purge.block: blocks of events before some block have no row left to purge;
//   - recent: the index has the keys of events up to known_moved.seq, so only later ones are
//     loaded;
//   - tx.hours, the tables hour and source_block: events of an hour or a source, by number;
//   - a replay's UpTo: deliveries above it are newer than the replay.
//
// A lower number would be silently left out by each of them: never ended, purged or listed. So next
// fails instead, and the store with it. Opened anew it reads the highest numbers from the rows.
type rowIDs struct {
	last  int64 // the highest number given
	given int64 // likewise, to compare with: last must not become lower
}

var errNotRising = errors.New("a row id is not above the last one")

// next returns the next number. It is given once gave was called.
func (r *rowIDs) next() (int64, error) {
	if next := r.last + 1; next > r.given {
		return next, nil
	}
	return 0, fmt.Errorf("sqlite: %w: %d comes next, but %d was given before", errNotRising, r.last+1, r.given)
}

// repeat makes next return the numbers after this one, which were given before. An entry of the
// journal that is applied again gives its rows the numbers that its caller was told.
func (r *rowIDs) repeat(after int64) { r.last, r.given = after, after }

// skip makes next return none of the numbers up to this one.
func (r *rowIDs) skip(to int64) {
	r.given = max(r.given, to)
	r.last = r.given
}

// gave notes that the next n numbers are given.
func (r *rowIDs) gave(n int) {
	r.last += int64(n)
	r.given = max(r.given, r.last)
}
