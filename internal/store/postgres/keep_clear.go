package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

const (
	clearAudit = `DELETE FROM audit WHERE seq = ANY(ARRAY(SELECT seq FROM audit WHERE at < $1 AND seq < (SELECT max(seq) FROM audit) ORDER BY seq LIMIT $2
		FOR UPDATE SKIP LOCKED))`
	longOver = "SELECT number FROM replay WHERE NOT active AND finished < $1" +
		" ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
	clearItems   = "DELETE FROM replay_item WHERE made = ANY(ARRAY(SELECT made FROM replay_item WHERE replay = $1 ORDER BY original LIMIT $2))"
	dropProgress = "DELETE FROM replay_progress WHERE replay = $1"
	dropReplay   = "DELETE FROM replay WHERE number = $1"
)

// Clear removes the oldest entries first, then the oldest replays.
func (s *keeper) Clear(ctx context.Context, c store.Clearing, limit int) (removed int, err error) {
	if limit <= 0 {
		return 0, ctx.Err()
	}
	tag, err := s.chores.Exec(ctx, clearAudit, codec.Micros(c.Audit), limit)
	if err != nil {
		return 0, asError(err)
	}
	removed = int(tag.RowsAffected())
	for removed < limit {
		n, err := s.clearReplay(ctx, codec.Micros(c.Replays), limit-removed)
		removed += n
		if n == 0 || err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// clearReplay deletes the items of the oldest replay that ended before the limit and, when none is
// left, the replay itself.
func (s *keeper) clearReplay(ctx context.Context, before int64, limit int) (removed int, err error) {
	err = s.inChore(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var number int64
		err := tx.QueryRow(ctx, longOver, before).Scan(&number)
		if rows.IsNone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, clearItems, number, limit)
		if removed = int(tag.RowsAffected()); err != nil || removed >= limit {
			return err
		}
		removed++
		b := new(pgx.Batch)
		b.Queue(dropProgress, number)
		b.Queue(dropReplay, number)
		return tx.SendBatch(ctx, b).Close()
	})
	return result(&removed, err)
}

// ClearDocuments is one statement.
func (s *keeper) ClearDocuments(ctx context.Context, kind string, before time.Time, limit int) (int, error) {
	if limit <= 0 {
		return 0, ctx.Err()
	}
	tag, err := s.chores.Exec(ctx, clearDocuments, kind, codec.Micros(before), limit)
	return int(tag.RowsAffected()), asError(err)
}

// Unlearn deletes the oldest first.
func (s *keeper) Unlearn(ctx context.Context, now, asideBefore time.Time, limit int) (int, error) {
	forgotten, err := s.chores.Exec(ctx, unlearn, codec.Micros(now), max(limit, 0))
	if err != nil {
		return 0, asError(err)
	}
	removed, err := s.chores.Exec(ctx, dropAsides, codec.Micros(asideBefore), max(limit, 0))
	return int(forgotten.RowsAffected() + removed.RowsAffected()), asError(err)
}

// Forget deletes answers in the order of their expiry.
func (s *keeper) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	tag, err := s.chores.Exec(ctx, dropAnswers, codec.Micros(now), max(limit, 0))
	return int(tag.RowsAffected()), asError(err)
}
