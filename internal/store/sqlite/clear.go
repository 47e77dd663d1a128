package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	clearNotesQuery    = "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < ? AND seq < (SELECT max(seq) FROM audit) ORDER BY at LIMIT ?)"
	overReplaysQuery   = "SELECT number, revision, body FROM replay WHERE active = 0 ORDER BY number"
	clearItemsQuery    = "DELETE FROM replay_item WHERE made IN (SELECT made FROM replay_item WHERE replay = ? ORDER BY original LIMIT ?)"
	clearReplayQuery   = "DELETE FROM replay WHERE number = ?"
	clearProgressQuery = "DELETE FROM replay_progress WHERE replay = ?"
)

// Clear looks for replays on a connection for reading, and removes a few rows in each transaction.
// The next Purge removes their bytes from the log.
func (s *Store) Clear(ctx context.Context, c store.Clearing, limit int) (removed int, err error) {
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	var over []int64
	err = s.read(ctx, func(r *sqlite3.Conn) (err error) {
		over, err = overSince(r, codec.Micros(c.Replays))
		return err
	})
	for err == nil && removed < limit {
		o := &clearing{before: codec.Micros(c.Audit), replays: over, limit: min(limit-removed, s.bounds.Cleared)}
		if err = s.write(ctx, erasing(o.apply)); err != nil {
			break
		}
		s.purge.owed = s.purge.owed || o.removed > 0
		removed += o.removed
		over = over[o.gone:]
		if o.removed < o.limit {
			break
		}
	}
	return removed, err
}

// overSince are the numbers of replays that finished before a time. All finished replays are read:
// one that a clock years ahead created says nothing about those behind it.
func overSince(r *sqlite3.Conn, before int64) (numbers []int64, err error) {
	q := r.Query(overReplaysQuery)
	defer q.Reset()
	for q.More(&err) {
		one, err := codec.DecodeReplay(q.Integer(1), q.Bytes(2))
		if err != nil {
			return nil, err
		}
		if codec.Micros(one.FinishedAt) < before {
			numbers = append(numbers, q.Integer(0))
		}
	}
	return numbers, err
}

// clearing is a transaction of Clear. A finished replay stays finished, and nothing else removes
// it, so no condition has to be checked again. Once it is removed its number may be given to
// another replay.
type clearing struct {
	before  int64 // audit entries
	replays []int64
	limit   int
	removed int
	gone    int // number of replays at the beginning of the list that are removed
}

func (o *clearing) apply(t *tx) error {
	o.removed, o.gone = 0, 0
	remove := func(sql string, values ...int64) error {
		n, err := t.changes(t.conn.Query(sql).Ints(values...))
		o.removed += n
		return err
	}
	left := func() int64 { return int64(o.limit - o.removed) }
	if err := remove(clearNotesQuery, o.before, left()); err != nil {
		return err
	}
	for _, number := range o.replays {
		if left() == 0 {
			return nil
		}
		if err := remove(clearItemsQuery, number, left()); err != nil {
			return err
		}
		if left() == 0 {
			return nil
		}
		if err := remove(clearReplayQuery, number); err != nil {
			return err
		}
		if err := t.conn.Query(clearProgressQuery).Int(number).Run(); err != nil { // it belongs to the replay
			return err
		}
		o.gone++
	}
	return nil
}
