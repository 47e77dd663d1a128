package postgres

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// operation is one call of a writing method. Its result is valid when the transaction has committed.
type operation interface {
	// need says what has to be locked and read before it can be done.
	need(*needs)
	// apply decides whether it can be done, then does it. An error that is decided leaves the transaction as it was. apply may be
	// called again for another transaction.
	apply(*tx) error
}

// request is an operation on its way to a writer and back.
type request struct {
	operation
	alone bool // in a transaction of its own: it makes queries of its own
	err   error
	state atomic.Int32
	done  chan struct{}
}

// bytes is how much data the operation brings along, as far as that matters.
func (r *request) bytes() int {
	if o, big := r.operation.(interface{ bytes() int }); big {
		return o.bytes()
	}
	return 0
}

// The states of a request. A caller that gives up before its operation was taken has changed nothing.
const (
	waits = iota
	taken
	abandoned
)

// write hands an operation to the writers and waits until it is durable or has failed.
func (s *Store) write(ctx context.Context, o operation) error {
	return s.send(ctx, &request{operation: o})
}

// writeAlone does the same for an operation that makes queries of its own.
func (s *Store) writeAlone(ctx context.Context, o operation) error {
	return s.send(ctx, &request{operation: o, alone: true})
}

func (s *Store) send(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.refusal(); err != nil {
		return err
	}
	if !r.alone { // which may take long without anything being wrong
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
	select {
	case <-r.done:
		return r.err
	case <-s.stopped:
		return r.late()
	case <-ctx.Done():
		if r.state.CompareAndSwap(waits, abandoned) {
			return ctx.Err()
		}
	}
	select {
	case <-r.done:
		return r.err
	case <-s.stopped:
		return r.late()
	}
}

// late is what became of a request when the writers have stopped.
func (r *request) late() error {
	select {
	case <-r.done:
		return r.err
	default:
		return errClosed
	}
}

// writes makes transactions, one after the other, until the store is closed; then it makes one of what is left.
func (s *Store) writes(slot int16) {
	for {
		batch, more := s.next()
		for len(batch) > 0 {
			n := 1
			for !batch[0].alone && n < len(batch) && !batch[n].alone {
				n++
			}
			s.commit(slot, batch[:n])
			batch = batch[n:]
			s.daily()
		}
		if !more {
			return
		}
	}
}

// next waits for the first request, then takes what else is there. After quit it takes what is left, and says that there is no more.
func (s *Store) next() (batch []*request, more bool) {
	for len(batch) == 0 {
		select {
		case r := <-s.requests:
			batch = take(batch, r)
		case <-s.quit:
			for {
				select {
				case r := <-s.requests:
					batch = take(batch, r)
				default:
					return batch, false
				}
			}
		}
	}
	bytes := int64(0)
	for _, r := range batch {
		bytes += int64(r.bytes())
	}
	for yielded := false; len(batch) < s.bounds.Requests && bytes < s.bounds.RequestBytes; {
		select {
		case r := <-s.requests:
			bytes += int64(r.bytes())
			batch = take(batch, r)
			continue
		default:
		}
		if yielded || len(batch) >= s.bounds.Enough {
			break
		}
		// Those who are about to call get a chance to.
		yielded = true
		runtime.Gosched()
	}
	return batch, true
}

func take(batch []*request, r *request) []*request {
	if r.state.CompareAndSwap(waits, taken) {
		return append(batch, r)
	}
	return batch
}

// commit does the requests in one transaction. If that fails for a reason that may lie in one of them, each gets its own.
func (s *Store) commit(slot int16, batch []*request) {
	began := s.now()
	err := s.try(slot, batch)
	if err != nil && len(batch) > 1 && !errors.Is(err, errUnknown) && !gone(err) {
		for _, r := range batch {
			s.commit(slot, []*request{r})
		}
		return
	}
	ended := s.now()
	s.stats.committed(len(batch), err, ended.Sub(began))
	s.able.saw(err, ended)
	for _, r := range batch {
		if r.err == nil {
			r.err = err
		}
		close(r.done)
	}
}

// try makes the transaction, again and again as long as others spoil it, or its connection turns out to be cut. All of
// that has one deadline.
func (s *Store) try(slot int16, batch []*request) (err error) {
	ctx, done := s.writing.bound(s.ctx)
	defer done()
	defer func() {
		if lost := s.refusal(); lost != nil && err != nil && !errors.Is(err, errUnknown) {
			err = lost
		}
	}()
	for range s.bounds.Tries {
		for _, r := range batch {
			r.err = nil
		}
		switch err = s.transact(ctx, slot, batch); {
		case spoiled(err):
			s.stats.spoiled.Add(1)
			s.days.doubted.Store(true) // it may be that a day began or is gone
		case !broken(err):
			return asError(err)
		}
	}
	return asError(err)
}

// transact makes one transaction of the requests.
func (s *Store) transact(ctx context.Context, slot int16, batch []*request) error {
	t := &tx{store: s, slot: slot, needs: newNeeds()}
	for _, r := range batch {
		r.need(t.needs)
	}
	var err error
	if t.names, err = s.learn(ctx, t.needs.targets, t.needs.kinds); err != nil {
		return err
	}
	if t.calendar, err = s.learnDays(ctx); err != nil {
		return err
	}
	conn, err := s.writing.Acquire(ctx)
	if err != nil {
		return err
	}
	defer s.giveBack(conn) // which closes it if it is still in a transaction
	t.ctx, t.conn = ctx, conn.Conn()
	if err := t.begin(); err != nil {
		return t.undo(err)
	}
	applied := 0
	for _, r := range batch {
		switch err := r.apply(t); {
		case err == nil:
			applied++
		case decided(err):
			r.err = err
		default:
			return t.undo(err)
		}
	}
	if applied == 0 {
		return t.undo(nil)
	}
	return t.commit()
}

// decided says whether an operation failed by its own decision, before it changed anything.
func decided(err error) bool {
	return errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrFenced) || grapnel.CodeOf(err) != ""
}

// sortedKeys are the keys of a map in their order.
func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
