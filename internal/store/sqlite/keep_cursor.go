package sqlite

import (
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// keeper has the calls that remove expired rows, and the goroutine that writes the index of Known
// keys.
type keeper struct {
	*database
	checkpoints *checkpoints
	purge       purge
	moved       chan struct{} // closed when no entry moves to the index of Known keys any more
}

// purge is the position at which Purge continues.
type purge struct {
	mu       sync.Mutex
	block    int64                        // of events; nothing is left to remove in the blocks before, as row ids rise (rising)
	notes    [len(blockNotesOf)]blockNote // looked at last
	long     time.Duration                // the shortest retention: see forgetLane
	deferred bool                         // something was removed, by this process or an earlier one, that may still be in the log
	holes    []codec.Place                // that were made and are in the table still
}

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
