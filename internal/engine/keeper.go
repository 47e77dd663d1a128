package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/grapnelhq/grapnel/internal/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// keeper purges old rows and compares the counts of deliveries. It decides nothing about
// deliveries.
type keeper struct {
	store     Store
	now       func() time.Time
	log       *slog.Logger
	keep      Retention
	bounds    RecorderBounds
	over      <-chan struct{}
	sending   context.Context // ends when draining takes too long
	shared    bool            // other nodes use the store as well
	leads     func() bool     // this node does the work that one node does for all
	count     func(context.Context) ([]share, error)
	pending   *pending
	incidents *incidents
	admission *admission
	metrics   *Metrics
}

// tidy deletes expired answers, recounts pending deliveries if the count is in doubt, and compares
// the counts of deliveries, until the engine stops.
func (k *keeper) tidy() {
	for backoff.Wait(k.over, k.bounds.Tidy) {
		k.incidents.count()
		if k.shared {
			k.pending.doubt() // other nodes write as well
		}
		err := k.pending.recount(func() ([]share, error) { return k.count(k.sending) })
		if err != nil && k.sending.Err() == nil {
			k.log.Error("counting pending deliveries failed; retrying", "err", err)
		}
		for k.leads() {
			n, err := k.store.Forget(k.sending, k.now(), k.bounds.Forget)
			if err != nil && k.sending.Err() == nil {
				k.log.Error("deleting expired answers failed; retrying", "err", err)
			}
			if err != nil || n < k.bounds.Forget {
				break
			}
		}
		if k.leads() {
			k.unlearn()
			k.balance()
		} else {
			k.metrics.imbalance.Set(0) // the node that counts now says more
		}
	}
}

// unlearn deletes the hashes by which requests are deduplicated, once their sources' windows have
// ended, and requests set aside for longer than the retention.
func (k *keeper) unlearn() {
	for {
		now := k.now()
		var before time.Time
		if k.keep.For > 0 {
			before = now.Add(-k.keep.For)
		}
		n, err := k.store.Unlearn(k.sending, now, before, k.bounds.Forget)
		if err != nil && k.sending.Err() == nil {
			k.log.Error("deleting the hashes of old requests failed; retrying", "err", err)
		}
		if err != nil || n < k.bounds.Forget {
			return
		}
	}
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
	if k.keep.For <= 0 {
		return
	}
	for backoff.Wait(k.over, k.keep.every()) {
		if k.leads() {
			k.purgeOnce()
		}
	}
}

// purgeOnce deletes all rows that are old now.
func (k *keeper) purgeOnce() {
	r := round{keeper: k, keep: store.Keep{Now: k.now(), For: k.keep.For, Rules: k.keep.Rules, Slack: wholeDays}, page: k.bounds.LeastPage}
	longest := k.keep.longest()
	old := store.Clearing{Replays: r.keep.Now.Add(-longest), Audit: r.keep.Now.Add(-max(longest, auditKept))}
	// These come first, because Purge also truncates the log, which would otherwise still hold
	// these rows.
	if r.all(func(page int) (int, error) { return k.store.Clear(k.sending, old, page) }); r.removed > 0 {
		k.log.Info("old replays and audit entries deleted", "deleted", r.removed)
	}
	for _, d := range documentsKept {
		r.removed = 0
		r.all(func(page int) (int, error) {
			return k.store.ClearDocuments(k.sending, d.kind, r.keep.Now.Add(-d.span), page)
		})
		if r.removed > 0 {
			k.log.Info("old documents deleted", "kind", d.kind, "deleted", r.removed)
		}
	}
	r.removed = 0
	r.all(func(page int) (int, error) {
		n, err := k.store.Purge(k.sending, r.keep, page)
		k.metrics.purged.Add(float64(n))
		return n, err
	})
	if r.removed > 0 && !k.isOver() {
		k.log.Info("old deliveries purged", "deliveries", r.removed, "took", k.now().Sub(r.keep.Now))
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
	keeper  *keeper
	keep    store.Keep // its Now is the start of the round
	page    int
	removed int
}

// all deletes page after page until one is not full, or the engine stops.
func (r *round) all(remove func(page int) (int, error)) {
	k := r.keeper
	for failures := 0; !k.isOver(); {
		if !k.admission.calm() {
			backoff.Wait(k.over, busyPause)
			continue
		}
		at := k.admission.clock()
		n, err := remove(r.page)
		took := k.admission.clock().Sub(at)
		r.removed += n
		switch {
		case err != nil && k.sending.Err() != nil:
			return
		case err != nil:
			failures++
			k.log.Error("purge failed; retrying", "err", err)
			backoff.Wait(k.over, backoff.Store.After(failures))
			continue
		case n < r.page:
			return
		}
		failures = 0
		if took > longPage {
			r.page = max(r.page/2, k.bounds.LeastPage)
		} else if took < shortPage {
			r.page = max(min(r.page*2, k.bounds.MostPage), k.bounds.LeastPage)
		}
		backoff.Wait(k.over, k.keep.pause(took, k.now().Sub(r.keep.Now)))
	}
}
