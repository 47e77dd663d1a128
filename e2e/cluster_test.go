//go:build linux && prove

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// leaseHere is the lease of nodes under test: how long a dead node keeps its shards.
const leaseHere = 3 * time.Second

// cluster is a trial with several nodes on one database, each behind a proxy of its own.
type cluster struct {
	*trial
	db      *pgtest.Server
	standby *pgtest.Standby // nil: the database has no standby
	nodes   []*child
	proxies []*pgtest.Proxy
	spares  []*pgtest.Proxy // each node's way to the standby, if nodes know both servers
	faults  []history.Fault // the injected faults
	seen    seen
	lease   time.Duration
	primary func() *pgtest.Server // nil: the server behind the last proxy
}

// plan says how to set up a cluster.
type plan struct {
	targets func(*dice) []*target
	tiny    bool // each node has tiny bounds, chosen separately
	standby bool // the database has a standby
	sync    bool // and commits wait for the standby
	both    bool // nodes know the addresses of the database and of its standby
}

func newCluster(t *testing.T, size int) *cluster {
	t.Helper()
	return planned(t, size, plan{targets: all})
}

func planned(t *testing.T, size int, p plan) *cluster {
	t.Helper()
	db := pgtest.For(t, pgtest.Options{})
	if _, err := db.Create(t.Context(), "grapnel"); err != nil {
		t.Fatal(err)
	}
	c := &cluster{db: db, lease: leaseHere}
	if p.standby {
		var err error
		if c.standby, err = db.Standby(t.Context(), p.sync); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.standby.Stop() })
	}
	proxy := func(to *pgtest.Server) *pgtest.Proxy {
		proxy, err := to.NewProxy()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		return proxy
	}
	var programs []program
	for range size {
		ways := []*pgtest.Proxy{proxy(db)}
		c.proxies = append(c.proxies, ways[0])
		if p.both {
			ways = append(ways, proxy(c.standby.Server))
			c.spares = append(c.spares, ways[1])
		}
		programs = append(programs, program{flag: []string{"--store", pgtest.URL("grapnel", ways...), "--lease", leaseHere.String()},
			tiny: p.tiny})
	}
	c.startNodes(t, programs, p.targets)
	c.load.every = 160 * time.Millisecond // faults of seconds leave a large backlog, and three nodes and a database share the machine
	return c
}

// startNodes starts a node for each of some programs, and creates the endpoints.
func (c *cluster) startNodes(t *testing.T, programs []program, targets func(*dice) []*target) {
	t.Helper()
	c.trial = newTrial(t, programs[0], targets)
	c.confess = c.losses
	c.nodes = append(c.nodes, c.child)
	for _, p := range programs[1:] {
		n := newChild(t, p.bounded(t, c.dice), t.TempDir())
		n.start()
		n.ready(30 * time.Second)
		c.nodes = append(c.nodes, n)
	}
	c.load.others = c.nodes[1:]
}

// nodeLine is the line in which a node logs its own name at its start. Other lines name other
// nodes.
var nodeLine = regexp.MustCompile(`msg="other nodes may use the same database" node=(node_\w+)`)

// name is the node's name since its last start.
func (c *child) name() string {
	c.t.Helper()
	text, err := os.ReadFile(c.log.Name())
	if err != nil {
		c.t.Fatal(err)
	}
	all := nodeLine.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		c.t.Fatal("the node does not say what it is called")
	}
	return string(all[len(all)-1][1])
}

// lostLine is the line that a node logs when it loses its shards: its lease expired, or its
// watchdog saw a loop stalled for longer than one lease.
var lostLine = regexp.MustCompile(`time=(\S+) level=ERROR msg="(?:lease lost; shards released|engine loop stands still)`)

// losses records every lease that nodes report as lost, until no delivery is pending: a busy
// machine stalls a node in any second of a trial, also while the last deliveries go out. Mostly an
// injected fault explains a loss. Where none does, the machine was busy with other work.
func (c *cluster) losses() {
	c.t.Helper()
	zero := time.Now().Add(-c.ledger.now())
	count, alone := 0, 0
	for _, node := range c.nodes {
		text, err := os.ReadFile(node.log.Name())
		if err != nil {
			c.t.Fatal(err)
		}
		name := ""
		for line := range bytes.Lines(text) {
			if found := nodeLine.FindSubmatch(line); found != nil {
				name = string(found[1])
			}
			found := lostLine.FindSubmatch(line)
			if found == nil {
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, string(found[1]))
			if err != nil {
				c.t.Fatal(err)
			}
			end := at.Sub(zero)
			c.t.Logf("%s at %v: %s", name, end.Round(time.Millisecond), line)
			lost := history.Fault{Kind: history.Takeover, Node: name, Start: max(0, end-c.lease), End: end}
			count++
			if !slices.ContainsFunc(c.faults, func(f history.Fault) bool {
				return (f.Node == "" || f.Node == name) && f.Start <= lost.End && lost.Start <= f.End
			}) {
				lost.Kind = history.Standstill
				alone++
			}
			c.ledger.write(entry{Fault: &lost})
		}
	}
	c.t.Logf("nodes lost their leases %d times, %d of them without our doing", count, alone)
}

// settled waits until every node owns its share of the shards, and every node can report the health
// of these endpoints, whichever node owns them.
func (c *cluster) settled(ids []string) {
	c.t.Helper()
	eventually(c.t, 30*time.Second, "every node has its shards", func() bool {
		var view struct {
			Unowned int
			Nodes   []struct {
				Shards   int
				Intended int `json:"shards_intended"`
			}
		}
		c.child.must(http.StatusOK, http.MethodGet, "/v1/cluster", nil, &view)
		moving := view.Unowned
		for _, n := range view.Nodes {
			moving += max(n.Shards-n.Intended, n.Intended-n.Shards)
		}
		return moving == 0 && len(view.Nodes) == len(c.nodes)
	})
	for _, node := range c.nodes {
		eventually(c.t, 30*time.Second, "every node knows how all endpoints are", func() bool {
			return !slices.ContainsFunc(ids, func(id string) bool { return node.health(id).State != "healthy" })
		})
	}
}

// Three nodes share a database, and publishers talk to all of them. Nodes die, freeze and are cut
// off; the database dies, ends connections and loses answers. No acknowledged event is lost and
// keys keep their order. Only deliveries that were in flight at a node hit by a fault are repeated.
func TestClusterThroughFaults(t *testing.T) {
	beside(t, heavy)
	if soak() {
		newCluster(t, 3).through(t, 200, manyFaults)
	} else {
		newCluster(t, 3).through(t, 10, fewFaults)
	}
}

// through injects a number of faults, of the first kinds in turn, and judges.
func (c *cluster) through(t *testing.T, faults, kinds int) {
	c.under(6, func(ctx context.Context) {
		for n := 0; n < faults && !t.Failed(); n++ {
			c.fault(ctx, n%kinds)
		}
		pause(ctx, time.Second)
	})
	found := c.verdict(5 * time.Minute)
	for _, x := range c.targets {
		if len(found) > 0 {
			t.Logf("%s (%s): %+v", x.name, x.rules.ID, c.child.health(x.rules.ID))
		}
	}
	c.convict(found)
	if c.load.accepted.Load() < int64(faults*5) {
		t.Errorf("only %d events were accepted over %d faults: the load was too thin to prove anything", c.load.accepted.Load(), faults)
	}
}

// Each of three nodes in turn is stopped as an operator does it, and started again. No delivery is
// repeated.
func TestRollingRestart(t *testing.T) {
	beside(t, heavy)
	rounds := 1
	if soak() {
		rounds = 15
	}
	c := newCluster(t, 3)
	c.under(6, func(ctx context.Context) {
		for range rounds {
			for _, node := range c.nodes {
				pause(ctx, c.dice.between(500*time.Millisecond, 1500*time.Millisecond))
				c.during(history.CleanStop, node.name(), func() {
					if code := node.terminate(40 * time.Second); code != 0 {
						t.Errorf("after SIGTERM the exit code is %d", code)
					}
				})
				node.start()
				node.ready(30 * time.Second)
			}
		}
		pause(ctx, 2*leaseHere)
	})
	c.convict(c.verdict(2 * time.Minute))
}

// Once a pause is answered by one node, no node attempts the endpoint. An operator's order given to
// any node is executed by the owner of the endpoint.
func TestChangesReachEveryNode(t *testing.T) {
	beside(t, heavy)
	c := newCluster(t, 3)
	var sites []*site
	var ids []string
	for i := range 12 { // enough for each node to own some
		s := newSite()
		id, _ := c.child.endpoint("http://"+newDoor(t, fmt.Sprintf("127.0.15.%d", i+1), s).addr+"/",
			map[string]any{"event_types": []string{"change.*"}})
		sites, ids = append(sites, s), append(ids, id)
	}
	c.settled(ids)
	publish := func(n int) {
		t.Helper()
		for i := range n {
			id := fmt.Sprintf("change-k-%d", i)
			event := newEvent{ID: t.Name() + fmt.Sprint(n, "-", i), Type: "change.made", Key: "k", Data: json.RawMessage(`{"id":"` + id + `"}`)}
			// A commit may take no longer than a node's lease, which is short here. On a busy machine one
			// does, and its publisher repeats it.
			eventually(t, time.Minute, "an event is accepted", func() bool {
				r, refused := c.nodes[i%3].publish(t.Context(), event)
				if r == history.Failed {
					t.Fatal("refused: ", refused)
				}
				return r == history.OK
			})
		}
	}
	arrived := func(n int) bool {
		for _, s := range sites {
			if s.taken() != n {
				return false
			}
		}
		return true
	}
	publish(6)
	eventually(t, 20*time.Second, "everything has arrived", func() bool { return arrived(6) })
	for i, id := range ids {
		c.nodes[i%3].must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+id, map[string]any{"status": "paused"}, nil)
	}
	publish(5)
	for i, id := range ids {
		if h := c.nodes[(i+1)%3].health(id); h.State != "paused" || h.Held != 5 {
			t.Errorf("%s is %+v at another node", id, h)
		}
	}
	if !arrived(6) {
		t.Error("a paused endpoint was sent something")
	}
	for i, id := range ids {
		held := c.nodes[i%3].rows(url.Values{"endpoint": {id}, "status": {"held"}})
		if len(held) != 5 {
			t.Fatalf("%d are held", len(held))
		}
		for _, d := range held[1:] {
			c.nodes[(i+2)%3].must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+d.ID+"/skip", map[string]any{"reason": "of no use"}, nil)
		}
		c.nodes[(i+1)%3].must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+id, map[string]any{"status": "enabled"}, nil)
	}
	eventually(t, 20*time.Second, "what was not skipped has arrived", func() bool { return arrived(7) })
}
