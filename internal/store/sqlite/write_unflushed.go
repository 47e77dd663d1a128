package sqlite

import (
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// A batch of operations becomes durable in one of two ways.
//
// If the journal can hold all of them, they are written to it as one frame: one write and one sync,
// however many pages of the tables they change. Their changes stay in SQLite's open transaction,
// where the writer sees them and no other connection does. They are unflushed. Now and then, and
// before a read, a flush commits all unflushed changes to the tables, without a sync.
//
// Otherwise the unflushed changes are flushed first. Then SQLite commits the batch and syncs its
// log.
//
// One number counts both. The tables hold the number of the last batch that is in them; it is
// committed with that batch. So after a crash the frames with higher numbers are exactly those that
// the tables lack, and catchUp applies them again. That is true after a loss of power, too: flushes
// that were not synced are lost then, and with them their numbers. The journal keeps each frame
// until SQLite's log was synced with its changes.
type unflushed struct {
	path       string
	key        uint64
	journal    *journal.Journal // nil until the first frame of this process
	generation uint64           // of the journal
	number     uint64           // of the last durable batch
	half       int              // operations in the half of the journal that is being written
	loose      bool             // commits of the connection are not synced
	large      bool             // the batch does not fit into a frame

	frames []byte        // the unflushed ones, one after the other, each with its header
	ends   []int         // where each of them ends
	count  int           // operations in them
	most   int           // operations with which the tables are flushed
	wide   bool          // the connection has WideCache
	again  time.Duration // that it took to apply them again, the last time
	timer  *time.Timer

	owes    atomic.Bool   // something is unflushed
	flushed atomic.Uint64 // the number that the tables hold
	event   atomic.Int64  // the highest row id of an event in the tables, as far as this process wrote them
	synced  atomic.Uint64 // the one that they still hold after a loss of power
	alone   atomic.Uint64 // the one that their file holds without SQLite's log

	begun, ended atomic.Uint64 // commits of SQLite; a failed one does not end

	replayed atomic.Bool // a replay has progressed, which the tables do not show before the commit
}

const (
	strict = "PRAGMA synchronous = FULL"
	loose  = "PRAGMA synchronous = NORMAL"
)

// room says whether the half of the journal that is being written has room for another frame.
func (y *unflushed) room(most int) bool { return y.journal.Room() && y.half < most }

// sync says whether SQLite syncs its log with each commit. No transaction is open.
func (y *unflushed) sync(conn *sqlite3.Conn, always bool) error {
	if y.loose == !always {
		return nil
	}
	setting := loose
	if always {
		setting = strict
	}
	if err := conn.Exec(setting); err != nil {
		return err
	}
	y.loose = !always
	return nil
}

// widen gives the writer's connection memory for more pages, or for as many as usually.
func (y *unflushed) widen(conn *sqlite3.Conn, b *Bounds, wide bool) {
	if wide == y.wide {
		return
	}
	size := b.WriterCache
	if wide {
		size = b.WideCache
	}
	if conn.Exec(cacheSize(size>>10)) == nil {
		y.wide = wide
	}
}

// enough says whether so much is unflushed that it is flushed.
func (y *unflushed) enough(b *Bounds) bool {
	return y.count >= min(y.most, b.Unflushed) || int64(len(y.frames)) >= b.UnflushedBytes
}
