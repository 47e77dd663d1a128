package sqlite

import (
	"context"
	"errors"

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
func (s *keeper) Clear(ctx context.Context, c store.Clearing, limit int) (removed int, err error) {
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	var over []int64
	err = s.read(ctx, func(r *sqlite3.Conn) (err error) {
		over, err = overSince(r, codec.Micros(c.Replays))
		return err
	})
	if err != nil {
		return 0, err
	}
	return s.inParts(limit, func(most int) (n int, err error) {
		gone := 0
		err = s.write(ctx, &change{shrinks: true, do: func(t *tx) (err error) {
			n, gone, err = clearReplays(t, codec.Micros(c.Audit), over, most)
			return err
		}})
		if err == nil {
			over = over[gone:]
		}
		return n, err
	})
}

// inParts calls erase, which removes a few rows, until it removes fewer than it may, or limit are
// removed.
func (s *keeper) inParts(limit int, erase func(most int) (int, error)) (removed int, err error) {
	for removed < limit {
		most := min(limit-removed, s.bounds.Cleared)
		n, err := erase(most)
		if err != nil {
			return removed, err
		}
		s.purge.deferred = s.purge.deferred || n > 0
		if removed += n; n < most {
			break
		}
	}
	return removed, nil
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

// clearReplays removes audit entries from before a time and replays with their items, in all a
// number of rows at most. gone is how many replays at the beginning of the list are removed. A
// finished replay stays finished, and nothing else removes it, so no condition has to be checked
// again. Once it is removed its number may be given to another replay.
func clearReplays(t *tx, before int64, replays []int64, most int) (removed, gone int, err error) {
	remove := func(sql string, values ...int64) error {
		n, err := t.changes(t.conn.Query(sql).Ints(values...))
		removed += n
		return err
	}
	if err := remove(clearNotesQuery, before, int64(most)); err != nil {
		return 0, 0, err
	}
	for _, number := range replays {
		if removed < most {
			err = remove(clearItemsQuery, number, int64(most-removed))
		}
		if removed == most || err != nil {
			return removed, gone, err
		}
		if err = errors.Join(remove(clearReplayQuery, number), t.conn.Query(clearProgressQuery).Int(number).Run()); err != nil {
			return removed, gone, err
		}
		gone++
	}
	return removed, gone, nil
}
