package engine

import (
	"context"
	"iter"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/ownership"
	"github.com/grapnelhq/grapnel/internal/store"
)

// env is the part of the engine that its shards need.
func (e *Engine) env() ownership.Env {
	return ownership.Env{
		Now: e.now, Log: e.log, Over: e.over, Sending: e.sending, Watchdog: &e.watchdog,
		Between: func(ctx context.Context, do func()) error {
			return e.await(ctx, input{ask: func(*core.Core, time.Time) { do() }})
		},
		Leave: func(endpoint string) { e.step(core.Leave{Endpoint: endpoint}) },
		Configure: func(ep *grapnel.Endpoint, newest int64, st store.Standing) {
			e.metrics.stands(&st)
			e.step(core.Configured{Endpoint: ep, Newest: newest, Standing: st})
		},
		Endpoints: func() iter.Seq2[*grapnel.Endpoint, bool] {
			conf := e.Snapshot()
			return func(yield func(*grapnel.Endpoint, bool) bool) {
				for _, ep := range conf.Endpoints() {
					if !yield(&ep.Endpoint, conf.Open(ep.Tenant)) {
						return
					}
				}
			}
		},
		CatchUp: func(ctx context.Context) error { return e.Book.CatchUp(ctx) },
		Newest: func(ctx context.Context) (int64, error) {
			_, newest, err := e.Book.StoreVersion(ctx)
			return newest, err
		},
		Standings: e.readStandings,
		Operate:   e.Operate,
		Accepted:  func(heads []store.Head) { e.Hinted(e.Snapshot().Pulled(heads)) },
	}
}

// Shards returns the endpoints that this node owns; nil: no other node uses the store, and this
// node owns all.
func (e *Engine) Shards() *ownership.Shards { return e.shards }

// Hinted takes hints from another node.
func (e *Engine) Hinted(heads []store.Head, queues []string) {
	e.rouse(queues)
	if len(heads) > 0 {
		e.send(core.Arrived{Heads: heads})
	}
}
