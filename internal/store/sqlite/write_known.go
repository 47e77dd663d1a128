package sqlite

import (
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// recognize returns the answer to an event with an unexpired Known, or nil and the row id of the
// event whose expired Known has the key, if any.
func recognize(t *tx, e *incoming) (again *store.Placed, before int64, err error) {
	if e.known == nil {
		return nil, 0, nil
	}
	var q *sqlite3.Stmt
	if seq := t.dedupe.find(e.known.key); seq != 0 {
		if err := t.writeDeferred(); err != nil {
			return nil, 0, err
		}
		q = t.q.known.Int(seq)
	} else {
		q = t.q.indexed.Int(e.known.key.prefix())
	}
	again, err = rows.First(q.Blob(e.known.key[:]), nil, func(q *sqlite3.Stmt) (*store.Placed, error) {
		if q.Integer(2) <= codec.Micros(e.AcceptedAt) {
			before = q.Integer(0)
			return nil, nil
		}
		return &store.Placed{Seq: q.Integer(0), ID: q.String(5), AcceptedAt: codec.Moment(q.Integer(3)), Deliveries: int(q.Integer(4)),
			Duplicate: true, Differs: string(q.Bytes(1)) != string(e.known.sum[:])}, nil
	})
	return again, before, err
}

// learn stores the Known of an accepted event, in place of the expired one.
func learn(t *tx, k *known, placed store.Placed, before int64) error {
	if k == nil {
		return nil
	}
	if before != 0 {
		if err := t.q.dropKnown.Int(before).Run(); err != nil {
			return err
		}
	}
	t.dedupe.add(k.key, placed.Seq)
	t.deferred.known = append(t.deferred.known, knownRow{k, placed.Seq, codec.Micros(placed.AcceptedAt), int64(placed.Deliveries), placed.ID})
	return nil
}
