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
//
// A change that operational events are made of, and whose event is not in memory, takes a way round: a second
// goroutine reads the events of many such changes at once and gives them back. So the recorder itself reads
// nothing. A change may be overtaken on that way because changes of one delivery never meet there: the core
// has at most one change of a delivery under way.
type recorder struct {
	e        *Engine
	changes  pages // to be committed
	unnamed  pages // whose events are read first
	failures int   // commits that have failed in a row; used by the goroutine of run alone
	stuck    map[int64]bool
	pulse    *pulse
}

// pages is a queue of changes that one goroutine takes by the page.
type pages struct {
	most   int // changes in a page
	mu     sync.Mutex
	queue  []core.Change
	closed bool
	work   chan struct{} // holds a token when the queue has changed
}

func newRecorder(e *Engine) *recorder {
	return &recorder{e: e, pulse: e.pulse("recorder"), stuck: map[int64]bool{},
		changes: pages{most: e.bounds.Recorder.Page, work: make(chan struct{}, 1)},
		unnamed: pages{most: e.bounds.Recorder.Names, work: make(chan struct{}, 1)},
	}
}

func (p *pages) add(changes ...core.Change) {
	p.mu.Lock()
	p.queue = append(p.queue, changes...)
	p.mu.Unlock()
	p.wake()
}

// close lets run return once the queue is empty.
func (p *pages) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wake()
}

func (p *pages) wake() {
	select {
	case p.work <- struct{}{}:
	default:
	}
}

func (p *pages) run(handle func([]core.Change)) {
	for range p.work {
		for {
			page, closed := p.take()
			if len(page) == 0 {
				if closed {
					return
				}
				break
			}
			handle(page)
		}
	}
}

func (p *pages) take() (page []core.Change, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.queue), p.most)
	page, p.queue = p.queue[:n:n], p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil
	}
	return page, p.closed
}

// add takes a change in. It never waits.
func (r *recorder) add(c core.Change) { r.changes.add(c) }

// close lets run return once all changes are recorded.
func (r *recorder) close() {
	r.unnamed.close()
	r.changes.close()
}

func (r *recorder) run() { r.changes.run(r.commit) }

// runNames reads the events of changes that wait for that, until close.
func (r *recorder) runNames() {
	r.unnamed.run(func(page []core.Change) {
		r.e.name(page)
		r.changes.add(page...)
	})
}

// commit records one page and tells the core.
func (r *recorder) commit(page []core.Change) {
	e := r.e
	for {
		conf := e.config.Load()
		if page = r.putAside(conf, page); len(page) == 0 {
			return
		}
		e.work(r.pulse)
		n, err := e.record(conf, page, recorded{
			done: func(page []core.Change, changes []store.Change, results []store.Changed) {
				r.failures = 0
				for i := range results {
					e.noteSeal(page[i].Endpoint, results[i].Sealed)
				}
				e.send(core.Recorded{Changes: page, Results: results})
				e.after(page, changes, results)
			},
			stuck: r.park,
		})
		r.pulse.rest()
		page = page[n:]
		if errors.Is(err, store.ErrStale) {
			if err = e.refreshed(context.Background(), conf.version); err == nil {
				continue
			}
		}
		if err != nil {
			r.failures++
			e.log.Error("recording outcomes failed; retrying", "changes", len(page), "err", err)
			e.metrics.recordFailures.Inc()
			e.wait(pause(r.failures))
			e.send(core.Recorded{Changes: page, Err: err})
		}
		return
	}
}

// putAside takes out the changes whose events have to be read first.
func (r *recorder) putAside(conf *configuration, page []core.Change) []core.Change {
	var rest, unnamed []core.Change
	for i := range page {
		if !r.e.nameless(conf, &page[i]) {
			continue
		}
		if unnamed == nil {
			unnamed = make([]core.Change, 0, len(page)-i)
		}
		unnamed = append(unnamed, page[i])
	}
	if unnamed == nil {
		return page
	}
	for i := range page {
		if !r.e.nameless(conf, &page[i]) {
			rest = append(rest, page[i])
		}
	}
	r.unnamed.add(unnamed...)
	return rest
}

// park tries a change again later that the store has refused in every form. Meanwhile its delivery stays as
// it is in the store, and is not attempted. When the engine stops, the change is dropped.
func (r *recorder) park(ch core.Change, err error) {
	e := r.e
	if !r.stuck[ch.Delivery] {
		r.stuck[ch.Delivery] = true
		e.log.Error("delivery cannot be recorded in any form; it is kept from being attempted", "endpoint", ch.Endpoint,
			"delivery", named(&ch), "err", err)
	}
	if ch.Delivery == 0 || e.stopping.Load() {
		e.send(core.Recorded{Changes: []core.Change{ch}, Results: make([]store.Changed, 1)})
		return
	}
	time.AfterFunc(e.bounds.Recorder.Stuck, func() { e.send(core.Recorded{Changes: []core.Change{ch}, Err: err}) })
}

// recorded takes what record makes of a page.
type recorded struct {
	// done gets changes that are durable, as they were written, with the store's answers.
	done func(page []core.Change, changes []store.Change, results []store.Changed)
	// stuck gets a change that the store refuses in every form.
	stuck func(ch core.Change, err error)
}

// record makes changes durable, with the operational events that they cause. It returns how many of them are
// dealt with; an error is about the others. store.ErrStale asks for a newer configuration.
//
// A page that the store refuses for good is halved until the change is found that it refuses, so one bad
// change holds up no others. There is no deadline: whether an outcome is durable must be known, and a
// cancelled commit would leave it open.
func (e *Engine) record(conf *configuration, page []core.Change, to recorded) (int, error) {
	changes, results, err := e.write(conf, page)
	switch {
	case err == nil:
		to.done(page, changes, results)
		return len(page), nil
	case !refused(err):
		return 0, err
	case len(page) == 1:
		return e.salvage(conf, page[0], err, to)
	}
	half := len(page) / 2
	n, err := e.record(conf, page[:half], to)
	if err != nil {
		return n, err
	}
	more, err := e.record(conf, page[half:], to)
	return n + more, err
}

// write makes one transaction of changes.
func (e *Engine) write(conf *configuration, page []core.Change) ([]store.Change, []store.Changed, error) {
	changes := make([]store.Change, len(page))
	for i := range page {
		conf.hush(&page[i])
		changes[i] = page[i].Change
		if changes[i].Lease == nil {
			changes[i].Epoch = e.shards.epoch(page[i].Endpoint)
		}
		changes[i].Tell = conf.tell(&page[i])
	}
	e.pending.begin()
	began := e.admission.begin()
	results, err := e.store.Record(context.Background(), changes)
	e.admission.end(began, err)
	e.pending.end(nil, conf.settled(page, changes, results), err)
	return changes, results, err
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
