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
