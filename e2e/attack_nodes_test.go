//go:build linux && prove

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/outbox"
)

// answered is the outcome of a request.
type answered struct {
	status int
	body   string
	err    error
}

// begin sends a request and does not wait for the answer.
func (c *child) begin(ctx context.Context, key, method, path string) <-chan answered {
	done := make(chan answered, 1)
	go func() {
		status, body, _, err := c.as(ctx, key, method, path, nil)
		done <- answered{status, string(body), err}
	}()
	return done
}

// TestAttackWithARevokedKey: three nodes share a database. Once the answer says that a key is
// revoked, or may not consume any more, its open requests at another node get nothing, and no node
// accepts it: neither one that is cut off from the database nor one that was frozen meanwhile.
func TestAttackWithARevokedKey(t *testing.T) {
	beside(t, busy)
	const lease = 5 * time.Second // only the test's own faults may end one
	db := pgtest.For(t, pgtest.Options{})
	for _, name := range []string{"grapnel", "producer"} {
		if _, err := db.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	var nodes []*attacked
	var proxies []*pgtest.Proxy
	for range 3 {
		proxy, err := db.NewProxy()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		nodes = append(nodes, startAttacked(t, program{flag: []string{"--store", pgtest.URL("grapnel", proxy), "--lease", lease.String()}}))
		proxies = append(proxies, proxy)
	}
	a, other, cut, still := nodes[0], nodes[1], nodes[1], nodes[2]
	eventually(t, 30*time.Second, "the nodes know each other", func() bool {
		for _, n := range nodes {
			if n.metric("grapnel_nodes") != 3 {
				return false
			}
		}
		return true
	})

	a.makeKeys()

	// These are open requests of a key.
	for _, way := range []struct {
		method, body    string
		done, forbidden int
	}{
		{http.MethodDelete, "", http.StatusNoContent, http.StatusUnauthorized},
		{http.MethodPatch, `{"scopes":["read"]}`, http.StatusOK, http.StatusForbidden},
	} {
		queue := "/v1/queues/" + way.method
		a.by(attacker, grapnel.ScopeManage, http.StatusCreated, http.MethodPost, "/v1/queues",
			map[string]any{"name": way.method, "event_types": []string{way.method}}, nil)
		key, id := a.key(attacker, grapnel.ScopeConsume)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		stream, poll := other.begin(ctx, key, http.MethodGet, queue+"/stream"), other.begin(ctx, key, http.MethodGet, queue+"/next?wait=20s")
		eventually(t, 20*time.Second, "both wait", func() bool { return other.metric("grapnel_consumers_waiting") == 2 })
		a.must(way.done, way.method, "/v1/keys/"+id, []byte(way.body), nil)
		for i := range 4 {
			a.publishAs(attacker, newEvent{ID: fmt.Sprint(id, "-", i), Type: way.method, Data: json.RawMessage(`"after"`)})
		}
		if got := <-poll; got.status != way.forbidden || got.err != nil {
			t.Errorf("%s: the long poll was answered %+v", way.method, got)
		}
		if got := <-stream; got.status != http.StatusOK || strings.Contains(got.body, "after") || got.err != nil {
			t.Errorf("%s: the stream was answered %+v", way.method, got)
		}
		for i, n := range nodes {
			if status, _ := n.ask(key, http.MethodGet, queue+"/next", nil); status != way.forbidden {
				t.Errorf("%s: node %d answers %d", way.method, i, status)
			}
		}
		cancel()
	}

	// One tenant's outbox has the ids of another tenant's events.
	dsn := db.URL("producer")
	if _, err := relay.Install(t.Context(), dsn, relay.Rights{}); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	a.must(http.StatusCreated, http.MethodPost, "/v1/sources",
		map[string]any{"name": "outbox", "tenant": attacker, "outbox": map[string]any{"dsn": dsn}}, nil)
	for i := range 5 {
		id := fmt.Sprint("order-", i)
		for _, tenant := range []string{victim, attacker} { // before or after the event with this id came through the outbox
			if tenant == attacker {
				tx, err := pool.Begin(t.Context())
				if err == nil {
					if err = outbox.PublishPgx(t.Context(), tx, outbox.Event{Type: "a", ID: id, Data: []byte(`"outbox"`)}); err == nil {
						err = tx.Commit(t.Context())
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			} else if status, body := a.publishAs(tenant,
				newEvent{ID: id, Type: "a", Data: json.RawMessage(`"published"`)}); status != http.StatusAccepted {
				t.Errorf("answered %d %s", status, body)
			}
		}
	}
	for i := range 5 {
		eventually(t, 20*time.Second, "the outbox's event is there", func() bool {
			status, body := a.ask(a.keys[attacker][grapnel.ScopeRead], http.MethodGet, fmt.Sprint("/v1/events/order-", i), nil)
			return status == http.StatusOK && strings.Contains(string(body), `"outbox"`)
		})
	}

	// One node is cut off. Another is frozen while requests arrive at it.
	key, id := a.key(victim, grapnel.ScopeRead)
	for _, n := range nodes {
		if status, body := n.ask(key, http.MethodGet, "/v1/endpoints", nil); status != http.StatusOK {
			t.Fatalf("answered %d %s", status, body)
		}
	}
	proxies[1].Cut(true)
	if err := syscall.Kill(still.current().PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	a.must(http.StatusNoContent, http.MethodDelete, "/v1/keys/"+id, nil, nil)
	revoked := time.Since(stopped)
	looks, until := 0, time.Now().Add(3*time.Second)
	if soak() {
		until = time.Now().Add(25 * time.Second)
	}
	var waiting []<-chan answered
	for range 10 {
		waiting = append(waiting, still.begin(t.Context(), key, http.MethodGet, "/v1/endpoints"))
	}
	for ; time.Now().Before(until); looks++ {
		for _, rq := range []struct {
			method, path, key string
			want              int
		}{
			{http.MethodGet, "/v1/endpoints", key, 503}, {http.MethodGet, "/v1/keys", adminKey, 503},
			{http.MethodGet, "/v1/events", "grp_wrong", 503},
			{http.MethodPost, "/in/src_none", "", 503}, {http.MethodGet, "/readyz", "", 503}, {http.MethodGet, "/livez", "", 200},
		} {
			if status, body := cut.ask(rq.key, rq.method, rq.path, nil); status != rq.want {
				t.Errorf("the node that is cut off answers %s %s with %d %s", rq.method, rq.path, status, body)
			}
		}
		pause(t.Context(), 200*time.Millisecond)
		if t.Failed() {
			break
		}
	}
	if err := syscall.Kill(still.current().PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var again sync.WaitGroup
	for range 3 {
		again.Go(func() {
			for range 3 { // from the node's next read on each is a wrong key, and some of those are made to wait
				status, body, _, err := still.as(t.Context(), key, http.MethodGet, "/v1/endpoints", nil)
				if err == nil && status != http.StatusServiceUnavailable && status != http.StatusUnauthorized {
					t.Errorf("the node that stood still answers %d %s", status, body)
				}
			}
		})
	}
	counts := map[int]int{}
	for _, w := range waiting {
		got := <-w
		counts[got.status]++
		if got.err == nil && got.status != http.StatusServiceUnavailable && got.status != http.StatusUnauthorized {
			t.Errorf("the node that stood still answers %d %s", got.status, got.body)
		}
	}
	again.Wait()
	proxies[1].Cut(false)
	for i, n := range nodes[1:] {
		eventually(t, 30*time.Second, fmt.Sprintf("node %d refuses the key again", i+1), func() bool {
			status, _ := n.ask(key, http.MethodGet, "/v1/endpoints", nil)
			return status == http.StatusUnauthorized
		})
	}
	t.Logf("revoking was answered after %v; %d looks at the node that is cut off; on waking the other one answered %v", revoked, looks, counts)
}
