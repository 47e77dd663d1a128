package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel"
)

// errClosed is the error of calls on a closed store.
var errClosed = errors.New("postgres: the store is closed")

// write passes an operation to the writers and waits until it is durable or has failed.
func (s *database) write(ctx context.Context, o operation) error {
	return s.send(ctx, &request{operation: o})
}

// writeAlone does the same for an operation that makes further queries.
func (s *database) writeAlone(ctx context.Context, o operation) error {
	return s.send(ctx, &request{operation: o, alone: true})
}

func (s *database) send(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.refusal(); err != nil {
		return err
	}
	if !r.alone { // an operation with further queries may take long without any fault
		s.able.enter(s.now())
		defer s.able.leave()
	}
	r.done = make(chan struct{})
	select {
	case s.requests <- r:
	case <-s.stopped:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	for gaveUp := ctx.Done(); ; {
		select {
		case <-r.done:
			return r.err
		case <-s.stopped:
			select {
			case <-r.done: // by the last transaction
				return r.err
			default:
				return errClosed
			}
		case <-gaveUp:
			if r.state.CompareAndSwap(waits, abandoned) {
				return ctx.Err()
			}
			gaveUp = nil // it is taken: its outcome is awaited
		}
	}
}

// Unable says why new events cannot be committed at the moment; nil: they can, or no failure is
// known. It makes no call. Probes read while no request writes, and write while the store is
// unable; the first commit ends that state.
func (s *database) Unable() error {
	if err := s.refusal(); err != nil {
		return err
	}
	s.able.mu.Lock()
	defer s.able.mu.Unlock()
	if s.able.failed != nil {
		return s.able.failed
	}
	if waits := s.now().Sub(s.able.since); s.able.waiting > 0 && waits > s.bounds.Conns.Stall {
		return grapnel.Errorf(grapnel.CodeUnavailable, "the database has not committed anything for %s", waits.Round(time.Second/10))
	}
	return nil
}

// Stats returns the counters.
func (s *database) Stats() Stats {
	s.stats.mu.Lock()
	sum := s.stats.sum
	s.stats.mu.Unlock()
	sum.Spoiled, sum.Queued = s.stats.spoiled.Load(), len(s.requests)
	sum.Damaged = s.stats.damaged.Load()
	for _, pool := range s.pools {
		is := pool.Stat()
		sum.Connections += int(is.TotalConns())
		sum.Busy += int(is.AcquiredConns())
	}
	return sum
}

// result is what a call has done, if it succeeded.
func result[T any](done *T, err error) (T, error) {
	if err != nil {
		return *new(T), err
	}
	return *done, nil
}
