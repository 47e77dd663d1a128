package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// operation is one call of a writing method. Its result is valid once the transaction has
// committed.
type operation interface {
	// need adds the locks and rows that it needs.
	need(*needs)
	// apply decides whether the operation can succeed, and then applies it. An error that it decides
	// leaves the transaction unchanged. It may be called again for another transaction.
	apply(*tx) error
}

// request is an operation on its way to a writer and back.
type request struct {
	operation
	alone bool // in a transaction of its own, because it makes further queries
	err   error
	state atomic.Int32
	done  chan struct{}
}

// bytes is the size of the operation's large data.
func (r *request) bytes() int {
	if o, big := r.operation.(interface{ bytes() int }); big {
		return o.bytes()
	}
	return 0
}

// The states of a request. If the caller gives up before the operation was taken, nothing has
// changed.
const (
	waits = iota
	taken
	abandoned
)

// writer has the goroutines that run transactions, one for each connection for writing.
type writer struct {
	*database
	keeper   *keeper
	gathers  sync.Mutex    // see next
	together together      // guarded by gathers
	places   chan struct{} // an element for each of the Few transactions that run
	running  sync.WaitGroup
	quit     chan struct{} // closed to stop
}

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

// result is what a call has done, if it succeeded.
func result[T any](done *T, err error) (T, error) {
	if err != nil {
		return *new(T), err
	}
	return *done, nil
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

// writes runs transactions, one after another, until the store is closed; then it runs one for the
// queued requests.
func (s *writer) writes(slot int16) {
	for {
		batch, placed, more := s.next()
		for len(batch) > 0 {
			n := 1
			for !batch[0].alone && n < len(batch) && !batch[n].alone {
				n++
			}
			s.commit(slot, batch[:n])
			batch = batch[n:]
		}
		if placed {
			<-s.places
		}
		s.keeper.daily()
		if !more {
			return
		}
	}
}

// commit runs the requests in one transaction. If that fails for a reason that may be one request's
// fault, each gets its own transaction.
func (s *writer) commit(slot int16, batch []*request) {
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

// try runs the transaction, again while it conflicts with others or its connection turns out to be
// cut. One deadline covers all tries.
func (s *writer) try(slot int16, batch []*request) (err error) {
	ctx, done := s.writing.bound(s.ctx)
	defer done()
	defer func() {
		if lost := s.refusal(); lost != nil && err != nil && !errors.Is(err, errUnknown) {
			err = lost
		}
	}()
	careful := false
	for range s.bounds.Tries {
		for _, r := range batch {
			r.err = nil
		}
		if err = s.transact(ctx, slot, batch, careful); broken(err) || errors.Is(err, errUnknown) {
			s.cut.Store(s.now().UnixNano())
		}
		switch {
		case errors.Is(err, errUnlike):
			s.stats.spoiled.Add(1)
			careful = true
		case spoiled(err):
			s.stats.spoiled.Add(1)
			s.days.doubted.Store(true) // a day may have begun or been dropped
			careful = true             // another event may have a minted id
		case !broken(err):
			return asError(err)
		}
	}
	return asError(err)
}

// transact runs one transaction for the requests. careful says that it expects nothing of the
// deliveries that it changes, nor of minted ids: see lone.go.
func (s *writer) transact(ctx context.Context, slot int16, batch []*request, careful bool) error {
	t := &tx{store: s.database, slot: slot, needs: newNeeds()}
	for _, r := range batch {
		r.need(t.needs)
	}
	if careful {
		t.needs.carefully()
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
	defer s.giveBack(conn) // closes it if it is still in a transaction
	t.ctx, t.conn = ctx, conn.Conn()
	if err := begin(t); err != nil {
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
	return commit(t)
}

// decided says whether an operation failed by its own decision, before any change.
func decided(err error) bool {
	return errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrFenced) || grapnel.CodeOf(err) != ""
}

// sortedKeys returns the sorted keys of a map.
func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := slices.AppendSeq(make([]K, 0, len(m)), maps.Keys(m))
	slices.SortFunc(keys, compare)
	return keys
}
