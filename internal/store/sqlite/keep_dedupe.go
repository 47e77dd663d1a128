package sqlite

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// knownEntry is an entry of the index.
type knownEntry struct{ prefix, seq int64 }

// moveDedupe adds the entries that the writer sends to the index, until the store is closed.
func (s *keeper) moveDedupe(out <-chan map[knownKey]int64, back chan<- struct{}) {
	defer close(s.moved)
	for {
		select {
		case entries := <-out:
			if !s.moveAll(entries) {
				return
			}
			back <- struct{}{}
		case <-s.closing:
			return
		}
	}
}

// moveAll adds entries to the index, a few in each transaction. false: the store has failed or is
// closed.
func (s *keeper) moveAll(entries map[knownKey]int64) bool {
	sorted := make([]knownEntry, 0, len(entries))
	last := int64(0)
	for key, seq := range entries {
		sorted = append(sorted, knownEntry{key.prefix(), seq})
		last = max(last, seq)
	}
	slices.SortFunc(sorted, func(a, b knownEntry) int { return cmp.Or(cmp.Compare(a.prefix, b.prefix), cmp.Compare(a.seq, b.seq)) })
	var before int64
	if !s.untilDone(func() (err error) {
		before, err = s.staleKnown(last)
		return err
	}) {
		return false
	}
	part, done := window{}, int64(0)
	for some := range slices.Chunk(sorted, s.bounds.Moved) {
		part = window{part.below, some[len(some)-1].prefix + 1}
		if some[len(some)-1] == sorted[len(sorted)-1] {
			part.below, done = math.MaxInt64, last
		}
		o := &change{do: func(t *tx) error { return moveKnown(t, some, part, before, done) }}
		if !s.untilDone(func() error { return s.write(context.Background(), o) }) {
			return false
		}
	}
	return true
}

// untilDone repeats do while it fails, as new writes do while the disk is full. false: the store
// has failed or is closed.
func (s *keeper) untilDone(do func() error) bool {
	for {
		err := do()
		if err == nil {
			select {
			case <-s.closing:
				return false
			default:
				return true
			}
		}
		if grapnel.CodeOf(err) != grapnel.CodeStorageFull && s.failed() == nil {
			s.log.Error("writing the index of received requests failed; retrying", "err", err)
		}
		select {
		case <-time.After(s.bounds.Retry):
		case <-s.closing:
			return false
		}
	}
}

const (
	firstKnownQuery = "SELECT ifnull(min(seq), 0) FROM known"
	sweptQuery      = "SELECT swept FROM known_moved"
)

// staleKnown returns the row id before which no event has a Known, if there are enough stale
// entries to remove them by a pass through the index; else 0. It does not count entries of a source
// whose records expired earlier than others'.
func (s *keeper) staleKnown(last int64) (int64, error) {
	return rows.Reading(context.Background(), s.read, func(r *sqlite3.Conn) (first int64, err error) {
		if first, err = rows.One(r, firstKnownQuery); err != nil {
			return 0, err
		}
		swept, err := rows.One(r, sweptQuery)
		if first-swept < (last-first)/2 {
			first = 0
		}
		return first, err
	})
}

// moveKnown adds some entries to a part of the index, the prefixes in a window, and removes those
// of events before one there; 0: none. With the last of all entries comes the newest of their
// events.
func moveKnown(t *tx, entries []knownEntry, part window, before, last int64) error {
	for _, e := range entries {
		if err := t.q.addKnownKey.Int(e.prefix).Int(e.seq).Run(); err != nil {
			return err
		}
	}
	if before > 0 {
		if err := t.q.dropKnownKeys.Int(part.from).Int(part.below).Int(before).Run(); err != nil {
			return err
		}
	}
	if last > 0 {
		return t.q.setKnownMoved.Int(last).Int(before).Run()
	}
	return nil
}
