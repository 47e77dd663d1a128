package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Unlearn looks on a connection for reading and removes in small transactions, as Purge does, and
// removes the bytes from the files in the same way. Entries in the index of keys stay for some
// time: a few bytes of a hash, and an event's row id.
func (s *keeper) Unlearn(ctx context.Context, now, asideBefore time.Time, limit int) (removed int, err error) {
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	var known, old []int64
	err = s.read(ctx, func(r *sqlite3.Conn) (err error) {
		if known, err = listed(r, unlearnedQuery, now, limit); err == nil {
			old, err = listed(r, oldAsidesQuery, asideBefore, limit)
		}
		return err
	})
	if err != nil || len(known)+len(old) == 0 && !s.purge.deferred {
		return 0, err
	}
	err = s.erased(ctx, func() error {
		for len(known)+len(old) > 0 {
			n := min(s.bounds.Unlearned, len(known))
			m := min(s.bounds.Unlearned-n, len(old))
			of := 0
			if err := s.write(ctx, &change{shrinks: true, do: func(t *tx) error {
				of = 0
				return errors.Join(dropAll(t, t.q.dropKnown, known[:n], &of), dropAll(t, t.q.dropAside, old[:m], &of))
			}}); err != nil {
				return err
			}
			removed += of
			known, old = known[n:], old[m:]
		}
		return nil
	})
	return removed, err
}

// dropAll removes the rows with these numbers, and counts them.
func dropAll(t *tx, drop *sqlite3.Stmt, numbers []int64, removed *int) error {
	for _, number := range numbers {
		n, err := t.changes(drop.Int(number))
		if err != nil {
			return err
		}
		*removed += n
	}
	return nil
}

// ClearDocuments removes a few documents in each transaction. The next Purge removes their bytes
// from the log.
func (s *keeper) ClearDocuments(ctx context.Context, kind string, before time.Time, limit int) (removed int, err error) {
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	return s.inParts(limit, func(most int) (n int, err error) {
		err = s.write(ctx, &change{shrinks: true, do: func(t *tx) (err error) {
			n, err = t.changes(t.q.clearDocuments.Text(kind).Int(codec.Micros(before)).Int(int64(most)))
			return err
		}})
		return n, err
	})
}

// Forget deletes answers in the order of their expiry.
func (s *keeper) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	n := 0
	err := s.write(ctx, &change{shrinks: true, do: func(t *tx) (err error) {
		n, err = t.changes(t.q.dropAnswers.Int(codec.Micros(now)).Int(int64(max(limit, 0))))
		return err
	}})
	return n, err
}

// listed returns at most limit row ids of rows that expired before a time.
func listed(r *sqlite3.Conn, query string, before time.Time, limit int) ([]int64, error) {
	return rows.Integers(r.Query(query).Int(codec.Micros(before)).Int(int64(max(limit, 0))))
}
