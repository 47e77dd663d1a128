//go:build prove

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// members starts n nodes on one database.
func members(t *testing.T, n int, tune ...func(*Options)) (all []member, db *pgtest.Server) {
	t.Helper()
	db = databases(t, "grapnel")
	t.Chdir(t.TempDir()) // admin keys are written here
	for range n {
		proxy, err := db.NewProxy()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		o := options("")
		o.Store, o.Lease, o.AdminKey = proxy.URL("grapnel"), LeastLease, testKey
		for _, change := range tune {
			change(&o)
		}
		s := start(t, o)
		all = append(all, member{s, s.client(t, testKey), proxy})
	}
	return all, db
}

// patient is for nodes that no test kills or cuts off: with the least lease a node answers 503 when
// it was without a processor for 1.5 s.
func patient(o *Options) { o.Lease = DefaultLease }

// settled says whether the nodes own all shards, each its share.
func settled(c *client.Cluster, up int) bool {
	there, have := 0, 0
	for _, m := range c.Nodes {
		if m.State == "up" {
			there++
			have += m.Shards
		}
		if m.Shards != m.Intended {
			return false
		}
	}
	return there == up && have == store.Shards && c.Unowned == 0
}

// TestClusterStatus: three nodes divide the shards. One is cut off from the database: it loses its
// shards, and the others report that and take them.
func TestClusterStatus(t *testing.T) {
	nodes, _ := members(t, 3)
	poll(t, "three nodes divide the shards", func() bool { return settled(nodes[0].status(t), 3) })
	first := nodes[0].status(t)
	held := 0.0
	for i, n := range nodes {
		held += n.measured(t, `grapnel_shards{state="held"}`)
		if there := n.measured(t, "grapnel_nodes"); there != 3 {
			t.Errorf("node %d takes %v to be there", i, there)
		}
		if lost := n.measured(t, "grapnel_shards_lost_total"); lost != 0 {
			t.Errorf("node %d has lost %v", i, lost)
		}
		if c := n.status(
			t,
		); !c.Shared || c.Shards != store.Shards ||
			!slices.ContainsFunc(c.Nodes, func(m client.Member) bool { return m.ID == c.Node && m.Address == n.URL() }) {
			t.Errorf("node %d says %+v", i, c)
		}
	}
	if held != store.Shards {
		t.Errorf("they hold %v", held)
	}

	gone := nodes[2].status(t).Node
	key, err := nodes[0].CreateKey(t.Context(), client.NewKey{Name: "revoked", Scopes: []grapnel.Scope{grapnel.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[2].client(t, key.Secret).Endpoints(t.Context(), client.EndpointFilter{}); err != nil {
		t.Fatal(err)
	}
	nodes[2].proxy.Cut(true)
	revoked := make(chan string, 1)
	go func() { revoked <- revokedWhileCutOff(t, nodes[0], nodes[2], key) }()
	seen := map[string]bool{}
	poll(t, "two nodes have everything", func() bool {
		c := nodes[0].status(t)
		for _, m := range c.Nodes {
			if m.ID == gone && m.Lagging > 0 {
				seen["lagging"] = true
			}
			if m.ID == gone && m.State == "silent" {
				seen["silent"] = true
			}
		}
		if c.Unowned > 0 {
			seen["unowned"] = true
		}
		return settled(c, 2)
	})
	if wrong := <-revoked; wrong != "" {
		t.Error(wrong)
	}
	if !seen["lagging"] || !seen["silent"] {
		t.Errorf("of what goes before, it was told: %v", seen)
	}
	poll(t, "who is cut off knows that it has lost them", func() bool {
		return nodes[2].measured(t, `grapnel_shards{state="held"}`) == 0 && nodes[2].measured(t, "grapnel_shards_lost_total") > 0
	})
	poll(
		t,
		"it says that it is not ready",
		func() bool { code, _ := readiness(t.Context(), nodes[2]); return code == http.StatusServiceUnavailable },
	)
	if code, err := readiness(t.Context(), nodes[0]); code != http.StatusOK {
		t.Errorf("another one says %d, %v", code, err)
	}
	var refused *client.Error
	if _, err := nodes[2].Cluster(t.Context()); !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable {
		t.Errorf("who is cut off says %v", err)
	}
	nodes[2].proxy.Cut(false)
	poll(t, "it comes back", func() bool { return settled(nodes[0].status(t), 3) })
	poll(t, "it knows of the revocation", func() bool {
		status, _, _ := nodes[2].consumer(t).ask("GET", "/v1/endpoints", "", "Authorization", "Bearer "+key.Secret)
		return status == http.StatusUnauthorized
	})
	poll(t, "it is ready again", func() bool { code, _ := readiness(t.Context(), nodes[2]); return code == http.StatusOK })
	if again := nodes[0].status(t); len(again.Nodes) != len(first.Nodes) {
		t.Errorf("now there are %+v", again.Nodes)
	}
}

// revokedWhileCutOff revokes a key at one node while another one is cut off. Once the revocation is
// answered, the other node refuses every request that shows a key, because it cannot tell which
// keys are valid. It accepts no webhooks either.
func revokedWhileCutOff(t *testing.T, at, cut member, key *client.Key) (wrong string) {
	if err := at.DeleteKey(t.Context(), key.ID); err != nil {
		return err.Error()
	}
	c := cut.consumer(t)
	for _, rq := range []struct {
		method, path, key string
		want              int
	}{
		{"GET", "/v1/endpoints", key.Secret, 503}, {"GET", "/v1/endpoints", testKey, 503}, {"GET", "/v1/endpoints", "grp_wrong", 503},
		{"POST", "/in/src_none", "", 503}, {"GET", "/readyz", "", 503}, {"GET", "/livez", "", 200},
	} {
		status, header, body := c.ask(rq.method, rq.path, "", "Authorization", "Bearer "+rq.key)
		if status != rq.want || status == 503 && header.Get("Retry-After") == "" {
			wrong += fmt.Sprintf("%+v: answered %d %s; ", rq, status, body)
		}
	}
	return wrong
}

// TestDrainingNode: a node that finishes its attempts in flight accepts no connections, so it is
// not ready. The other nodes know, their changes of the configuration wait for it for a moment
// only, and they own its shards once it has stopped.
func TestDrainingNode(t *testing.T) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelError}))
	t.Cleanup(func() { // once the nodes have ended
		if logged.Len() > 0 {
			t.Errorf("a node that is stopped makes the others log %s", &logged)
		}
	})
	nodes, _ := members(t, 3, patient, func(o *Options) { o.Log = log })
	poll(t, "three nodes divide the shards", func() bool { return settled(nodes[0].status(t), 3) })
	arrived, release := make(chan string, 64), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("grapnel-node")
		<-release
	}))
	defer receiver.Close()
	if _, err := nodes[0].CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL}); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0].Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	by := <-arrived
	at := slices.IndexFunc(nodes, func(m member) bool { return m.status(t).Node == by })
	leaving, other := nodes[at], nodes[(at+1)%len(nodes)]
	if code, err := readiness(t.Context(), leaving); code != 200 {
		t.Fatalf("before, it says %d, %v", code, err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- leaving.stop() }()
	poll(t, "the others know that it drains", func() bool {
		return slices.ContainsFunc(
			other.status(t).Nodes,
			func(m client.Member) bool { return m.ID == by && m.State == "draining" && m.Draining && m.Shards > 0 },
		)
	})
	http.DefaultClient.CloseIdleConnections()
	// the node has stopped listening
	if code, err := readiness(t.Context(), leaving); err == nil && code != http.StatusServiceUnavailable {
		t.Errorf("while it drains, it says %d", code)
	}
	if code, err := readiness(t.Context(), other); code != 200 {
		t.Errorf("another one says %d, %v", code, err)
	}
	moment, cancel := context.WithTimeout(t.Context(), DefaultLease/5)
	defer cancel()
	if _, err := other.CreateEndpoint(moment, client.NewEndpoint{URL: receiver.URL, EventTypes: []string{"never"}}); err != nil {
		t.Errorf("a change while it drains: %v", err)
	}
	list, err := other.Deliveries(t.Context(), client.DeliveryFilter{})
	if err != nil || len(list.Data) != 1 {
		t.Fatal(list, err)
	}
	var refused *client.Error
	_, err = other.Skip(t.Context(), list.Data[0].ID, "it has it")
	if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable {
		t.Errorf("a delivery whose attempt is in flight there is skipped: %v", err)
	}
	close(release)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	poll(t, "the others have everything", func() bool { c := other.status(t); return settled(c, 2) && len(c.Nodes) == 2 })
	if more := len(arrived); more != 0 {
		t.Errorf("it was sent %d times more", more)
	}
}

func readiness(ctx context.Context, m member) (int, error) {
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL()+"/readyz", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(rq)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// TestExpandedSchema: running nodes work with a newer schema if its further steps only add. A node
// of the old version that is started then is refused.
func TestExpandedSchema(t *testing.T) {
	nodes, db := members(t, 2)
	got := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("webhook-id") }))
	defer receiver.Close()
	if _, err := nodes[0].CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL}); err != nil {
		t.Fatal(err)
	}
	use := func(round string) {
		t.Helper()
		for i, n := range nodes {
			for _, key := range []string{"", "k"} {
				e, err := n.Publish(t.Context(), client.NewEvent{Type: "a.b", Key: key, Data: []byte("{}")})
				if err != nil {
					t.Fatalf("%s, by node %d: %v", round, i, err)
				}
				if id := <-got; id != e.ID {
					t.Errorf("%s: %s arrived, not %s", round, id, e.ID)
				}
			}
			if _, err := n.CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL, EventTypes: []string{"never"}}); err != nil {
				t.Errorf("%s: %v", round, err)
			}
			if _, err := n.Deliveries(t.Context(), client.DeliveryFilter{}); err != nil {
				t.Errorf("%s: %v", round, err)
			}
		}
	}
	use("before")
	conn, err := pgx.Connect(t.Context(), db.URL("grapnel"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace
		AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'grapnel_schema'`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 10 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		if _, err := conn.Exec(
			t.Context(),
			fmt.Sprintf("ALTER TABLE %s ADD COLUMN later text NOT NULL DEFAULT 'x'", pgx.Identifier{table}.Sanitize()),
		); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE later (i int); INSERT INTO grapnel_schema VALUES (99, 'later', '')"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	use("after")
	poll(t, "two nodes keep all shards", func() bool { return settled(nodes[0].status(t), 2) })
	o := options("")
	o.Store = db.URL("grapnel")
	if s, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "newer Grapnel") {
		t.Errorf("one more is started: %v, %v", s, err)
	}
}
