package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// company is an estate with other nodes, which come and go, and whose lease is lost when it is
// renewed next.
type company struct {
	*estate
	mu     sync.Mutex
	others []store.Node
	silent []store.Node // nodes that do not beat any more and have not left
	taken  bool         // the lease is lost at its next renewal
	away   error        // of every look
}

func (c *company) Beat(ctx context.Context, node store.Node, within time.Duration) ([]store.Node, error) {
	nodes, err := c.estate.Beat(ctx, node, within)
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(nodes, c.others...), errors.Join(err, c.away)
}

func (c *company) Nodes(context.Context, time.Duration) ([]store.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Concat(c.others, c.silent), nil
}

func (c *company) Renew(ctx context.Context, node string, owned []store.Owned, lease time.Duration) ([]store.Owned, error) {
	c.mu.Lock()
	taken := c.taken
	c.taken = false
	c.mu.Unlock()
	if taken {
		return nil, nil
	}
	return c.estate.Renew(ctx, node, owned, lease)
}

// TestNodesAndLeasesAreLoggedOnce: a node that joins, one that leaves, one that is lost and a lease
// that is lost are one line each, however often the node looks.
func TestNodesAndLeasesAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := &company{estate: &estate{}}, &logged{}
		b := newTunedBench(t, memory.New(), func(o *Options) {
			o.Log = slog.New(slog.NewTextHandler(log, nil))
			o.Cluster = &ownership.Options{Ownership: c, Node: store.Node{ID: "me"}, Lease: leaseHere, Peers: neighbours{}}
		})
		defer b.close()
		events := []string{
			`"node joined" node=one`,
			`"node joined" node=two`,
			`"node left" node=one`,
			`node lost; its shards are taken`,
			`lease lost; shards released`,
		}
		happens := func(change func(), logged ...string) {
			t.Helper()
			c.mu.Lock()
			change()
			c.mu.Unlock()
			time.Sleep(2 * leaseHere)
			for _, event := range events {
				want := 0
				if slices.Contains(logged, event) {
					want = 1
				}
				if got := log.lines(event); len(got) != want {
					t.Errorf("want %d of %s: %q", want, event, got)
				}
			}
		}
		one, two := store.Node{ID: "one", Draining: true}, store.Node{ID: "two", Draining: true}
		happens(func() {})
		happens(func() { c.others = []store.Node{one, two} }, events[:2]...)
		happens(func() { c.others = []store.Node{two} }, events[:3]...)
		happens(func() { c.taken = true }, append(events[:3:3], events[4])...)
		two.Draining = false
		happens(func() { c.others = []store.Node{two} }, append(events[:3:3], events[4])...)
		happens(func() { c.others, c.silent = nil, []store.Node{two} }, events...)
	})
}

// TestAnOutageIsAFewLinesAboutShards: rounds that fail one after another are not logged each. The
// first that fails after one that succeeded is.
func TestAnOutageIsAFewLinesAboutShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := &company{estate: &estate{}}, &logged{}
		b := newTunedBench(t, memory.New(), func(o *Options) {
			o.Log = slog.New(slog.NewTextHandler(log, nil))
			o.Cluster = &ownership.Options{Ownership: c, Node: store.Node{ID: "me"}, Lease: leaseHere, Peers: neighbours{}}
		})
		defer b.close()
		for n := 1; n <= 2; n++ {
			for _, away := range []error{nil, errors.New("the database is away")} {
				c.mu.Lock()
				c.away = away
				c.mu.Unlock()
				time.Sleep(time.Hour)
			}
			const round = "taking, renewing or releasing shards failed"
			if first, all := len(log.lines(`failures=1 err="the database is away"`)), len(log.lines(round)); first != n || all > 20*n {
				t.Errorf("after %d hours without a database the log has %d lines, %d of them of a first failure", n, all, first)
			}
		}
	})
}

// TestAQuickStopIsNoLoss: a node without attempts in flight stops between two looks of another one,
// which never sees it draining. It has deleted its row, so it has left and is not lost.
func TestAQuickStopIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := &company{estate: &estate{}, others: []store.Node{{ID: "one"}}}, &logged{}
		b := newTunedBench(t, memory.New(), func(o *Options) {
			o.Log = slog.New(slog.NewTextHandler(log, nil))
			o.Cluster = &ownership.Options{Ownership: c, Node: store.Node{ID: "me"}, Lease: leaseHere, Peers: neighbours{}}
		})
		defer b.close()
		time.Sleep(leaseHere)
		c.mu.Lock()
		c.others = nil
		c.mu.Unlock()
		time.Sleep(2 * leaseHere)
		if left, lost := log.lines(`"node left" node=one`), log.lines("node lost"); len(left) != 1 || len(lost) != 0 {
			t.Errorf("left %q, lost %q", left, lost)
		}
	})
}
