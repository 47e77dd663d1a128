package server

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api"
	"github.com/grapnelhq/grapnel/internal/queue"
	"github.com/grapnelhq/grapnel/internal/store"
)

// counter serves consumers of a cell. At home, a key that is bound to no tenant settles leases of
// all cells: it gets messages from any of them, a lease does not name its cell, and one request
// settles several leases.
type counter struct {
	*queue.Broker
	others []*cell
}

// counter returns the counter of a cell.
func (c *cell) counter(s *Server) api.Queues {
	if c != s.cells[0] || len(s.cells) == 1 {
		return c.queues
	}
	return counter{c.queues, s.cells[1:]}
}

// SettleAll settles home's leases and passes unknown ones to the other cells.
func (q counter) SettleAll(ctx context.Context, scope store.Scope, list []queue.Settlement) []error {
	errs := q.Broker.SettleAll(ctx, scope, list)
	if _, one := scope.One(); one {
		return errs
	}
	for _, c := range q.others {
		var left []queue.Settlement
		var of []int // index of each settlement in list
		for i, err := range errs {
			if grapnel.CodeOf(err) == grapnel.CodeConflict {
				left, of = append(left, list[i]), append(of, i)
			}
		}
		if len(left) == 0 {
			break
		}
		for n, err := range c.queues.SettleAll(ctx, scope, left) {
			errs[of[n]] = err
		}
	}
	return errs
}

// Extend extends a lease of any cell.
func (q counter) Extend(ctx context.Context, scope store.Scope, token string, by time.Duration) (lease grapnel.Lease, err error) {
	brokers := []*queue.Broker{q.Broker}
	if _, one := scope.One(); !one {
		for _, c := range q.others {
			brokers = append(brokers, c.queues)
		}
	}
	for _, broker := range brokers {
		if lease, err = broker.Extend(ctx, scope, token, by); grapnel.CodeOf(err) != grapnel.CodeConflict {
			break
		}
	}
	return lease, err
}
