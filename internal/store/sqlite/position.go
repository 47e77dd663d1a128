package sqlite

import (
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// position is the row of the table journal.
type position struct {
	key        uint64
	number     uint64 // of the last batch in the tables
	needed     bool   // the journal may have later ones
	generation uint64 // of the journal
	frame      uint64 // of the last batch in the tables that the journal had
	alone      uint64 // the file of the tables has the batches up to here without SQLite's log
	data       bool   // rows may refer to the file of data
	until      int64  // where in the file of data its last write ends
}

const journalQuery = "SELECT key, number, needed, data, generation, frame, alone, until FROM journal"

// widened is added to the numbers in the row, which keeps its size so; see the table journal.
const widened = 1 << 62

func narrowed(n int64) uint64 { return uint64(n &^ widened) }

func readPosition(conn *sqlite3.Conn) (p position, err error) {
	q := conn.Query(journalQuery)
	err = rows.Single(q, func() {
		p = position{key: uint64(q.Integer(0)), number: narrowed(q.Integer(1)), needed: q.Integer(2) == 1, data: q.Integer(3) == 1,
			generation: uint64(q.Integer(4)), frame: narrowed(q.Integer(5)), alone: narrowed(q.Integer(6)), until: int64(narrowed(q.Integer(7)))}
	})
	return p, err
}

const wayOut = "put the files of one moment back, or restore a backup"
