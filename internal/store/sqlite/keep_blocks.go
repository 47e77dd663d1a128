package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// sweepBlocks looks at the next rows of each table, and says whether it removed any.
func (s *keeper) sweepBlocks(ctx context.Context) (swept bool, err error) {
	for i := range blockNotesOf {
		n, at := &blockNotesOf[i], &s.purge.notes[i]
		if at.of == "" {
			at.of = n.first
		}
		var empty []blockNote
		if err := s.snapshot(ctx, func(r *sqlite3.Conn) (err error) {
			empty, err = n.empty(r, at, s.bounds.Noted)
			return err
		}); err != nil {
			return swept, err
		}
		for len(empty) > 0 {
			some := empty[:min(len(empty), s.bounds.Cleared)]
			if err := s.write(ctx, &change{shrinks: true, do: func(t *tx) error { return dropNotes(t, n.drop, some) }}); err != nil {
				return swept, err
			}
			swept, empty = true, empty[len(some):]
		}
	}
	return swept, nil
}

// empty returns those of the next rows whose blocks are empty.
func (n *blockNotes) empty(r *sqlite3.Conn, at *blockNote, limit int) (empty []blockNote, err error) {
	notes, err := rows.Each(r.Query(n.list).Text(at.of).Int(at.block).Int(int64(limit)), func(q *sqlite3.Stmt) (blockNote, error) {
		return blockNote{q.String(0), q.Integer(1)}, nil
	})
	if err != nil {
		return nil, err
	}
	is := make(map[int64]int64)
	for _, note := range notes {
		rows, err := cached(is, limit, note.block, func() (int64, error) { return rows.Integer(r.Query(n.any).Int(note.block)) })
		if err != nil {
			return nil, err
		}
		if rows == 0 {
			empty = append(empty, note)
		}
	}
	if *at = (blockNote{}); len(notes) == limit {
		*at = notes[limit-1]
	}
	return empty, nil
}

// dropNotes removes rows whose blocks are still empty. If one of these blocks gets a row later, as
// when a delivery of long ago ends, its note is written again.
func dropNotes(t *tx, query string, notes []blockNote) error {
	t.outcomes.forget()
	clear(t.names.blocks)
	for _, n := range notes {
		if err := t.conn.Query(query).Int(n.block).Text(n.of).Run(); err != nil {
			return err
		}
	}
	return nil
}
