package sqlite

import (
	"sync/atomic"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// checkpointAt is how many pages in the write-ahead log make a checkpoint worth its two syncs: 32 MiB.
const checkpointAt = 4096

// checkpoints moves what was committed from the write-ahead log into the database. It has a goroutine and a connection of its
// own, so that commits go on meanwhile. What they add keeps it from coming to an end, and a log that is never copied to its end is
// never begun anew but grows; so the writer copies the rest, which is little, between two transactions.
type checkpoints struct {
	store *Store
	conn  *sqlite3.Conn
	at    int64        // how many pages in the log are enough; before anything is written
	pages atomic.Int64 // in the log
	due   atomic.Bool  // the writer shall copy the rest
	wake  chan struct{}
	asked chan chan struct{} // copy what is there now
	cuts  chan chan error    // the writer shall copy the rest and cut the log off
	quit  chan struct{}
	done  chan struct{}
}

// grown is called by the writer after every commit.
func (c *checkpoints) grown(pages int) {
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
			if !c.due.Load() && c.pages.Load() >= c.at {
				c.copy(c.conn)
				c.due.Store(true)
			}
		}
	}
}

// rest is called by the writer when it is in no transaction.
func (c *checkpoints) rest(conn *sqlite3.Conn) {
	if c.due.Load() {
		c.copy(conn)
		c.due.Store(false)
	}
	select {
	case reply := <-c.cuts:
		reply <- c.cut(conn)
	default:
	}
}

// spareAt is how many pages the log may have while the disk is full: half a MiB.
const spareAt = 64

// spare is called by the writer when it is in no transaction and the disk is full. The room that was kept is for what the database grows by;
// a log that took all of it could not be copied any more, and then nothing could be recorded.
func (c *checkpoints) spare(conn *sqlite3.Conn) {
	if c.pages.Load() >= spareAt {
		c.copy(conn)
	}
}

// copy makes a checkpoint. If it fails for want of room, or because a reader is in the way, the log grows on and the next one
// is made when it has grown as much again.
func (c *checkpoints) copy(conn *sqlite3.Conn) {
	started := c.store.now()
	log, copied, err := conn.Checkpoint()
	switch {
	case broken(err):
		_ = c.store.fail(err)
	case err != nil:
		c.pages.Store(0)
		c.store.log.Warn("the write-ahead log could not be copied into the database", "error", err)
	default:
		c.pages.Store(int64(log - copied))
	}
	c.store.stats.checkpointed(c.store.now().Sub(started))
}
