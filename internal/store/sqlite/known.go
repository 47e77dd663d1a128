package sqlite

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// known is a store.Known as passed to the writer.
type known struct {
	key   knownKey
	sum   [32]byte
	until int64
}

// knownKey identifies a Known: a hash of its source and key.
type knownKey [16]byte

// prefix is the part of a key in the index: six bytes as SQLite stores them, enough that two keys
// hardly ever share it.
func (k knownKey) prefix() int64 { return int64(binary.BigEndian.Uint64(k[:]) >> 17) }

func freezeKnown(k *store.Known) *known {
	if k == nil {
		return nil
	}
	var room [128]byte
	of := append(append(room[:0], k.Source...), 0)
	hash := sha256.Sum256(append(of, k.By...))
	return &known{key: knownKey(hash[:]), sum: k.Sum, until: codec.Micros(k.Until)}
}

const (
	knownColumns = "k.seq, k.sum, k.until, k.accepted, k.made, k.event"
	knownQuery   = "SELECT " + knownColumns + " FROM known k WHERE k.seq = ? AND k.key = ?"
	indexedQuery = "SELECT " + knownColumns + " FROM known_key i JOIN known k ON k.seq = i.seq WHERE i.prefix = ? AND k.key = ?"
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
	again, err = first(q.Blob(e.known.key[:]), nil, func(q *sqlite3.Stmt) (*store.Placed, error) {
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
