package engine

import (
	"context"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// recorder commits changes in the order in which the core asked for them, as many at once as have piled up.
type recorder struct {
	e      *Engine
	mu     sync.Mutex
	queue  []core.Change
	closed bool
	work   chan struct{} // holds a token when there is something to look at
}

// recordPage is the most changes that one commit takes.
const recordPage = 512

func newRecorder(e *Engine) *recorder {
	return &recorder{e: e, work: make(chan struct{}, 1)}
}

func (r *recorder) add(c core.Change) {
	r.mu.Lock()
	r.queue = append(r.queue, c)
	r.mu.Unlock()
	r.wake()
}

// close lets run return once the queue is empty.
func (r *recorder) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wake()
}

func (r *recorder) wake() {
	select {
	case r.work <- struct{}{}:
	default:
	}
}

func (r *recorder) run() {
	failures := 0
	for range r.work {
		for {
			page, closed := r.take()
			if len(page) == 0 {
				if closed {
					return
				}
				break
			}
			failures = r.commit(page, failures)
		}
	}
}

func (r *recorder) take() (page []core.Change, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.queue), recordPage)
	page, r.queue = r.queue[:n:n], r.queue[n:]
	if len(r.queue) == 0 {
		r.queue = nil
	}
	return page, r.closed
}

// commit records one page and tells the core. It returns how many commits have failed in a row.
func (r *recorder) commit(page []core.Change, failures int) int {
	changes := make([]store.Change, len(page))
	for i := range page {
		changes[i] = page[i].Change
	}
	// No deadline: whether an outcome is durable must be known, and a cancelled commit would leave it open.
	results, err := r.e.store.Record(context.Background(), changes)
	if err != nil {
		failures++
		r.e.log.Error("outcomes could not be recorded; they will be again", "changes", len(page), "error", err)
		r.e.metrics.recordFailures.Inc()
		r.e.wait(pause(failures))
		r.e.send(core.Recorded{Changes: page, Err: err})
		return failures
	}
	r.e.metrics.recorded(page, results)
	r.e.send(core.Recorded{Changes: page, Results: results})
	return 0
}

// wait lets time pass, unless the engine stops.
func (e *Engine) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.over:
	}
}
