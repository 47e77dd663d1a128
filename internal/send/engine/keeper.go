package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// keeper purges old rows and compares the counts of deliveries. It decides nothing about
// deliveries.
type keeper struct {
	store     Store
	now       func() time.Time
	log       *slog.Logger
	keep      *atomic.Pointer[Retention] // changes while it runs
	bounds    RecorderBounds
	over      <-chan struct{}
	sending   context.Context // ends when draining takes too long
	shared    bool            // other nodes use the store as well
	leads     func() bool     // this node does the work that one node does for all
	count     func(context.Context) ([]share, error)
	pending   *pending
	changes   *changeLog
	admission *admission
	metrics   *Metrics
}

// tidy deletes expired answers, recounts pending deliveries if the count is in doubt, and compares
// the counts of deliveries, until the engine stops.
func (k *keeper) tidy() {
	for backoff.Wait(k.over, k.bounds.Tidy) {
		k.changes.count()
		if k.shared {
			k.pending.doubt() // other nodes write as well
		}
		err := k.pending.recount(func() ([]share, error) { return k.count(k.sending) })
		if err != nil && k.sending.Err() == nil {
			k.log.Error("counting pending deliveries failed; retrying", "err", err)
		}
		k.clear("deleting expired answers", func() (int, error) { return k.store.Forget(k.sending, k.now(), k.bounds.Forget) })
		k.clear("deleting the hashes of old requests", k.unlearn)
		if k.leads() {
			k.balance()
		} else {
			k.metrics.imbalance.Set(0) // the node that counts now says more
		}
	}
}

// clear deletes page after page until one has fewer than Forget rows, while this node leads.
func (k *keeper) clear(what string, page func() (int, error)) {
	for k.leads() {
		n, err := page()
		if err != nil && k.sending.Err() == nil {
			k.log.Error(what+" failed; retrying", "err", err)
		}
		if err != nil || n < k.bounds.Forget {
			return
		}
	}
}

// unlearn deletes a page of the hashes by which requests are deduplicated, once their sources'
// windows have ended, and of requests set aside for longer than the retention.
func (k *keeper) unlearn() (int, error) {
	now := k.now()
	var before time.Time
	if keep := k.keep.Load(); keep.For > 0 {
		before = now.Add(-keep.For)
	}
	return k.store.Unlearn(k.sending, now, before, k.bounds.Forget)
}

// balance compares the created deliveries with the pending, finished and purged ones.
func (k *keeper) balance() {
	off, err := k.store.Imbalance(k.sending)
	switch {
	case err != nil && k.sending.Err() == nil:
		k.log.Error("comparing the counts of deliveries failed; retrying", "err", err)
	case err != nil:
	default:
		k.metrics.balanced(off)
		if off != 0 {
			k.log.Error("counts of deliveries differ: created ones are not the sum of pending, finished and purged ones", "difference", off)
		}
	}
}

// purge deletes rows after their retention, until the engine stops.
func (k *keeper) purge() {
	if k.keep.Load().For <= 0 {
		return // as only tests have it
	}
	for backoff.Wait(k.over, k.keep.Load().every()) {
		if k.leads() {
			k.purgeOnce()
		}
	}
}

// purgeOnce deletes all rows that are old now.
func (k *keeper) purgeOnce() {
	is := k.keep.Load()
	r := round{keeper: k, is: is, keep: store.Keep{Now: k.now(), For: is.For, Rules: is.Rules, Slack: wholeDays}, page: k.bounds.LeastPage}
	longest := is.longest()
	old := store.Clearing{Replays: r.keep.Now.Add(-longest), Audit: r.keep.Now.Add(-max(longest, auditKept))}
	// These come first, because Purge also truncates the log, which would otherwise still hold
	// these rows.
	if n := r.all(func(page int) (int, error) { return k.store.Clear(k.sending, old, page) }); n > 0 {
		k.log.Info("old replays and audit entries deleted", "deleted", n)
	}
	for _, d := range documentsKept {
		if n := r.all(func(page int) (int, error) {
			return k.store.ClearDocuments(k.sending, d.kind, r.keep.Now.Add(-d.span), page)
		}); n > 0 {
			k.log.Info("old documents deleted", "kind", d.kind, "deleted", n)
		}
	}
	if n := r.all(func(page int) (int, error) {
		n, err := k.store.Purge(k.sending, r.keep, page)
		k.metrics.purged.Add(float64(n))
		return n, err
	}); n > 0 && !k.isOver() {
		k.log.Info("old deliveries purged", "deliveries", n, "took", k.now().Sub(r.keep.Now))
	}
}

func (k *keeper) isOver() bool {
	select {
	case <-k.over:
		return true
	default:
		return false
	}
}

// round is one round of purging.
type round struct {
	keeper *keeper
	is     *Retention
	keep   store.Keep // the same; its Now is the start of the round
	page   int
}

// all deletes page after page until one is not full, or the engine stops, and returns the number of
// deleted rows.
func (r *round) all(remove func(page int) (int, error)) (removed int) {
	k := r.keeper
	for failures := 0; !k.isOver(); {
		if !k.admission.calm() {
			backoff.Wait(k.over, busyPause)
			continue
		}
		at := k.admission.clock()
		n, err := remove(r.page)
		took := k.admission.clock().Sub(at)
		removed += n
		switch {
		case err != nil && k.sending.Err() != nil:
			return removed
		case err != nil:
			if failures++; backoff.Tells(failures) {
				k.log.Error("purge failed; retrying", "failures", failures, "err", err)
			}
			backoff.Wait(k.over, backoff.Store.After(failures))
			continue
		case n < r.page:
			return removed
		}
		failures = 0
		if took > longPage {
			r.page = max(r.page/2, k.bounds.LeastPage)
		} else if took < shortPage {
			r.page = max(min(r.page*2, k.bounds.MostPage), k.bounds.LeastPage)
		}
		backoff.Wait(k.over, r.is.pause(took, k.now().Sub(r.keep.Now)))
	}
	return removed
}
