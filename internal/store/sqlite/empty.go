package sqlite

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// empty copies the whole log into the database and truncates it, so that no file contains bytes
// that the database does not. Most of it is copied while commits go on; the writer only copies the
// pages that came meanwhile.
//
// Running reads keep the log from being truncated. At first empty waits for a moment without reads;
// after Bounds.Tries new reads wait until the running ones have ended.
func (s *keeper) empty(ctx context.Context) error {
	wait := time.Millisecond
	for try := 1; ; try++ {
		giveBack := func() {}
		if try > s.bounds.Tries {
			var err error
			if giveBack, err = s.occupy(ctx); err != nil {
				return err
			}
		}
		err := s.cutLog(ctx)
		giveBack()
		if !busy(err) {
			return err
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, s.bounds.Pause)
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
			return s.gone()
		}
	}
}

// occupy borrows all connections for reading.
func (s *keeper) occupy(ctx context.Context) (giveBack func(), err error) {
	var borrowed []*sqlite3.Conn
	giveBack = func() {
		for _, r := range borrowed {
			s.readers <- r
		}
	}
	for len(borrowed) < cap(s.readers) && err == nil {
		select {
		case r := <-s.readers:
			borrowed = append(borrowed, r)
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.closing:
			err = s.gone()
		}
	}
	if err != nil {
		giveBack()
	}
	return giveBack, err
}

// cutLog makes one try.
func (s *keeper) cutLog(ctx context.Context) error {
	c := s.checkpoints
	copied, reply := make(chan struct{}), make(chan error, 1)
	select {
	case c.asked <- copied:
		<-copied
	case <-c.done:
		return s.gone()
	case <-ctx.Done():
		return ctx.Err()
	}
	c.cuts <- reply // no other goroutine sends to it
	if err := s.write(ctx, nothing{}); err != nil {
		select {
		case <-c.cuts: // the writer has not seen it
		default:
		}
		return err
	}
	select {
	case err := <-reply:
		return err
	case <-s.stopped:
		return s.gone()
	}
}

// cut is called by the writer when it is in no transaction and nothing is unflushed. After it
// neither log nor journal has a byte.
func (w *writer) cut() error {
	c := w.checkpoints
	err := w.tx.conn.Truncate()
	if err == nil {
		c.pages.Store(0)
		c.length.Store(0)
		w.unflushed.synced.Store(w.unflushed.number)
		w.unflushed.alone.Store(w.unflushed.number)
		c.reach("the log was cut off")
		if w.unflushed.journal != nil {
			err = w.unflushed.journal.Empty(w.unflushed.number)
		}
	}
	if broken(err) {
		err = c.fail(err)
	}
	c.stats.checkpointed()
	return err
}

// nothing is an operation without effect, which wakes the writer. flushing is answered when all
// earlier writes are in the tables. looking reads rows; seeing also reads sums, which the commit
// would write.
type (
	nothing  struct{}
	flushing struct{}
	looking  func(*sqlite3.Conn) error
	seeing   func(*sqlite3.Conn) error
)

func (nothing) grows() bool      { return false }
func (nothing) apply(*tx) error  { return nil }
func (flushing) grows() bool     { return false }
func (flushing) apply(*tx) error { return nil }
func (looking) grows() bool      { return false }
func (seeing) grows() bool       { return false }

func (do looking) apply(t *tx) error { return do(t.conn) }

func (do seeing) apply(t *tx) error {
	if err := t.combine(t.unflushed.number, t.needed); err != nil {
		return err
	}
	return do(t.conn)
}
