//go:build prove

package engine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/policy"
)

// counted counts the rows read of the configuration.
type counted struct {
	*postgres.Store
	everything atomic.Int64
	group      *group
}

func (c *counted) Config(ctx context.Context) (store.Config, error) {
	c.everything.Add(1)
	return c.Store.Config(ctx)
}

func (c *counted) Version(ctx context.Context) (version, newest int64, err error) {
	c.group.read(ctx, 0)
	return c.Store.Version(ctx)
}

func (c *counted) Changes(ctx context.Context, since int64) (store.ConfigChanges, bool, error) {
	d, complete, err := c.Store.Changes(ctx, since)
	c.group.read(ctx, len(d.Endpoints.Written))
	return d, complete, err
}

// group are nodes with a database of their own. It counts what they ask each other, and what they
// read for that.
type group struct {
	neighbours
	engines                    []*Engine
	stores                     []*counted
	made                       int
	took                       []time.Duration // of each endpoint
	requests, reads, endpoints atomic.Int64
}

func (g *group) CatchUp(ctx context.Context, address string) error {
	g.requests.Add(1)
	return g.neighbours.CatchUp(context.WithValue(ctx, onRequest{}, true), address)
}

func (g *group) read(ctx context.Context, endpoints int) {
	if ctx.Value(onRequest{}) != nil {
		g.reads.Add(1)
		g.endpoints.Add(int64(endpoints))
	}
}

// assemble starts nodes and returns once all of them are there and have shards.
func assemble(t *testing.T, server *pgtest.Server, nodes int) *group {
	t.Helper()
	name := fmt.Sprintf("grow%d", nodes)
	if _, err := server.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	g := &group{neighbours: neighbours{}}
	for i := range nodes {
		s, err := postgres.Open(t.Context(), server.URL(name), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g.stores = append(g.stores, &counted{Store: s, group: g})
		node := fmt.Sprint("node", i)
		e, err := New(
			t.Context(),
			Options{Store: g.stores[i], Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
				Cluster: &ownership.Options{Ownership: s, Node: store.Node{ID: node, Address: node}, Peers: g,
					Bounds: ownership.Bounds{AskWithin: time.Minute}}},
		)
		if err != nil {
			t.Fatal(err)
		}
		g.engines = append(g.engines, e)
		g.neighbours[node] = e
	}
	for i, e := range g.engines {
		running.Go(func() {
			e.Run(ctx)
			_ = g.stores[i].Close()
		})
	}
	for _, e := range g.engines {
		for e.shards.Share() == 0 || len(e.shards.Others()) < nodes-1 {
			time.Sleep(20 * time.Millisecond)
		}
	}
	return g
}

// grow makes endpoints at the first node, one after the other, each of which every node has to know
// when it is answered.
func (g *group) grow(t *testing.T, endpoints int) {
	t.Helper()
	for range endpoints {
		began := time.Now()
		ep := ofElsewhere(fmt.Sprintf("que_%05d", g.made))
		ep.Policy, _ = policy.Preset("hooque")
		if _, err := g.engines[0].PutEndpoint(t.Context(), store.Everyone(), ep, store.With{}); err != nil {
			t.Fatal(err)
		}
		g.took = append(g.took, time.Since(began))
		g.made++
		for i, e := range g.engines {
			if _, ok := e.Endpoint(store.Everyone(), ep.ID); !ok {
				t.Fatalf("node %d of %d does not know %s after it was answered", i, len(g.engines), ep.ID)
			}
		}
	}
}

// usual is the median time that an endpoint took.
func (g *group) usual() time.Duration {
	slices.Sort(g.took)
	return g.took[len(g.took)/2]
}

// TestManyNodesGrowAsOneDoes makes endpoints at one node and at one of three. What the others are
// asked, and read, for each does not depend on how many there are. With GRAPNEL_SOAK set there are
// 5,000, and with three nodes one takes at most half as long again as with one node. The two take
// turns, so that whatever else the machine does slows both, and medians are compared, so that a
// moment without a processor, which hits a few endpoints of one side, decides nothing.
func TestManyNodesGrowAsOneDoes(t *testing.T) {
	endpoints, percent := 60, time.Duration(400)
	if os.Getenv("GRAPNEL_SOAK") != "" {
		endpoints, percent = 5000, 150
	}
	server := pgtest.For(t, pgtest.Options{})
	alone, three := assemble(t, server, 1), assemble(t, server, 3)
	for alone.made < endpoints {
		alone.grow(t, 20)
		three.grow(t, 20)
	}
	one, several := alone.usual(), three.usual()
	requests, reads, read := three.requests.Load(), three.reads.Load(), three.endpoints.Load()
	t.Logf("%d endpoints, each: %v at one node, %v at three: %.2f; %d requests, %d reads of %d endpoints", endpoints, one, several,
		float64(several)/float64(one), requests, reads, read)
	if n := alone.requests.Load(); n != 0 || requests != int64(2*endpoints) {
		t.Errorf("for %d endpoints one node asked %d times, and two others were asked %d times", endpoints, n, requests)
	}
	// a few are read twice: a node looks by itself, too
	if most := requests * 6 / 5; reads > most || read > most {
		t.Errorf("%d reads of %d endpoints for %d requests", reads, read, requests)
	}
	if several > one*percent/100 {
		t.Errorf("%v for an endpoint with three nodes, %v with one", several, one)
	}
	for _, g := range []*group{alone, three} {
		for i, s := range g.stores {
			if n := s.everything.Load(); n != 1 {
				t.Errorf("node %d of %d has read everything %d times, not only at its start", i, len(g.stores), n)
			}
		}
	}
}
