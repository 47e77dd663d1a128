package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// A purge removes rows of event first. Their data in the file become a hole, a part that has no
// blocks and reads as zeros, once no read can see the rows any more: when the log has been emptied.
// Until then the table hole has the part, so a crash forgets none.
//
// A hole reaches from the data before it that have a row to those after it. So data without a row
// in between go too, and blocks of the file system with data of several events, which several
// purges remove.

const holesQuery = "SELECT at, until FROM hole ORDER BY at"

// leaveHole notes that the data of an event shall become a hole. The event's row is removed in the
// same transaction.
func leaveHole(t *tx, seq int64) error {
	own, found, _, err := nearest(t.q.eventData.Int(seq))
	if !found || err != nil {
		return err
	}
	most := t.bounds.Beside
	before, found, rows, err := nearest(t.q.dataBefore.Int(seq).Int(int64(most)))
	if err != nil {
		return err
	}
	hole := own
	switch {
	case found:
		hole.At = before.Until
	case rows < most: // no row before has its data in the file
		hole.At = dataHeader
	}
	after, found, _, err := nearest(t.q.dataAfter.Int(seq).Int(int64(most)))
	if err != nil {
		return err
	}
	if found {
		hole.Until = after.At
	}
	if hole.At > own.At || hole.Until < own.Until { // rows are not in the order of their data
		hole = own
	}
	return t.q.addHole.Int(hole.At).Int(hole.Until).Run()
}

// nearest is the place of the first data in the file among the rows of a query, and the number of
// rows until then.
func nearest(q *sqlite3.Stmt) (p codec.Place, found bool, rows int, err error) {
	defer q.Reset()
	for q.More(&err) {
		rows++
		if p, _, found = codec.Apart(q.Bytes(1), q.Integer(0)); found && p.At >= dataHeader { // else it is corrupt
			return p, true, rows, nil
		}
	}
	return codec.Place{}, false, rows, err
}

// punch makes the holes in the file. They leave the table at the next purge: a write now would
// begin the log again, which was just emptied. Until then a later process makes them once more,
// which changes nothing, because the file only grows.
func (s *keeper) punch(ctx context.Context) error {
	holes, err := rows.Reading(ctx, s.read, func(r *sqlite3.Conn) ([]codec.Place, error) {
		return rows.Each(r.Query(holesQuery), func(q *sqlite3.Stmt) (codec.Place, error) {
			return codec.Place{At: q.Integer(0), Until: q.Integer(1)}, nil
		})
	})
	if err == nil {
		err = s.data.punch(holes)
	}
	if err == nil {
		s.purge.holes = holes
		s.reach("holes were made")
	}
	return err
}

// dropHoles removes holes that were made from the table. A hole that has grown since stays there, and
// is made again.
func (s *keeper) dropHoles(ctx context.Context) error {
	for len(s.purge.holes) > 0 {
		some := s.purge.holes[:min(s.bounds.Cleared, len(s.purge.holes))]
		if err := s.write(ctx, &change{shrinks: true, do: func(t *tx) error {
			for _, hole := range some {
				if err := t.conn.Query("DELETE FROM hole WHERE at = ? AND until = ?").Int(hole.At).Int(hole.Until).Run(); err != nil {
					return err
				}
			}
			return nil
		}}); err != nil {
			return err
		}
		s.purge.holes = s.purge.holes[len(some):]
	}
	return nil
}

// punch makes parts of the file holes. They are sorted.
func (d *dataFile) punch(holes []codec.Place) error {
	file := d.file.Load()
	if file == nil {
		return nil
	}
	for i := 0; i < len(holes); {
		one := holes[i]
		for ; i < len(holes) && holes[i].At <= one.Until; i++ {
			one.Until = max(one.Until, holes[i].Until)
		}
		if err := journal.Punch(file, one.At, one.Until-one.At); err != nil {
			return err
		}
	}
	return file.Sync()
}
