//go:build linux && prove

package e2e

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// failing is a cluster of three nodes and two tenants whose database is about to fail.
func failing(t *testing.T, p plan) *cluster {
	t.Helper()
	p.targets, p.standby = twoTenants, p.standby || p.sync || p.both
	c := planned(t, 3, p)
	c.load.tenants, c.load.fresh, c.load.every = []string{"red", "blue"}, true, 80*time.Millisecond
	c.load.patient = leaseHere // a publisher that hangs at one node must not hide the others
	c.observe(t)
	return c
}

// must ends the test if a step of the harness itself failed.
func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// published waits until the given number of further events is acknowledged.
func (c *cluster) published(more int64) {
	c.t.Helper()
	from := c.load.accepted.Load()
	eventually(c.t, time.Minute, "enough events are acknowledged", func() bool { return c.load.accepted.Load() >= from+more })
}

// move directs all nodes' new connections to another server.
func (c *cluster) move(to *pgtest.Server) {
	for _, p := range c.proxies {
		p.Point(to)
	}
}

// lost records that the database has lost its commits from a moment until now, and that commits are
// uncertain until some time later.
func (c *cluster) lost(since time.Duration) {
	c.ledger.write(entry{Fault: &history.Fault{Kind: history.Rewind, Start: since, End: c.ledger.now()}})
}

// doubt records that from a moment until now no node could know whether a commit succeeded.
func (c *cluster) doubt(since time.Duration) {
	fault := history.Fault{Kind: history.CommitUnknown, Start: since, End: c.ledger.now()}
	c.ledger.write(entry{Fault: &fault})
	c.faults = append(c.faults, fault)
}

// after is how long a short and a long test observe the time after a fault.
func after(ctx context.Context) {
	if soak() {
		pause(ctx, 5*backWithin)
	} else {
		pause(ctx, backWithin+2*time.Second)
	}
}

// The primary is killed and its synchronous standby is promoted. No acknowledged event is lost.
func TestFailover(t *testing.T) {
	beside(t, heavy)
	c := failing(t, plan{sync: true})
	c.fails(func(ctx context.Context, _ *time.Duration) *pgtest.Server {
		c.must(c.db.Kill())
		pause(ctx, 2*time.Second)
		c.must(c.standby.Promote(ctx))
		return c.standby.Server
	})
}

// The standby is 200 events behind when the primary is killed and it is promoted. The operator has
// chosen to lose those events. What nodes remember of the lost past must not mix with the new one,
// in which the same row ids belong to other events.
func TestFailoverWithLoss(t *testing.T) {
	beside(t, heavy)
	c := failing(t, plan{standby: true})
	c.loses(func(ctx context.Context, since *time.Duration) *pgtest.Server {
		*since = c.ledger.now()
		c.must(c.standby.CaughtUp(ctx)) // with every acknowledged event before
		c.standby.Link.Stall(true)
		c.published(200)
		c.must(c.db.Kill())
		pause(ctx, 2*time.Second)
		c.must(c.standby.Promote(ctx))
		return c.standby.Server
	})
}

// The operator follows the manual for a standby that may be behind: no node runs while it is
// promoted. The program has little to do here, and the test shows that the judge excuses losses
// with the primary.
func TestFailoverWithLossWhileStopped(t *testing.T) {
	beside(t, heavy)
	c := failing(t, plan{standby: true})
	c.loses(func(ctx context.Context, since *time.Duration) *pgtest.Server {
		*since = c.ledger.now()
		c.must(c.standby.CaughtUp(ctx)) // with every acknowledged event before
		c.standby.Link.Stall(true)
		c.published(200)
		c.must(c.db.Kill())
		for _, p := range c.proxies {
			p.Cut(true)
		}
		for _, node := range c.nodes {
			node.kill() // they are started again at once
		}
		c.must(c.standby.Promote(ctx))
		for _, p := range c.proxies {
			p.Cut(false)
		}
		return c.standby.Server
	})
}

// A copy of the database is restored under running nodes. It has the identity and the timeline that
// they know, and is older.
func TestRestoreUnderRunningNodes(t *testing.T) {
	beside(t, heavy)
	c := failing(t, plan{})
	c.loses(func(ctx context.Context, since *time.Duration) *pgtest.Server {
		*since = c.ledger.now()
		c.must(c.db.Save(ctx))
		c.published(200)
		c.must(c.db.Restore(ctx))
		return c.db
	})
}

// loses is fails for a database that goes back: every commit since the moment that the scenario
// returns is lost.
func (c *cluster) loses(scenario func(ctx context.Context, since *time.Duration) *pgtest.Server) {
	c.t.Helper()
	c.fails(func(ctx context.Context, since *time.Duration) *pgtest.Server {
		next := scenario(ctx, since)
		c.lost(*since)
		return next
	})
}

// fails lets the database fail under load, and judges. The scenario returns the moment since which
// commits are uncertain, and the server that takes over.
func (c *cluster) fails(scenario func(ctx context.Context, since *time.Duration) *pgtest.Server) {
	c.t.Helper()
	var moved, end time.Duration
	c.under(6, func(ctx context.Context) {
		c.published(200)
		since := c.ledger.now()
		next := scenario(ctx, &since)
		c.move(next)
		moved = c.ledger.now()
		pause(ctx, leaseHere)
		c.doubt(since)
		after(ctx)
		end = c.ledger.now()
	})
	c.recovered(moved, end)
	c.sentence()
}

// recovered checks that events were acknowledged and every node was ready from one moment until
// another.
func (c *cluster) recovered(from, to time.Duration) {
	c.t.Helper()
	c.acknowledges(from, to)
	for i := range c.nodes {
		c.serves(i, from, to)
	}
}

// suspicion matches a node's message that it has seen two databases with one identity.
var suspicion = regexp.MustCompile(`(?i)timeline|went back|not the one|another database|second database|two databases|two primaries`)

// The old primary comes back and takes writes beside the promoted standby. One node has connections
// to both: old ones from before its virtual address moved, and new ones. No product can prevent two
// primaries, but that node must notice, and stop acknowledging and sending by one of them.
func TestTwoPrimaries(t *testing.T) {
	beside(t, heavy)
	c := failing(t, plan{standby: true})
	var both, end time.Duration
	c.under(6, func(ctx context.Context) {
		c.published(200)
		since := c.ledger.now()
		c.must(c.standby.CaughtUp(ctx)) // with every acknowledged event before
		c.standby.Link.Stall(true)
		c.must(c.db.Kill())
		c.must(c.standby.Promote(ctx))
		c.proxies[1].Point(c.standby.Server)
		c.proxies[2].Point(c.standby.Server)
		c.must(c.db.Start(ctx))
		c.published(200) // on both sides
		c.proxies[0].Point(c.standby.Server)
		eventually(t, time.Minute, "some connections of the old ones are cut", func() bool { return c.proxies[0].CutSome(2) > 0 })
		// When depends on when it needs a new connection, and on how busy the machine is.
		eventually(t, time.Minute, "the node with connections to two databases says so", func() bool {
			return suspicion.MatchString(c.nodes[0].words(1 << 20))
		})
		pause(ctx, backWithin)
		both = c.ledger.now()
		c.lost(since)
		c.doubt(since)
		after(ctx)
		end = c.ledger.now()
	})
	c.recovered(both, end)
	if n, err := c.db.Ask(t.Context(), "SELECT count(*)::text FROM pg_stat_activity WHERE datname = 'grapnel'"); err != nil || n != "0" {
		t.Errorf("SPLIT: a node that knows the promoted standby still has %s connections to the old primary: %v", n, err)
	}
	c.sentence()
}
