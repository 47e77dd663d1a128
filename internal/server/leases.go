package server

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api"
	"github.com/grapnelhq/grapnel/internal/queue"
	"github.com/grapnelhq/grapnel/internal/store"
)

// counter is where consumers of a cell are served. At home, with a key that is bound to no tenant, leases of all cells are settled: such a key gets
// messages from any of them, nothing about a lease says from which, and several are settled in one request.
type counter struct {
	*queue.Room
	others []*cell
}

// counter is the one of a cell.
func (c *cell) counter(s *Server) api.Queues {
	if c != s.cells[0] || len(s.cells) == 1 {
		return c.queues
	}
	return counter{c.queues, s.cells[1:]}
}

// SettleAll settles what home knows, and what it does not where it is known.
func (q counter) SettleAll(ctx context.Context, scope store.Scope, list []queue.Settlement) []error {
	errs := q.Room.SettleAll(ctx, scope, list)
	if _, one := scope.One(); one {
		return errs
	}
	for _, c := range q.others {
		var left []queue.Settlement
		var of []int // the settlement that each is
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

// Extend lets a lease end later, whichever cell's it is.
func (q counter) Extend(ctx context.Context, scope store.Scope, token string, by time.Duration) (lease grapnel.Lease, err error) {
	rooms := []*queue.Room{q.Room}
	if _, one := scope.One(); !one {
		for _, c := range q.others {
			rooms = append(rooms, c.queues)
		}
	}
	for _, room := range rooms {
		if lease, err = room.Extend(ctx, scope, token, by); grapnel.CodeOf(err) != grapnel.CodeConflict {
			break
		}
	}
	return lease, err
}
