package queue

import (
	"cmp"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Labels returns the label of each queue, as the queues are now.
func (r *Broker) Labels() map[string]string {
	all := r.engine.Queues(store.Everyone())
	slices.SortFunc(all, func(a, b grapnel.Endpoint) int { return cmp.Compare(a.ID, b.ID) })
	of, named := make(map[string]string, len(all)), map[string]bool{OtherQueues: true}
	for i := range all {
		label := OtherQueues
		if i < r.bounds.Labels {
			label = all[i].Queue.Name
		}
		of[all[i].ID], named[label] = label, true
	}
	r.labels.mu.Lock()
	defer r.labels.mu.Unlock()
	for label := range named {
		r.metrics.begin(label)
	}
	for _, label := range r.labels.of {
		if !named[label] {
			r.metrics.forget(label)
		}
	}
	r.labels.of = of
	return of
}

// label is the label of one queue. A queue that was created since the last look is a reason to look
// again; one that was deleted counts with the others.
func (r *Broker) label(id string) string {
	r.labels.mu.Lock()
	label, known := r.labels.of[id]
	r.labels.mu.Unlock()
	if !known {
		label = r.Labels()[id]
	}
	return cmp.Or(label, OtherQueues)
}
