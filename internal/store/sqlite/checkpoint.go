package sqlite

import (
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// checkpoints moves what was committed from the write-ahead log into the database. It has a goroutine and a connection of its
// own, so that commits go on meanwhile. What they add keeps it from coming to an end, and a log that is never copied to its end is
// never begun anew but grows; so now and then the writer copies the rest between two transactions.
//
// That takes some ten milliseconds, however little is left, because of the syncs, and everybody waits. So just before it what is left is
// copied once more, which makes it little, and when much is written it is not done after each copy: few wait for it, not even one in a hundred
// in most seconds. The price is a longer log, 512 MiB at most.
type checkpoints struct {
	store  *Store
	conn   *sqlite3.Conn
	at     int64        // how many pages in the log are enough; before anything is written
	pages  atomic.Int64 // in the log, not yet in the database
	length atomic.Int64 // of the log since it was begun
	due    atomic.Bool  // the writer shall copy the rest
	copied time.Time    // when the goroutine has copied last
	rested atomic.Int64 // when the writer has, in nanoseconds
	wake   chan struct{}
	asked  chan chan struct{} // copy what is there now
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
			now, b := c.store.now(), &c.store.bounds
			if c.due.Load() || c.pages.Load() < c.at || c.pages.Load() < int64(b.CopyAtOnce)*c.at && within(now, c.copied, b.CopyEvery) {
				continue
			}
			c.copy(c.conn)
			c.copied = now
			if c.length.Load() >= int64(b.LogAtMost)*c.at || !within(now, time.Unix(0, c.rested.Load()), b.RestEvery) {
				c.copy(c.conn)
				c.due.Store(true)
			}
		}
	}
}

// within says whether now is less than so long after a time. A clock that was set back makes it later.
func within(now, at time.Time, d time.Duration) bool {
	since := now.Sub(at)
	return since >= 0 && since < d
}

// rest is called by the writer when it is in no transaction.
func (c *checkpoints) rest(conn *sqlite3.Conn) {
	if c.due.Load() {
		c.copyRest(conn)
		c.rested.Store(c.store.now().UnixNano())
		c.due.Store(false)
	}
	select {
	case reply := <-c.cuts:
		reply <- c.cut(conn)
	default:
	}
}

// copyRest makes a checkpoint while nobody writes.
func (c *checkpoints) copyRest(conn *sqlite3.Conn) {
	c.copy(conn)
	if c.pages.Load() == 0 {
		c.length.Store(0) // the next transaction begins it anew
	}
}

// spare is called by the writer when it is in no transaction and the disk is full. The room that was kept is for what the database grows by;
// a log that took all of it could not be copied any more, and then nothing could be recorded.
func (c *checkpoints) spare(conn *sqlite3.Conn) {
	if c.pages.Load() >= int64(c.store.bounds.Spare) {
		c.copyRest(conn)
	}
}

// copy makes a checkpoint. If it fails for want of room, or because a reader is in the way, the log grows on and the next one
// is made when it has grown as much again. What is committed meanwhile is not copied.
func (c *checkpoints) copy(conn *sqlite3.Conn) {
	started, before := c.store.now(), c.pages.Load()
	log, copied, err := conn.Checkpoint()
	switch {
	case broken(err):
		_ = c.store.fail(err)
	case err != nil:
		c.pages.Add(-before)
		c.store.log.Warn("the write-ahead log could not be copied into the database", "error", err)
	default:
		c.pages.Add(int64(log-copied) - before)
	}
	c.store.stats.checkpointed(c.store.now().Sub(started))
}
