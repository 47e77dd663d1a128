package sqlite

import (
	"os"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// checkpoints copies committed pages from the write-ahead log into the database. It has a goroutine
// and a connection of its own, so that commits go on meanwhile. The pages that they add keep a copy
// from being complete, and SQLite restarts a log only after a complete copy, so the log would grow
// without end. So now and then the writer copies the rest between two transactions.
//
// That takes some ten milliseconds even for a short rest, because of the syncs, and every writer
// waits. So the checkpointer copies once more just before, which makes the rest short; and under
// load the writer does not follow each copy: less than one request in a hundred waits for it in
// most seconds. The price is a longer log, at most 512 MiB.
type checkpoints struct {
	*database
	conn   *sqlite3.Conn
	at     int64        // how many pages in the log are enough; before anything is written
	pages  atomic.Int64 // in the log, not yet in the database
	length atomic.Int64 // of the log since it was begun
	due    atomic.Bool  // the writer shall copy the rest
	copied time.Time    // when the goroutine has copied last
	rested atomic.Int64 // when the writer has, in nanoseconds
	wake   chan struct{}
	asked  chan chan struct{} // copy the pages that are in the log now
	cuts   chan chan error    // the writer shall copy the rest and cut the log off
	quit   chan struct{}
	done   chan struct{}
}

// grown is called by the writer after every commit.
func (c *checkpoints) grown(pages int) {
	c.length.Add(int64(pages))
	if c.pages.Add(int64(pages)) < c.at {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default: // it is at it
	}
}

func (c *checkpoints) run() {
	defer close(c.done)
	for {
		select {
		case <-c.quit:
			return
		case copied := <-c.asked:
			c.copy(c.conn)
			close(copied)
		case <-c.wake:
			now, b := c.now(), &c.bounds
			if c.due.Load() || c.pages.Load() < c.at || c.pages.Load() < int64(b.CopyAtOnce)*c.at && within(now, c.copied, b.CopyEvery) {
				continue
			}
			c.writeBack()
			c.copy(c.conn)
			c.copied = now
			if c.length.Load() >= int64(b.LogAtMost)*c.at || !within(now, time.Unix(0, c.rested.Load()), b.RestEvery) {
				c.copy(c.conn)
				c.due.Store(true)
			}
		}
	}
}

// writeBack writes the log to the device before a checkpoint syncs it. Otherwise a sync of the
// journal would wait for the whole log. The descriptor is another one than SQLite's, so an error of
// the device is still reported to SQLite.
func (c *checkpoints) writeBack() {
	log, err := os.Open(c.path + "-wal")
	if err != nil {
		return // the checkpoint fails and is logged
	}
	defer func() { _ = log.Close() }()
	info, err := log.Stat()
	for at, part := int64(0), c.bounds.WriteBack; err == nil && at < info.Size(); at += part {
		err = journal.WriteBack(int(log.Fd()), at, part)
	}
}

// within says whether now is less than d after a time. A clock that was set back makes it true for
// longer.
func within(now, at time.Time, d time.Duration) bool {
	since := now.Sub(at)
	return since >= 0 && since < d
}

// waits says whether the writer has something to do here between two transactions.
func (c *checkpoints) waits() bool { return c.due.Load() || len(c.cuts) > 0 }

// rest is called by the writer when it is in no transaction and nothing is unflushed.
func (c *checkpoints) rest(conn *sqlite3.Conn, cut func() error) {
	if c.due.Load() {
		c.copyRest(conn)
		c.rested.Store(c.now().UnixNano())
		c.due.Store(false)
	}
	c.reply(cut)
}

// reply answers the one who wants the log cut off, if there is one.
func (c *checkpoints) reply(cut func() error) {
	select {
	case reply := <-c.cuts:
		reply <- cut()
	default:
	}
}

// copyRest makes a checkpoint while no transaction runs.
func (c *checkpoints) copyRest(conn *sqlite3.Conn) {
	c.copy(conn)
	if c.pages.Load() == 0 {
		c.length.Store(0) // the next transaction begins it anew
	}
}

// spare is called by the writer between transactions while the disk is full. The reserved space is
// for the growth of the database; a log that used all of it could not be copied any more, and then
// nothing could be recorded.
func (c *checkpoints) spare(conn *sqlite3.Conn) {
	if c.pages.Load() >= int64(c.bounds.Spare) {
		c.copyRest(conn)
	}
}

// copy makes a checkpoint. If the disk is full, or a reader holds old pages, the log keeps growing,
// and the next checkpoint is made when it has grown by the same size again. Pages committed
// meanwhile are not copied.
func (c *checkpoints) copy(conn *sqlite3.Conn) {
	before, y := c.pages.Load(), &c.unflushed
	flushed, ended, begun := y.flushed.Load(), y.ended.Load(), y.begun.Load()
	log, copied, err := conn.Checkpoint()
	switch {
	case busy(err):
		return // the other connection is copying the log, and counts what it copies
	case broken(err):
		_ = c.fail(err)
	case err != nil:
		c.pages.Add(-before)
		c.log.Warn("copying the write-ahead log into the database failed; retrying", "err", err)
	default:
		c.pages.Add(int64(log-copied) - before)
		if log == copied { // so all that was in the log when the checkpoint began is synced there
			y.synced.Store(max(flushed, y.synced.Load()))
			// SQLite syncs the database's file only if the log has not grown meanwhile.
			if ended == begun && begun == y.begun.Load() {
				y.alone.Store(max(flushed, y.alone.Load()))
			}
		}
	}
	c.stats.checkpointed()
}
