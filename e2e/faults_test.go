//go:build linux && prove

package e2e

import (
	"cmp"
	"context"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// during records a fault that lasts while do runs.
func (c *cluster) during(kind history.FaultKind, node string, do func()) {
	fault := history.Fault{Kind: kind, Node: node, Start: c.ledger.now()}
	do()
	fault.End = c.ledger.now()
	c.ledger.write(entry{Fault: &fault})
	c.faults = append(c.faults, fault)
	c.t.Logf("%s of %s from %v to %v", kind, cmp.Or(node, "all"), fault.Start.Round(time.Millisecond), fault.End.Round(time.Millisecond))
}

// The normal run injects the first of these kinds.
const (
	fewFaults  = 6
	manyFaults = 12
)

// fault injects one fault into a node, or into all, and waits for its end.
func (c *cluster) fault(ctx context.Context, kind int) {
	victim := c.dice.n(len(c.nodes))
	node, proxy := c.nodes[victim], c.proxies[victim]
	name := node.name()
	pause(ctx, c.dice.between(200*time.Millisecond, 1500*time.Millisecond))
	switch kind {
	case 0: // the node dies and is restarted
		c.during(history.Crash, name, node.kill)
		c.kills.Add(1)
		pause(ctx, c.dice.between(0, leaseHere+time.Second)+1)
		node.start()
		node.ready(30 * time.Second)
	case 1: // the node is frozen for longer than its lease, and then continues
		c.during(history.Standstill, name, func() {
			c.signal(node, syscall.SIGSTOP)
			pause(ctx, leaseHere+c.dice.between(time.Second, 2*time.Second))
			c.signal(node, syscall.SIGCONT)
			pause(context.Background(), time.Second)
		})
	case 2: // the node is cut off from the database, but not from the receivers
		c.during(history.Takeover, name, func() {
			proxy.Cut(c.dice.percent(50))
			pause(ctx, leaseHere+c.dice.between(0, 2*time.Second))
			proxy.Cut(false)
			pause(context.Background(), time.Second)
		})
	case 3: // the database dies and is restarted at once
		c.during(history.CommitUnknown, "", func() {
			if err := c.db.Crash(context.Background()); err != nil {
				c.t.Error(err)
			}
		})
	case 4: // all connections end
		c.during(history.CommitUnknown, "", func() {
			if err := c.db.Exec(context.Background(),
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'grapnel'"); err != nil {
				c.t.Error(err)
			}
		})
	case 5: // the answer to a commit is lost
		c.during(history.CommitUnknown, name, func() {
			proxy.LoseNext("commit")
			pause(ctx, 500*time.Millisecond)
		})
	case 6: // the node's connections stay open and carry nothing any more
		c.during(history.CommitUnknown, name, func() {
			proxy.Freeze()
			pause(ctx, leaseHere+c.dice.between(0, 2*time.Second))
		})
	case 7: // the same at every node
		c.during(history.CommitUnknown, "", func() {
			for _, p := range c.proxies {
				p.Freeze()
			}
			pause(ctx, leaseHere+c.dice.between(0, 2*time.Second))
		})
	case 8: // packets between node and database are lost
		c.during(history.CommitUnknown, name, func() {
			proxy.Blackhole(true)
			pause(ctx, c.dice.between(time.Second, 3*leaseHere))
			proxy.Blackhole(false)
			pause(context.Background(), time.Second)
		})
	case 9: // packets are delayed
		c.during(history.CommitUnknown, name, func() {
			proxy.Stall(true)
			pause(ctx, c.dice.between(time.Second, 3*leaseHere))
			proxy.Stall(false)
			pause(context.Background(), time.Second)
		})
	case 10: // answers of the database are lost, and then its connections
		c.during(history.CommitUnknown, name, func() {
			proxy.Mute(true)
			pause(ctx, c.dice.between(500*time.Millisecond, 2*leaseHere))
			proxy.Mute(false)
		})
	case 11: // the database is frozen
		c.during(history.CommitUnknown, "", func() {
			if _, err := c.db.Suspend(); err != nil {
				c.t.Error(err)
			}
			pause(ctx, c.dice.between(time.Second, 2*leaseHere))
			if err := c.db.Resume(); err != nil {
				c.t.Error(err)
			}
		})
	}
}

func (c *cluster) signal(node *child, s syscall.Signal) {
	if err := syscall.Kill(node.current().PID, s); err != nil {
		c.t.Errorf("cannot signal a node: %v", err)
	}
}
