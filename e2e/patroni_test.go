//go:build linux && prove && soak

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/e2e/process"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// leaseThere is the lease of nodes by default, with which they are certified.
const leaseThere = 15 * time.Second

// certified is a cluster of three nodes on a database that Patroni keeps. Two nodes have all three
// servers in their URL; the third one asks HAProxy.
type certified struct {
	*cluster
	patroni *pgtest.Patroni
	sync    bool
	ways    [][]*pgtest.Proxy // of each node to each server
	rows    []failover
	first   *pgtest.Member // the primary as of the last look
}

// failover is what one fault came to.
type failover struct {
	kind         string
	promoted     time.Duration // from the fault until another server took writes
	acknowledged time.Duration // from the fault until the first event was acknowledged by it
	silence      time.Duration // the longest time without an acknowledgement
	ready        time.Duration // from the fault until all nodes were ready
	lost         int           // acknowledged events that the new primary does not have
}

const haproxySettings = `global
  log stderr format raw daemon
defaults
  mode tcp
  timeout connect 2s
  timeout check 2s
  timeout client 1h
  timeout server 1h
listen grapnel
  bind %s
  option httpchk
  http-check send meth GET uri /primary
  http-check expect status 200
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
`

func certify(t *testing.T, sync bool) *certified {
	t.Helper()
	p, err := pgtest.StartPatroni(t.Context(), pgtest.PatroniOptions{Sync: sync})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	x := &certified{cluster: &cluster{lease: leaseThere}, patroni: p, sync: sync}
	if x.first = p.Primary(t.Context(), nil); x.first == nil {
		t.Fatal("the cluster has no primary")
	}
	if _, err := x.first.Create(t.Context(), "grapnel"); err != nil {
		t.Fatal(err)
	}
	x.primary = func() *pgtest.Server {
		if m := p.Primary(t.Context(), nil); m != nil {
			return m.Server
		}
		return x.first.Server
	}
	var programs []program
	for node := range 3 {
		var ways []*pgtest.Proxy
		for _, m := range p.Members {
			proxy, err := m.NewProxy()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = proxy.Close() })
			ways = append(ways, proxy)
		}
		x.ways = append(x.ways, ways)
		store := pgtest.URL("grapnel", ways...)
		if node == 2 {
			store = "postgres://postgres@" + x.balance(t, ways) + "/grapnel?sslmode=disable"
		}
		programs = append(programs, program{flag: []string{"--store", store}})
	}
	x.startNodes(t, programs, twoTenants)
	x.load.tenants, x.load.fresh = []string{"red", "blue"}, true
	x.load.every, x.load.patient, x.load.resolve = 400*time.Millisecond, 5*time.Second, 5*time.Minute
	x.observe(t)
	return x
}

// balance starts HAProxy in front of the servers, which finds the primary by Patroni's REST API.
func (x *certified) balance(t *testing.T, ways []*pgtest.Proxy) (addr string) {
	t.Helper()
	addr = unusedAddress(t)
	text := fmt.Sprintf(haproxySettings, addr)
	for i, m := range x.patroni.Members {
		host, port, _ := strings.Cut(m.Checks.Addr(), ":")
		text += fmt.Sprintf("  server %s %s check addr %s port %s\n", m.Name, ways[i].Addr(), host, port)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath("haproxy")
	if err != nil {
		path = "/usr/sbin/haproxy"
	}
	h, err := process.Start(exec.Command(path, "-db", "-f", file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Kill)
	return addr
}

// kinds are the faults: each begins when it is called, and ends when the function that it returns
// is called.
var kinds = []struct {
	name string
	does func(x *certified, of *pgtest.Member, n int) (end func())
}{
	{"killed", func(x *certified, of *pgtest.Member, _ int) func() {
		x.must(of.Kill())
		return func() { x.must(of.Start(context.Background())) }
	}},
	{"frozen", func(x *certified, of *pgtest.Member, _ int) func() {
		_, err := of.Suspend()
		x.must(err)
		return func() { x.must(of.Resume()) }
	}},
	// Every second time nodes still reach the server that is cut off from etcd and from its standbys.
	{"partitioned", func(x *certified, of *pgtest.Member, n int) func() {
		cut := func(on bool) {
			of.Isolate(on)
			for _, ways := range x.ways {
				if n%2 == 0 {
					ways[slices.Index(x.patroni.Members, of)].Blackhole(on)
				}
			}
		}
		cut(true)
		return func() { cut(false) }
	}},
}

// fail lets the primary fail once, and waits until all is as it was before. With behind, standbys
// lack some acknowledged events when it fails.
func (x *certified) fail(ctx context.Context, kind, n int, behind bool) {
	x.t.Helper()
	x.must(x.patroni.Whole(ctx, x.sync))
	pause(ctx, x.dice.between(time.Second, 3*time.Second))
	x.published(20)
	of := x.patroni.Primary(ctx, nil)
	if of == nil {
		x.t.Fatal("the cluster has no primary")
	}
	safe := x.ledger.now() // events that were acknowledged before are at the standbys
	x.must(x.patroni.Whole(ctx, x.sync))
	x.must(x.patroni.CaughtUp(ctx, of))
	row := failover{kind: kinds[kind].name}
	if behind {
		of.Log.Stall(true)
		x.published(10)
		row.kind += ", standbys behind"
	}
	began := x.ledger.now()
	end := kinds[kind].does(x, of, n)
	next, err := x.patroni.Promoted(ctx, of, 2*time.Minute)
	x.must(err)
	x.first = next
	promoted := x.ledger.now()
	x.published(10)
	eventually(x.t, 2*time.Minute, "all nodes are ready after a failover", func() bool {
		return !slices.ContainsFunc(x.nodes, func(node *child) bool { return !node.answers() })
	})
	row.ready = x.ledger.now() - began
	x.published(20)
	if behind {
		of.Log.Cut(false) // what the standbys did not get is lost
		of.Log.Stall(false)
	}
	end()
	h, err := x.ledger.read()
	x.must(err)
	var ids []string
	var at []time.Duration
	for _, p := range h.Publishes {
		if p.Result == history.OK {
			ids, at = append(ids, p.ID), append(at, p.Return)
		}
	}
	slices.Sort(at)
	for i := 1; i < len(at); i++ {
		if at[i] > began {
			row.silence = max(row.silence, at[i]-at[i-1])
		}
		if at[i] > promoted && row.acknowledged == 0 {
			row.acknowledged = at[i] - began
		}
	}
	row.promoted = promoted - began
	row.lost = x.missing(ctx, next, ids)
	x.must(x.patroni.Whole(ctx, x.sync))
	x.published(10)
	x.rows = append(x.rows, row)
	x.t.Logf("%2d at %v: %s of %s, now %s: %+v", len(x.rows), began.Round(time.Second), row.kind, of.Name, next.Name, row)
	if x.sync && row.lost > 0 {
		x.t.Errorf("LOST: the new primary lacks %d acknowledged events", row.lost)
	}
	if !x.sync {
		x.ledger.write(entry{Fault: &history.Fault{Kind: history.Rewind, Start: safe, End: promoted}})
	}
	x.doubt(began)
	x.told()
}

// missing counts events that a server does not have. Those that an earlier failover lost are not
// counted again.
func (x *certified) missing(ctx context.Context, at *pgtest.Member, ids []string) (lost int) {
	x.t.Helper()
	conn, err := pgx.Connect(ctx, at.URL("grapnel"))
	x.must(err)
	defer func() { _ = conn.Close(ctx) }()
	const absent = "SELECT count(*) FROM unnest($1::text[]) u(id) WHERE NOT EXISTS (SELECT FROM event e WHERE e.id = u.id)"
	x.must(conn.QueryRow(ctx, absent, ids).Scan(&lost))
	for _, row := range x.rows {
		lost -= row.lost
	}
	return lost
}

// told checks that every node has said that it noticed the promotion.
func (x *certified) told() {
	x.t.Helper()
	for i, node := range x.nodes {
		eventually(x.t, time.Minute, fmt.Sprintf("node %d says that the database went back or was replaced", i), func() bool {
			return strings.Count(node.words(1<<30), "database went back or was replaced") >= len(x.rows)
		})
	}
}

// table prints what the faults came to, by kind.
func (x *certified) table() {
	kinds := map[string][]failover{}
	for _, row := range x.rows {
		kinds[row.kind] = append(kinds[row.kind], row)
	}
	text := "\n| fault | times | promoted after | acknowledged again after | all nodes ready after | longest silence | lost |\n|---|---|---|---|---|---|---|\n"
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		rows, lost := kinds[kind], 0
		spread := func(of func(failover) time.Duration) string {
			var all []time.Duration
			for _, row := range rows {
				all = append(all, of(row))
			}
			slices.Sort(all)
			return fmt.Sprintf("%.1f s (%.1f–%.1f)", all[len(all)/2].Seconds(), all[0].Seconds(), all[len(all)-1].Seconds())
		}
		for _, row := range rows {
			lost += row.lost
		}
		text += fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %d |\n", kind, len(rows),
			spread(func(f failover) time.Duration { return f.promoted }), spread(func(f failover) time.Duration { return f.acknowledged }), spread(func(f failover) time.Duration { return f.ready }),
			spread(func(f failover) time.Duration { return f.silence }), lost)
	}
	x.t.Log(text)
}

// The primary of a database that Patroni keeps is killed, frozen and cut off, again and again,
// under load. With synchronous replication no acknowledged event is lost. With asynchronous
// replication those are lost that the promoted standby lacked, which the test counts, and nothing
// else.
func TestPatroni(t *testing.T) {
	beside(t, heavy)
	for _, mode := range []struct {
		name  string
		sync  bool
		times int
	}{{"synchronous", true, 20}, {"asynchronous", false, 4}} {
		t.Run(mode.name, func(t *testing.T) {
			times := 1
			if soak() {
				times = mode.times
			}
			x := certify(t, mode.sync)
			x.under(6, func(ctx context.Context) {
				for n := range times {
					for kind := range kinds {
						if !t.Failed() {
							x.fail(ctx, kind, n, !mode.sync && n%2 == 0)
						}
					}
				}
			})
			x.table()
			x.t.Logf("nodes ended by themselves %d times; %s", x.seen.restarts.Load(), &x.seen.pulse)
			x.convict(x.verdict(10 * leaseThere))
		})
	}
}
