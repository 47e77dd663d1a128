package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// settler makes the core have the endpoints that this node owns, as they are configured.
type settler struct {
	store  Store
	book   *configuration.Book
	shards *ownership.Shards
	inputs *inputs
	step   func(core.Input) // gives the core an input; only for functions that inputs.ask calls
	// drops from memory what parts know of a tenant that was deleted
	gone func(ctx context.Context, tenant string) error

	// endpoints that the core leaves because another node removed them
	removed sync.Map
}

// Decides says whether this node owns an endpoint. The owner of the shard also answers true for an
// endpoint that was removed, so exactly one node reports on it.
func (t *settler) Decides(endpoint string) bool { return t.shards.Owns(endpoint) }

// settle configures in the core the endpoints that differ between two configurations, and returns
// the queues whose consumers have to claim again. An engine that has ended attempts nothing, so
// every change has taken effect there.
func (t *settler) settle(ctx context.Context, before, conf *configuration.Snapshot) (queues []string, err error) {
	for _, tenant := range conf.Gone(before) {
		if err := t.gone(ctx, tenant); err != nil {
			return nil, err
		}
	}
	changed, removed, queues := conf.Differs(before)
	if len(changed)+len(removed) == 0 {
		return queues, nil
	}
	err = t.inputs.ask(ctx, func(c *core.Core, _ time.Time) {
		for _, id := range removed {
			if c.Has(id) { // another node has removed it while this one stood still: nothing else leaves it
				t.removed.Store(id, true)
				t.step(core.Leave{Endpoint: id})
			}
		}
		for _, ep := range changed {
			// Another node owns the other endpoints. The node that takes the shard reads the newest
			// configuration then.
			if t.shards.Has(ep.ID) {
				t.step(core.Configured{Endpoint: ep, Newest: conf.Newest})
			}
		}
	})
	if errors.Is(err, errStopping) {
		err = nil
	}
	return queues, err
}

// readStandings reads the recorded standings of all endpoints.
func (t *settler) readStandings(ctx context.Context) (map[string]store.Standing, error) {
	all, err := store.Within(ctx, func() ([]store.Standing, error) { return t.store.Standings(ctx) })
	standings := make(map[string]store.Standing, len(all))
	for i := range all {
		standings[all[i].Endpoint] = all[i]
	}
	return standings, err
}

// left reports that the core has left an endpoint. If that was because another node had removed
// it, the shard stays this node's.
func (t *settler) left(endpoint string) {
	_, removed := t.removed.LoadAndDelete(endpoint)
	t.shards.Left(endpoint, !removed)
}
