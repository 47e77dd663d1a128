package engine

import (
	"context"
	"log/slog"
	"time"
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
	tick := time.NewTicker(k.bounds.Tidy)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-k.over:
			return
		}
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
		k.metrics.imbalance.Set(float64(off))
		if off != 0 {
			k.log.Error("counts of deliveries differ: created ones are not the sum of pending, finished and purged ones", "difference", off)
		}
	}
}
