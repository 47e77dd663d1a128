package sim

import (
	"context"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/store"
)

func newShardBook(c *cluster, n int) *shardBook {
	b := &shardBook{c: c, all: make([]store.Shard, n), until: make([]time.Duration, n), seen: map[string]time.Duration{},
		drains: map[string]bool{}}
	for i := range b.all {
		b.all[i].Number = i
	}
	return b
}

func (b *shardBook) of(endpoint string) int {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(endpoint))
	return int(sum.Sum32()) % len(b.all)
}

// acquire assigns shards that have no owner or an expired lease.
func (b *shardBook) acquire(node string, shards []int) (got []store.Owned) {
	for _, n := range shards {
		s := &b.all[n]
		if s.Owner != "" && b.until[n] >= b.c.agenda.now {
			continue
		}
		if s.Owner != "" {
			b.taken++
		}
		s.Owner, b.until[n] = node, b.c.agenda.now+b.c.lease
		s.Epoch++
		for _, t := range b.c.targets {
			if b.of(t.id) == n {
				b.c.history.Terms = append(b.c.history.Terms, history.Term{Endpoint: t.id, Epoch: s.Epoch, Start: b.c.agenda.now})
			}
		}
		b.c.trace("%s takes shard %d, epoch %d", node, n, s.Epoch)
		got = append(got, store.Owned{Shard: n, Epoch: s.Epoch})
	}
	return got
}

// holds says whether the node is the shard's owner in that epoch.
func (b *shardBook) holds(node string, o store.Owned) bool {
	return b.all[o.Shard].Owner == node && b.all[o.Shard].Epoch == o.Epoch
}

func (b *shardBook) renew(node string, owned []store.Owned) (kept []store.Owned) {
	for _, o := range owned {
		if b.holds(node, o) {
			b.until[o.Shard] = b.c.agenda.now + b.c.lease
			kept = append(kept, o)
		}
	}
	return kept
}

func (b *shardBook) release(node string, owned []store.Owned) {
	for _, o := range owned {
		if b.holds(node, o) {
			b.c.trace("%s gives back shard %d", node, o.Shard)
			b.all[o.Shard].Owner = ""
			b.given++
		}
	}
}

func (b *shardBook) list() []store.Shard {
	all := slices.Clone(b.all)
	for i := range all {
		all[i].Left = b.until[i] - b.c.agenda.now
	}
	return all
}

// beat records a node's heartbeat and returns the live nodes.
func (b *shardBook) beat(node string, draining bool) (there []store.Node) {
	b.seen[node], b.drains[node] = b.c.agenda.now, draining
	for id, at := range b.seen {
		if b.c.agenda.now-at <= b.c.lease/2 {
			there = append(there, store.Node{ID: id, Draining: b.drains[id]})
		}
	}
	slices.SortFunc(there, func(a, b store.Node) int { return strings.Compare(a.ID, b.ID) })
	return there
}

func (b *shardBook) leave(node string) { delete(b.seen, node) }

// fenced says whether the epoch has passed.
func (b *shardBook) fenced(endpoint string, epoch int64) bool {
	if epoch == b.all[b.of(endpoint)].Epoch {
		return false
	}
	b.refused++
	return !b.c.is(IgnoresEpochs)
}

// wrote records a write that had an effect.
func (b *shardBook) wrote(what, endpoint string, epoch int64) {
	if is := b.all[b.of(endpoint)].Epoch; epoch != is {
		b.c.excess("%s of %s was written in epoch %d although it is %d", what, endpoint, epoch, is)
	}
}

// record is store.Record after the check of the epoch.
func (b *shardBook) record(ctx context.Context, endpoints []string, changes []store.Change) ([]store.Changed, error) {
	results := make([]store.Changed, len(changes))
	var pass []store.Change
	var at []int
	for i := range changes {
		if b.fenced(endpoints[i], changes[i].Epoch) {
			results[i].Fenced = true
			continue
		}
		pass, at = append(pass, changes[i]), append(at, i)
	}
	done, err := b.c.model.Record(ctx, pass)
	if err != nil {
		return nil, err
	}
	for i := range done {
		results[at[i]] = done[i]
		if done[i].Applied {
			b.wrote("an outcome", endpoints[at[i]], pass[i].Epoch)
			b.c.note(pass[i].Delivery)
		}
	}
	return results, nil
}

func (b *shardBook) makeDue(ctx context.Context, endpoint string, h store.MakingDue, limit int) (int, error) {
	if b.fenced(endpoint, h.Epoch) {
		return 0, store.ErrFenced
	}
	n, err := b.c.model.MakeDue(ctx, endpoint, h, limit)
	if n > 0 {
		b.wrote("haste", endpoint, h.Epoch)
	}
	return n, err
}

func (b *shardBook) end(ctx context.Context, endpoint string, e store.Ending, limit int) (int, error) {
	if b.fenced(endpoint, e.Epoch) {
		return 0, store.ErrFenced
	}
	n, err := b.c.model.End(ctx, endpoint, e, limit)
	if n > 0 {
		b.wrote("an end", endpoint, e.Epoch)
		for _, d := range b.c.deliveries() {
			if d.EndpointID == endpoint && d.Status.Final() {
				b.c.note(d.Seq)
			}
		}
	}
	return n, err
}

func (m *member) has(endpoint string) bool {
	h := m.held[m.c.shards.of(endpoint)]
	return h != nil && h.leaving == nil
}

// epoch is the epoch for writes about an endpoint.
func (m *member) epoch(endpoint string) int64 {
	if h := m.held[m.c.shards.of(endpoint)]; h != nil {
		return h.epoch
	}
	return -1
}
