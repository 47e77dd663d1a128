package sqlite

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// operation is one call of a writing method. Its result is valid when the transaction has
// committed.
type operation interface {
	// apply decides whether it can be done, then does it. An error that is decided leaves the
	// transaction as it was. apply may be called again for another transaction.
	apply(*tx) error
	// grows says whether it needs space that is reserved for outcomes.
	grows() bool
}

// request is an operation on its way to the writer and back. It is used again for another one, so
// the writer forgets it when it has answered.
type request struct {
	operation
	err   error
	state atomic.Int32
	done  chan struct{} // holds a token once it is answered
}

func newRequest() any { return &request{done: make(chan struct{}, 1)} }

// answer sends the request back.
func (r *request) answer() { r.done <- struct{}{} }

// The states of a request. A caller that gives up before its operation was taken has changed
// nothing.
const (
	waits = iota
	taken
	abandoned
)

// writer owns the connection that writes. All operations go through its goroutine, which collects
// the queued ones, applies them in one transaction and commits once.
type writer struct {
	store   *Store
	tx      *tx
	line    line
	spare   sync.Pool     // of *request that are in no line
	quit    chan struct{} // closed to stop
	stopped chan struct{} // closed when it has

	batch    []*request
	share    share // of new events in it
	young    young
	headroom *headroom
	retry    *time.Timer // while the disk is full: when to try again
	rest     *time.Timer // since the last batch: when to give memory back
}

// line is the queue of requests for the writer. Each request is answered once, or was abandoned.
//
// The writer sleeps only while the line is empty. This holds for two reasons together. The request
// that joins an empty line leaves a token in wake. And the writer goes to sleep only after a take
// that returned nothing, which empties the line. If take could return nothing and leave requests in
// the line, the next request would not be the first, would leave no token, and the writer would
// never be woken again.
//
// Outcomes go first, and a batch has a limited number of events: see share.
type line struct {
	mu     sync.Mutex
	first  []*request // that need no more space: outcomes
	then   []*request
	closed bool
	wake   chan struct{} // holds a token if a request has joined an empty line
}

// join puts a request at the end; false: the line is closed.
func (l *line) join(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if r.grows() {
		l.then = append(l.then, r)
	} else {
		l.first = append(l.first, r)
	}
	if len(l.first)+len(l.then) == 1 {
		select {
		case l.wake <- struct{}{}:
		default: // an earlier token has not been taken yet
		}
	}
	return true
}

// take moves at most `most` requests (at least one) from the line to a batch, and no further events
// after one that has used up their share. Abandoned requests leave the line too, but do not count.
// So if the batch is empty and had no share yet, the line is empty.
func (l *line) take(batch []*request, most int, s *share) []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, queue := range []*[]*request{&l.first, &l.then} {
		n := 0
		for ; n < len(*queue) && most > 0 && (queue == &l.first || s.left()); n++ {
			if r := (*queue)[n]; r.state.CompareAndSwap(waits, taken) {
				batch, most = append(batch, r), most-1
				s.count(r.operation)
			}
		}
		rest := copy(*queue, (*queue)[n:])
		clear((*queue)[rest:])
		*queue = (*queue)[:rest]
	}
	return batch
}

// share limits the events of a batch. While outcomes come in, new events get as many deliveries as
// there are outcomes. Otherwise outcomes, and the next attempts of their lanes, would wait behind
// hundreds of events where the disk is slow.
type share struct {
	most, least   int // Bounds.Events and Bounds.Share
	outcomes, new int // in the batch: changes, and deliveries of events
}

func (s *share) left() bool {
	if s.outcomes > 0 {
		return s.new < max(s.outcomes, s.least)
	}
	return s.new < s.most
}

// count counts an operation of the batch. An event without deliveries counts as one.
func (s *share) count(o operation) {
	switch o := o.(type) {
	case *recording:
		s.outcomes += len(o.turns)
	case *appending:
		for i := range o.batch.events {
			s.new += max(1, len(o.batch.events[i].targets))
		}
	}
}

// close refuses later requests, and returns the queued ones.
func (l *line) close() []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return append(l.first, l.then...)
}

func (l *line) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.first) + len(l.then)
}

// write queues an operation and waits until it is durable or has failed. The writer's goroutine
// (writer.run) takes it from the line and calls its apply.
func (s *Store) write(ctx context.Context, o operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := s.writer.spare.Get().(*request)
	r.operation, r.err = o, nil
	r.state.Store(waits)
	if !s.writer.line.join(r) {
		return s.gone()
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(waits, abandoned) {
			return ctx.Err() // the line has the request, so it is not used again
		}
		<-r.done
	}
	err := r.err
	r.operation = nil
	s.writer.spare.Put(r)
	return err
}

func (w *writer) run() {
	defer close(w.stopped)
	defer func() { answer(w.line.close(), w.store.gone()) }()
	for w.next() {
		w.commit()
		clear(w.batch)
		w.batch = w.batch[:0]
		w.settle()
		w.rest.Reset(w.store.bounds.Rest)
	}
}

// shrink frees the pages that unused connections have in memory: the operating system has them
// too.
func (w *writer) shrink() {
	const free = "PRAGMA shrink_memory"
	if w.headroom.full || w.fill() != nil || w.tx.conn.Exec(free) != nil {
		return
	}
	w.widen(false)
	for range w.store.bounds.Readers {
		select {
		case conn := <-w.store.readers:
			_ = conn.Exec(free) // a connection that fails at this fails at its next read too
			w.store.readers <- conn
		default:
		}
	}
}

// settle fills the tables between two batches if it is time, and copies the log if that was asked.
func (w *writer) settle() {
	c := &w.store.checkpoints
	if w.enough() || !w.young.owes.Load() || w.headroom.full || c.waits() {
		if err := w.fill(); err != nil {
			c.refuse(err) // the journal has what the tables lack, and a later fill tries again
			return
		}
		c.rest(w)
	} else if w.tx.owed.enough() && w.tx.flush() != nil {
		_ = w.fill() // it rolls back, uses the reserved space if it has to, and is tried again later
	}
	if w.headroom.full {
		c.spare(w.tx.conn)
	}
}

// next fills the batch: it waits for the first request, then takes the other queued ones. After
// quit it takes the rest.
func (w *writer) next() bool {
	w.share = share{most: w.store.bounds.Events, least: w.store.bounds.Share}
	select { // even if the line is never empty
	case <-w.young.timer.C:
		w.age()
	case <-w.retry.C:
		w.regain()
	default:
	}
	for w.drain(); len(w.batch) == 0; w.drain() {
		select {
		case <-w.line.wake:
		case <-w.young.timer.C:
			w.age()
		case <-w.retry.C:
			w.regain()
		case <-w.rest.C:
			w.shrink()
		case <-w.quit:
			w.drain()
			return len(w.batch) > 0
		}
	}
	w.gather()
	return true
}

// gather takes the requests in the line. If they are few it lets other goroutines run first, as
// long as that brings more: on an idle machine no other goroutine is ready and it costs nothing; on
// a busy one those that are about to queue a request do so before the transaction instead of after
// it. It uses no timer: while no goroutine is ready, waiting would bring nothing.
func (w *writer) gather() {
	w.drain()
	for began := w.store.now(); len(w.batch) < w.store.bounds.Enough; {
		before := len(w.batch)
		runtime.Gosched()
		w.drain()
		if len(w.batch) == before || w.store.now().Sub(began) > w.store.bounds.Yield {
			return
		}
	}
}

// age fills the tables when the oldest young operation is FillEvery old. Little is written then, so
// the memory for frames goes back.
func (w *writer) age() {
	if err := w.fill(); err != nil {
		w.young.timer.Reset(w.store.bounds.Retry)
		return
	}
	w.young.frames = nil
}

func (w *writer) drain() { w.batch = w.line.take(w.batch, w.store.bounds.Batch-len(w.batch), &w.share) }

// commit does the batch in one transaction. If the disk has no space for it, operations that grow
// the database are refused, and the others are done with the reserved space. An operation that
// fails by its own decision is left out and does not fail the others.
func (w *writer) commit() {
	batch, lacked := w.batch, false
	if w.headroom.full {
		batch = w.refuse(batch)
	}
	for len(batch) > 0 {
		culprit, err := w.try(batch)
		switch {
		case full(err) && !lacked:
			w.lack(err)
			batch, lacked = w.refuse(batch), true
		case full(err):
			answer(batch, errFull(err))
			return
		case errors.Is(err, errLarge):
			w.young.large = true
		case culprit >= 0 && !broken(err):
			answer(batch[culprit:culprit+1], err)
			batch = slices.Delete(batch, culprit, culprit+1)
		default:
			w.done(batch, err)
			return
		}
	}
}

// done answers a batch that was done, or failed. Those that want to read wait for a fill.
func (w *writer) done(batch []*request, err error) {
	w.young.large = false
	isRead := func(r *request) bool { _, is := r.operation.(filling); return is }
	if err != nil || !slices.ContainsFunc(batch, isRead) {
		answer(batch, err)
		return
	}
	readers := batch[:0:0]
	for i, r := range batch {
		if isRead(r) {
			readers = append(readers, r)
		} else {
			answer(batch[i:i+1], nil)
		}
	}
	if err = w.fill(); full(err) {
		err = errFull(err)
	}
	answer(readers, err)
}

// answer sends requests back. Without an error of the transaction each has its own decision.
func answer(batch []*request, err error) {
	for _, r := range batch {
		if err != nil {
			r.err = err
		}
		r.answer()
	}
}

// try makes one attempt to do a batch. It returns which request it failed at, or -1.
func (w *writer) try(batch []*request) (culprit int, err error) {
	if err := w.store.failed(); err != nil {
		return -1, err
	}
	started := w.store.now()
	if culprit, err = w.transact(batch); err != nil {
		if err := w.undo(err); w.store.failed() != nil {
			return -1, err
		}
		return culprit, err
	}
	w.store.stats.committed(len(batch), w.store.now().Sub(started))
	return -1, nil
}

// refuse answers the requests that have to wait for space, and returns the others.
func (w *writer) refuse(batch []*request) []*request {
	kept := batch[:0:0]
	for _, r := range batch {
		if !r.grows() {
			kept = append(kept, r)
			continue
		}
		r.err = errFull(nil)
		r.answer()
	}
	return kept
}

func errFull(cause error) error {
	return &grapnel.Error{Code: grapnel.CodeStorageFull, Detail: "the disk that holds the database is full", Err: cause}
}

func full(err error) bool {
	var e *sqlite3.Error
	return errors.As(err, &e) && e.Full() || journal.Full(err)
}

func broken(err error) bool {
	var e *sqlite3.Error
	return errors.As(err, &e) && e.Broken() || errors.Is(err, errNotRising) || errors.Is(err, journal.ErrFailed)
}
