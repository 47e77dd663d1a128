package queue

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// see notes that a consumer has asked.
func (l *line) see(consumer string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.seen[consumer]; !known && len(l.seen) >= l.broker.bounds.Seen {
		oldest := ""
		for name, at := range l.seen {
			if oldest == "" || at.Before(l.seen[oldest]) {
				oldest = name
			}
		}
		delete(l.seen, oldest)
	}
	l.seen[consumer] = now
}

// Seen lists the consumers that this process has seen at a queue within Bounds.SeenFor.
func (r *Broker) Seen(queue string) (all []grapnel.Consumer) {
	now, l := r.now(), r.line(queue)
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, seen := range l.seen {
		if now.Sub(seen).Abs() > r.bounds.SeenFor { // ahead: by a clock that was set back
			delete(l.seen, name)
			continue
		}
		all = append(all, grapnel.Consumer{Name: name, SeenAt: seen})
	}
	return all
}

// Consumers lists the consumers that any node has seen at a queue, and those that hold leases,
// sorted by name.
func (r *Broker) Consumers(ctx context.Context, queue string) ([]grapnel.Consumer, error) {
	leases, err := r.store.LeaseList(ctx, queue, r.bounds.Counted)
	if err != nil {
		return nil, err
	}
	seen := r.Seen(queue)
	if r.elsewhere != nil {
		seen = append(seen, r.elsewhere(queue)...)
	}
	byName := map[string]grapnel.Consumer{}
	for _, c := range seen {
		if c.SeenAt.After(byName[c.Name].SeenAt) {
			byName[c.Name] = c
		}
	}
	for i := range leases {
		c := byName[leases[i].Consumer]
		c.Name, c.Leased = leases[i].Consumer, c.Leased+1
		if leases[i].GrantedAt.After(c.SeenAt) {
			c.SeenAt = leases[i].GrantedAt
		}
		byName[c.Name] = c
	}
	all := slices.AppendSeq([]grapnel.Consumer{}, maps.Values(byName))
	slices.SortFunc(all, func(a, b grapnel.Consumer) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Counts counts a queue's deliveries by state.
func (r *Broker) Counts(ctx context.Context, queue string) (grapnel.QueueCounts, error) {
	return r.store.QueueCounts(ctx, queue, r.now())
}

// Peek returns the deliveries that a queue would lease next, and later ones, without leasing any. A
// damaged event is nil.
func (r *Broker) Peek(ctx context.Context, queue string, limit int) ([]Waiting, error) {
	heads, err := r.store.Heads(ctx, queue, limit)
	if err != nil {
		return nil, err
	}
	seqs := make([]int64, len(heads))
	for i := range heads {
		seqs[i] = heads[i].Event
	}
	events, err := r.store.Events(ctx, seqs)
	if err != nil {
		return nil, err
	}
	all := make([]Waiting, len(heads))
	for i := range heads {
		all[i] = Waiting{heads[i], events[i]}
	}
	return all, nil
}
