package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// blockNotes is a table whose rows say in which blocks something occurs. A row stays when Purge has
// emptied its block; then it only takes space. Each call of Purge looks at some rows.
type blockNotes struct {
	list  string // the rows behind one
	any   string // a row of the block
	drop  string // the row, if no row of its block is left
	first string // below all things that occur
}

// blockNote is a row of such a table.
type blockNote struct {
	of    string
	block int64
}

var blockNotesOf = [...]blockNotes{
	{"SELECT source, block FROM source_block WHERE (source, block) > (?, ?) ORDER BY source, block LIMIT ?",
		"SELECT 1 FROM event WHERE seq >= ?1 << 12 AND seq < (?1 + 1) << 12 LIMIT 1",
		`DELETE FROM source_block WHERE source = ?2 AND block = ?1 AND NOT EXISTS
			(SELECT 1 FROM event WHERE seq >= ?1 << 12 AND seq < (?1 + 1) << 12)`, ""},
	{"SELECT outcome, block FROM delivered_outcome WHERE (outcome, block) > (?, ?) ORDER BY outcome, block LIMIT ?",
		"SELECT 1 FROM finished WHERE seq >= ?1 << 12 AND seq < (?1 + 1) << 12 LIMIT 1",
		`DELETE FROM delivered_outcome WHERE outcome = ?2 AND block = ?1 AND NOT EXISTS
			(SELECT 1 FROM finished WHERE seq >= ?1 << 12 AND seq < (?1 + 1) << 12)`, "-2"},
}

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
	notes, err := each(r.Query(n.list).Text(at.of).Int(at.block).Int(int64(limit)), func(q *sqlite3.Stmt) (blockNote, error) {
		return blockNote{q.String(0), q.Integer(1)}, nil
	})
	if err != nil {
		return nil, err
	}
	is := make(map[int64]int64)
	for _, note := range notes {
		rows, err := cached(is, limit, note.block, func() (int64, error) { return integer(r.Query(n.any).Int(note.block)) })
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
