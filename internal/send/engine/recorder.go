package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// recorder commits changes in the order in which the core asked for them, all that are queued at
// once.
//
// A change that causes operational events, and whose event is not in memory, takes a detour: a
// second goroutine reads the events of many such changes at once and returns them. So the recorder
// itself reads nothing. Other changes may overtake one on this detour. That is safe because two
// changes of one delivery never meet there: the core has at most one change of a delivery in
// progress.
type recorder struct {
	store     Store
	book      *configuration.Book
	log       *slog.Logger
	bounds    RecorderBounds
	over      <-chan struct{}
	namer     namer
	pending   *pending
	admission *admission
	metrics   *Metrics

	epoch    func(endpoint string) int64 // of this node's ownership of an endpoint
	stopping func() bool                 // the engine was told to stop
	send     func(core.Input) bool       // to the core
	applied  func(page []core.Change, changes []store.Change, results []store.Changed)

	changes  pages // to be committed
	unnamed  pages // changes whose events are read first
	failures int   // commits that failed in a row; used by the goroutine of run alone
	stuck    map[int64]bool
	spare    sync.Pool // of *[]store.Change
	pulse    *ownership.Pulse
}

// pages is a queue of changes that one goroutine takes a page at a time. A page of patient changes
// waits for others.
type pages struct {
	most   int // changes in a page
	bounds *RecorderBounds
	mu     sync.Mutex
	queue  []core.Change
	closed bool
	work   chan struct{} // holds a token after the queue has changed
}

func newPages(most int, b *RecorderBounds) pages {
	return pages{most: most, bounds: b, work: make(chan struct{}, 1)}
}

func (p *pages) add(changes ...core.Change) {
	p.mu.Lock()
	p.queue = append(p.queue, changes...)
	p.mu.Unlock()
	token(p.work)
}

// close makes run return once the queue is empty.
func (p *pages) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	token(p.work)
}

func (p *pages) run(handle func([]core.Change)) {
	for range p.work {
		for {
			p.gather()
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

// gather waits for further changes while those in the queue are few and patient.
func (p *pages) gather() {
	if !p.waits() {
		return
	}
	timer := time.NewTimer(p.bounds.Patience)
	defer timer.Stop()
	for p.waits() {
		select {
		case <-p.work:
		case <-timer.C:
			return
		}
	}
}

func (p *pages) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.queue); n == 0 || n >= p.bounds.Crowd || p.closed {
		return false
	}
	for i := range p.queue { // a change is large, so it is not copied
		if !p.queue[i].Patient {
			return false
		}
	}
	return true
}

// take copies a page, because the core gets it: the memory of the queue is used again.
func (p *pages) take() (page []core.Change, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	page = slices.Clone(p.queue[:min(len(p.queue), p.most)])
	p.queue = slices.Delete(p.queue, 0, len(page))
	if len(p.queue) == 0 && cap(p.queue) > p.most {
		p.queue = nil
	}
	return page, p.closed
}

// add queues a change. It never blocks.
func (r *recorder) add(c *core.Change) { r.changes.add(*c) }

// close makes run return once all changes are recorded.
func (r *recorder) close() {
	r.unnamed.close()
	r.changes.close()
}

func (r *recorder) run() { r.changes.run(r.commit) }

// runNames reads the events of the changes in unnamed, until close.
func (r *recorder) runNames() {
	r.unnamed.run(func(page []core.Change) {
		r.namer.name(page)
		r.changes.add(page...)
	})
}

// commit records one page and reports the results to the core.
func (r *recorder) commit(page []core.Change) {
	for {
		conf := r.book.Snapshot()
		if page = r.putAside(conf, page); len(page) == 0 {
			return
		}
		n, err := r.record(conf, page, recorded{
			begins: r.pulse.Work,
			done: func(page []core.Change, changes []store.Change, results []store.Changed) {
				r.failures = 0
				r.send(core.Recorded{Changes: page, Results: results})
				r.applied(page, changes, results)
			},
			stuck: r.park,
		})
		r.pulse.Rest()
		page = page[n:]
		if errors.Is(err, store.ErrStale) {
			if err = r.book.Refreshed(context.Background(), conf.Version); err == nil {
				continue
			}
		}
		if err != nil {
			r.failures++
			if backoff.Tells(r.failures) {
				r.log.Error("recording outcomes failed; retrying", "changes", len(page), "failures", r.failures, "err", err)
			}
			r.metrics.recordFailures.Inc()
			backoff.Wait(r.over, backoff.Steps{First: backoff.Store.First, Longest: r.bounds.Retry}.After(r.failures))
			r.send(core.Recorded{Changes: page, Err: err})
		}
		return
	}
}

// putAside moves the changes whose events have to be read first to unnamed.
func (r *recorder) putAside(conf *configuration.Snapshot, page []core.Change) []core.Change {
	var rest, unnamed []core.Change
	for i := range page {
		if !nameless(conf, &page[i]) {
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
		if !nameless(conf, &page[i]) {
			rest = append(rest, page[i])
		}
	}
	r.unnamed.add(unnamed...)
	return rest
}

// park retries a change later that the store has refused in every form. Until then the delivery's
// row stays as it is, and the delivery is not attempted. When the engine stops, the change is
// dropped.
func (r *recorder) park(ch core.Change, err error) {
	if !r.stuck[ch.Delivery] {
		r.stuck[ch.Delivery] = true
		r.log.Error("delivery cannot be recorded in any form; attempts stopped, recording is retried", "endpoint", ch.Endpoint,
			"delivery", named(&ch, r.store.IDs()), "err", err)
	}
	if ch.Delivery == 0 || r.stopping() {
		r.send(core.Recorded{Changes: []core.Change{ch}, Results: make([]store.Changed, 1)})
		return
	}
	time.AfterFunc(r.bounds.Stuck, func() { r.send(core.Recorded{Changes: []core.Change{ch}, Err: err}) })
}

// recorded receives the results of record.
type recorded struct {
	begins func() // called before each commit
	// done gets changes that are durable, as they were written, with the store's answers. The form in
	// which they were written is used again when it returns.
	done func(page []core.Change, changes []store.Change, results []store.Changed)
	// stuck gets a change that the store refuses in every form.
	stuck func(ch core.Change, err error)
}

// record commits changes, with the operational events that they cause. It returns the number of
// changes that are done; an error is about the others. store.ErrStale asks for a newer
// configuration.
//
// A page that the store refuses for good is halved until the refused change is found, so one bad
// change delays no others. There is no deadline: a cancelled commit would leave unknown whether an
// outcome is durable.
func (r *recorder) record(conf *configuration.Snapshot, page []core.Change, to recorded) (int, error) {
	to.begins()
	changes, results, err := r.write(conf, page)
	switch {
	case err == nil:
		to.done(page, changes, results)
		clear(changes)
		r.spare.Put(&changes)
		return len(page), nil
	case !refused(err):
		return 0, err
	case len(page) == 1:
		return r.isolate(conf, page[0], err, to)
	}
	half := len(page) / 2
	n, err := r.record(conf, page[:half], to)
	if err != nil {
		return n, err
	}
	more, err := r.record(conf, page[half:], to)
	return n + more, err
}

// write commits changes in one transaction.
func (r *recorder) write(conf *configuration.Snapshot, page []core.Change) ([]store.Change, []store.Changed, error) {
	var changes []store.Change
	if spare, is := r.spare.Get().(*[]store.Change); is {
		changes = *spare
	}
	changes = slices.Grow(changes[:0], len(page))[:len(page)]
	for i := range page {
		hush(conf, &page[i])
		changes[i] = page[i].Change
		if changes[i].Lease == nil {
			changes[i].Epoch = r.epoch(page[i].Endpoint)
		}
		changes[i].Operational = operationalOfChange(conf, &page[i], r.store.IDs())
	}
	r.pending.begin()
	began := r.admission.begin()
	results, err := r.store.Record(context.Background(), changes)
	r.admission.end(began, err)
	r.pending.end(nil, settled(conf, page, changes, results), err)
	return changes, results, err
}

// settled is the change in pending deliveries: one less for each that finished, more for
// operational events.
func settled(c *configuration.Snapshot, page []core.Change, changes []store.Change, results []store.Changed) (shares []share) {
	for i := range results {
		if !results[i].Applied {
			continue
		}
		if ep := c.At(page[i].Endpoint); ep != nil && page[i].Status.Final() {
			shares = plus(shares, ep.Tenant, -1)
		}
		if told := results[i].Operational; told != nil {
			shares = made(shares, changes[i].Operational.Events, *told)
		}
	}
	return shares
}

// settle records the outcomes of leases, with the operational events they cause. A change that did
// not apply had no effect: its lease had expired, or was settled already.
func (r *recorder) settle(ctx context.Context, changes []core.Change) ([]store.Changed, error) {
	all := make([]store.Changed, 0, len(changes))
	for {
		conf := r.book.Snapshot()
		if slices.ContainsFunc(changes, func(ch core.Change) bool { return nameless(conf, &ch) }) {
			changes = slices.Clone(changes)
			r.namer.name(changes)
		}
		_, err := r.record(conf, changes[len(all):], recorded{
			begins: func() {},
			done: func(page []core.Change, is []store.Change, results []store.Changed) {
				r.applied(page, is, results)
				all = append(all, results...)
			},
			stuck: func(ch core.Change, err error) {
				r.log.Error("lease cannot be recorded in any form; it stays until it expires", "endpoint", ch.Endpoint,
					"delivery", named(&ch, r.store.IDs()), "err", err)
				all = append(all, store.Changed{})
			},
		})
		if errors.Is(err, store.ErrStale) {
			if err = r.book.Refreshed(context.WithoutCancel(ctx), conf.Version); err == nil {
				continue
			}
		}
		if err != nil {
			r.metrics.recordFailures.Inc()
			return nil, err
		}
		return all, nil
	}
}

// isolate records a part of a change that the store refuses: the outcome without its texts; else
// that the delivery failed; else that without its operational event.
func (r *recorder) isolate(conf *configuration.Snapshot, ch core.Change, cause error, to recorded) (int, error) {
	forms := []core.Change{textless(ch)}
	if ch.Delivery != 0 {
		end := ended(ch)
		untold := end
		untold.News = nil
		forms = append(forms, end, untold)
	}
	last := cause
	for _, form := range forms {
		page := []core.Change{form}
		to.begins()
		changes, results, err := r.write(conf, page)
		if err == nil {
			r.metrics.damaged.Inc()
			r.log.Error("outcome refused by the store; recorded in a shorter form", "endpoint", ch.Endpoint, "delivery", named(&ch, r.store.IDs()),
				"status", string(form.Status), "reason_code", string(form.ReasonCode), "err", cause)
			to.done(page, changes, results)
			return 1, nil
		}
		if !refused(err) {
			return 0, err
		}
		last = err
	}
	to.stuck(ch, last)
	return 1, nil
}
