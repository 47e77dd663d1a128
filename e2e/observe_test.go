//go:build linux && prove

package e2e

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// These bounds count from the moment at which the cluster can reach a writable database.
const (
	backWithin = leaseHere + 5*time.Second // until events are acknowledged and nodes are ready again
	overWithin = 10 * leaseHere            // until no acknowledged event is pending, once publishers have stopped
)

// seen is the state of a cluster's nodes as observed from outside.
type seen struct {
	mu       sync.Mutex
	looks    [][]look // per node
	restarts atomic.Int64
	pulse    pulse
}

// look is one answer of /readyz.
type look struct {
	at    time.Duration // when the request was sent
	ready bool
}

// observe records until the end of the test whether nodes are ready. It restarts nodes that end by
// themselves, as a supervisor of processes does.
func (c *cluster) observe(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	c.seen.looks = make([][]look, len(c.nodes))
	primary := c.primary
	if primary == nil {
		primary = c.proxies[len(c.proxies)-1].Target
	}
	all.Go(func() { c.seen.pulse.beat(ctx, c.ledger.now, primary) })
	for i, node := range c.nodes {
		all.Go(func() { c.supervise(ctx, node) })
		all.Go(func() {
			for ctx.Err() == nil {
				at := c.ledger.now()
				ready := node.answers()
				c.seen.mu.Lock()
				c.seen.looks[i] = append(c.seen.looks[i], look{at, ready})
				c.seen.mu.Unlock()
				pause(ctx, 100*time.Millisecond)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		all.Wait()
	})
}

// supervise restarts a node whenever its process has ended. It records each end as a fault, since
// an end has the effects of a crash.
func (c *cluster) supervise(ctx context.Context, node *child) {
	alive := c.ledger.now()
	for ; ctx.Err() == nil; pause(ctx, 20*time.Millisecond) {
		now := c.ledger.now()
		if !node.ended() {
			alive = now
			continue
		}
		c.ledger.write(entry{Fault: &history.Fault{Kind: history.Crash, Node: node.name(), Start: alive, End: now}})
		c.t.Logf("at %v a node ended by itself: %v", now.Round(time.Millisecond), node.current().Err)
		c.seen.restarts.Add(1)
		pause(ctx, 500*time.Millisecond)
		if ctx.Err() == nil {
			node.start()
		}
	}
}

// refuses checks that a node was never ready from one moment to another.
func (c *cluster) refuses(node int, from, to time.Duration) {
	c.t.Helper()
	looks := c.looks(node, from, to)
	ready := len(slices.DeleteFunc(slices.Clone(looks), func(l look) bool { return !l.ready }))
	if seen := len(looks); ready > 0 || seen == 0 {
		c.t.Errorf("READY: from %v to %v, while nothing could be committed, node %d answered %d of %d times that it is ready",
			from.Round(time.Millisecond), to.Round(time.Millisecond), node, ready, seen)
	}
}

// serves checks that a node is ready within the bound after a moment and stays ready until another.
// If the database itself was slow meanwhile, the bound counts from the end of that.
func (c *cluster) serves(node int, healed, to time.Duration) {
	c.t.Helper()
	seen, ready := 0, 0
	for _, l := range c.looks(node, healed+backWithin, to) {
		if l.ready || l.at > c.seen.pulse.since(healed, l.at)+backWithin {
			seen++
			if l.ready {
				ready++
			}
		}
	}
	if ready < seen || seen == 0 {
		c.t.Errorf("NOT_READY: from %v to %v, %v and more after all was healed, node %d answered %d of %d times that it is not ready",
			(healed + backWithin).Round(time.Millisecond), to.Round(time.Millisecond), backWithin, node, seen-ready, seen)
	}
}

// looks are the looks at a node between two moments.
func (c *cluster) looks(node int, from, to time.Duration) []look {
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.seen.looks[node]), func(l look) bool { return l.at < from || l.at > to })
}

// acknowledges checks a time in which a database was writable and quick. Pauses between
// acknowledgements may not exceed the bound.
func (c *cluster) acknowledges(from, to time.Duration) {
	c.t.Helper()
	h, err := c.ledger.read()
	if err != nil {
		c.t.Fatal(err)
	}
	var at []time.Duration
	for _, p := range h.Publishes {
		if p.Result == history.OK && p.Return > from && p.Return < to {
			at = append(at, p.Return)
		}
	}
	slices.Sort(at)
	silence := c.seen.pulse.longest(at, from, to)
	longest, since := silence.to-silence.from, silence.from
	c.t.Logf("between %v and %v the longest time without an acknowledgement was %v", from.Round(time.Millisecond), to.Round(time.Millisecond),
		longest.Round(time.Millisecond))
	if longest > backWithin {
		c.t.Errorf("SILENT: no event was acknowledged for %v from %v on, although a database could be written to",
			longest.Round(time.Millisecond),
			since.Round(time.Millisecond))
	}
}

// sentence waits until all nodes are ready, and judges. A delivery still pending some leases after
// the last event is stuck.
func (c *cluster) sentence() {
	c.t.Helper()
	for i, node := range c.nodes {
		if !poll(context.Background(), overWithin, 100*time.Millisecond, node.answers) {
			c.t.Errorf("NOT_READY: node %d is not ready %v after the end; it is killed, so that the rest can be judged", i, overWithin)
			node.kill()
			eventually(c.t, time.Minute, "the node is ready after a kill", node.answers)
		}
	}
	c.t.Logf("nodes ended by themselves %d times; %s", c.seen.restarts.Load(), &c.seen.pulse)
	healed := c.ledger.now()
	c.convict(c.verdict(overWithin))
	if worked := c.seen.pulse.between(healed, healed+c.quiet); worked > overWithin {
		c.t.Errorf("LATE: %v after the end something still waited", worked)
	}
}
