package engine

import (
	"context"
	"errors"
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
	changes, results, err := r.e.record(page, failures)
	if err != nil {
		failures++
		r.e.log.Error("outcomes could not be recorded; they will be again", "changes", len(page), "error", err)
		r.e.metrics.recordFailures.Inc()
		r.e.wait(pause(failures))
		r.e.send(core.Recorded{Changes: page, Err: err})
		return failures
	}
	r.e.send(core.Recorded{Changes: page, Results: results})
	r.e.after(page, changes, results)
	return 0
}

// mute is how many commits in a row may fail until news that cannot be put together is left out: outcomes are worth more.
const mute = 10

// record makes changes durable, with what is to be told of them. If the configuration changes in between, who is told is found anew.
// There is no deadline: whether an outcome is durable must be known, and a cancelled commit would leave it open.
func (e *Engine) record(page []core.Change, failures int) ([]store.Change, []store.Changed, error) {
	ctx := context.Background()
	for {
		conf := e.config.Load()
		changes := make([]store.Change, len(page))
		for i := range page {
			changes[i] = page[i].Change
			if changes[i].Lease == nil {
				changes[i].Epoch = e.shards.epoch(page[i].Endpoint)
			}
			if len(page[i].News) == 0 {
				continue
			}
			var err error
			if changes[i].Tell, err = e.tell(conf, &page[i]); err != nil {
				if failures < mute {
					return nil, nil, err
				}
				e.log.Error("what happened to an endpoint cannot be told", "endpoint", page[i].Endpoint, "error", err)
			}
		}
		e.pending.begin()
		began := e.admission.begin()
		results, err := e.store.Record(ctx, changes)
		e.admission.end(began, err)
		e.pending.end(nil, conf.settled(page, changes, results), err)
		if errors.Is(err, store.ErrStale) {
			if err = e.refreshed(ctx, conf.version); err == nil {
				continue
			}
		}
		return changes, results, err
	}
}

// settled is by how much fewer deliveries wait after changes, or more where something was told.
func (c *configuration) settled(page []core.Change, changes []store.Change, results []store.Changed) (shares []share) {
	for i := range results {
		if !results[i].Applied {
			continue
		}
		if ep := c.at(page[i].Endpoint); ep != nil && page[i].Status.Final() {
			shares = plus(shares, ep.Tenant, -1)
		}
		if told := results[i].Told; told != nil {
			shares = made(shares, changes[i].Tell.Events, *told)
		}
	}
	return shares
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
