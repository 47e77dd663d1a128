//go:build linux && prove

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// trouble is a fault of the network between nodes and their database.
type trouble struct {
	name  string
	short bool // also part of the normal run
	one   bool // hits the first node only; else all
	blind bool // while it lasts, the nodes it hits cannot commit
	plan  plan
	// does makes the trouble and returns at its end: from then on every node can reach a writable
	// database by a new connection.
	does func(ctx context.Context, c *cluster, of []*pgtest.Proxy)
}

// lasting is a trouble that begins with turn(true) and ends with turn(false). It is shorter in the
// normal run.
func lasting(d time.Duration, turn func(*pgtest.Proxy, bool)) func(context.Context, *cluster, []*pgtest.Proxy) {
	return func(ctx context.Context, _ *cluster, of []*pgtest.Proxy) {
		for _, p := range of {
			turn(p, true)
		}
		if !soak() {
			d = min(d, backWithin+2*time.Second)
		}
		pause(ctx, d)
		for _, p := range of {
			turn(p, false)
		}
	}
}

func halfOpen(_ context.Context, _ *cluster, of []*pgtest.Proxy) {
	for _, p := range of {
		p.Freeze()
	}
}

// vanish silences the primary's host and promotes the standby, which nodes know as well.
func vanish(ctx context.Context, c *cluster, of []*pgtest.Proxy) {
	for _, p := range of {
		p.Blackhole(true)
	}
	c.standby.Link.Blackhole(true)
	pause(ctx, 3*time.Second)
	c.must(c.standby.Promote(ctx))
}

// hiccups resets all connections again and again.
func hiccups(ctx context.Context, c *cluster, of []*pgtest.Proxy) {
	for range 60 {
		of[c.dice.n(len(of))].Reset()
		pause(ctx, c.dice.between(50*time.Millisecond, 500*time.Millisecond))
	}
}

func stopped(ctx context.Context, c *cluster, _ []*pgtest.Proxy) {
	_, err := c.db.Suspend()
	c.must(err)
	pause(ctx, 20*time.Second)
	c.must(c.db.Resume())
}

// latency is to the short leases here as 100 ms each way is to a lease of 15 s.
func latency(p *pgtest.Proxy, on bool) {
	if on {
		p.Latency(leaseHere / 150)
	} else {
		p.Latency(0)
	}
}

// After each trouble every acknowledged event is delivered, once and in order, within some leases.
// No node is ready while it cannot commit. Once a database can be reached, events are acknowledged
// and nodes are ready again within a lease and some seconds.
func TestNetworkFaults(t *testing.T) {
	t.Parallel()
	for _, x := range []trouble{
		{name: "half-open", short: true, does: halfOpen},
		{name: "half-open for one node", one: true, does: halfOpen},
		{name: "one node without database", short: true, one: true, blind: true, does: lasting(30*time.Second, (*pgtest.Proxy).Blackhole)},
		{name: "blackhole", blind: true, does: lasting(20*time.Second, (*pgtest.Proxy).Blackhole)},
		{name: "stall", blind: true, does: lasting(20*time.Second, (*pgtest.Proxy).Stall)},
		{name: "stall for one node", one: true, blind: true, does: lasting(20*time.Second, (*pgtest.Proxy).Stall)},
		{name: "refused", blind: true, does: lasting(20*time.Second, (*pgtest.Proxy).Cut)},
		{name: "latency", does: lasting(15*time.Second, latency)},
		{name: "answers thrown away", blind: true, does: lasting(15*time.Second, (*pgtest.Proxy).Mute)},
		{name: "resets", does: hiccups},
		{name: "database stopped", blind: true, does: stopped},
		{name: "silent primary", plan: plan{sync: true, both: true}, blind: true, does: vanish},
	} {
		if x.short || soak() {
			t.Run(x.name, func(t *testing.T) {
				beside(t, heavy)
				x.test(t)
			})
		}
	}
}

func (x trouble) test(t *testing.T) {
	c := failing(t, x.plan)
	victims, name := c.proxies, ""
	if x.one {
		victims, name = c.proxies[:1], c.nodes[0].name()
	}
	var began, over, end time.Duration
	c.under(6, func(ctx context.Context) {
		c.published(100)
		c.during(history.CommitUnknown, name, func() {
			began = c.ledger.now()
			x.does(ctx, c, victims)
			over = c.ledger.now()
			after(ctx)
			end = c.ledger.now()
		})
	})
	from := began
	if x.blind && !x.one {
		from = over
	}
	c.acknowledges(from, end)
	for i := range c.nodes {
		switch {
		case i >= len(victims):
			c.serves(i, began, end)
		default:
			c.serves(i, over, end)
			if x.blind && over-began > backWithin {
				c.refuses(i, began+backWithin, over)
			}
		}
	}
	c.sentence()
}
