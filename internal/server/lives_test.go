//go:build prove

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/oidc"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// sorter is a receiver that counts requests by path and tenant.
type sorter struct {
	*httptest.Server
	mu  sync.Mutex
	got map[string]int // by path and data
	ids map[string]int // of each delivered event
}

func newSorter(t *testing.T) *sorter {
	t.Helper()
	s := &sorter{got: map[string]int{}, ids: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct{ Data string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got[r.URL.Path+" "+body.Data]++
		s.ids[r.Header.Get("webhook-id")]++
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *sorter) count(of string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got[of]
}

// TestLostPast: two nodes deliver events that a failover then loses, so that events of another
// tenant get the same row ids. The nodes forget their old state: no tenant gets an event of
// another, and each event accepted after the failover arrives once. The processes keep running and
// answer the liveness probe throughout.
func TestLostPast(t *testing.T) {
	const events = 60
	db := pgtest.For(t, pgtest.Options{})
	if _, err := db.Create(t.Context(), "grapnel"); err != nil {
		t.Fatal(err)
	}
	standby, err := db.Standby(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop() })
	t.Chdir(t.TempDir())
	var nodes []member
	for range 2 {
		proxy, err := db.NewProxy()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		o := options("")
		o.Store, o.Lease, o.AdminKey = proxy.URL("grapnel"), LeastLease, testKey
		s := start(t, o)
		nodes = append(nodes, member{s, s.client(t, testKey), proxy})
	}
	receiver := newSorter(t)
	for _, tenant := range []string{"red", "blue"} {
		for i := range 4 {
			at := client.NewEndpoint{Tenant: tenant, URL: fmt.Sprintf("%s/%s/%d", receiver.URL, tenant, i)}
			if _, err := nodes[0].CreateEndpoint(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
	}
	poll(t, "two nodes divide the shards", func() bool { return settled(nodes[0].status(t), 2) })
	publish := func(tenant string) (ids []string) {
		t.Helper()
		for i := range events {
			e := client.NewEvent{Tenant: tenant, Type: "a.b", Key: fmt.Sprint("k", i%5), Data: []byte(`"` + tenant + `"`)}
			done, err := nodes[i%2].Publish(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, done.ID)
		}
		return ids
	}
	all := func(tenant string) func() bool {
		return func() bool {
			for i := range 4 {
				if receiver.count(fmt.Sprintf("/%s/%d %s", tenant, i, tenant)) < events {
					return false
				}
			}
			return true
		}
	}
	if err := standby.CaughtUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	standby.Link.Blackhole(true)
	publish("red")
	poll(t, "red gets what is lost later", all("red"))

	alive := func(m member, path string) int {
		rq, _ := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, m.URL()+path, nil)
		resp, err := http.DefaultClient.Do(rq)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if err := db.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		n.proxy.Point(standby.Server)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		if status := alive(n, "/livez"); status != http.StatusOK {
			t.Errorf("node %d: /livez is %d", i, status)
		}
		poll(t, "the node is ready again", func() bool {
			var refused *client.Error
			_, err := n.Publish(t.Context(), client.NewEvent{Tenant: "green", Type: "a.b", Data: []byte(`"green"`)})
			if err != nil && (!errors.As(err, &refused) || refused.Status < 500) {
				t.Errorf("node %d: %v", i, err)
			}
			return err == nil && alive(n, "/readyz") == http.StatusOK
		})
	}
	ids := publish("blue")
	poll(t, "blue gets what came after it", all("blue"))
	poll(t, "nothing is pending", func() bool {
		list, err := nodes[0].Deliveries(t.Context(), client.DeliveryFilter{Status: []grapnel.Status{grapnel.Pending}})
		return err == nil && len(list.Data) == 0
	})
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	for got, n := range receiver.got {
		path, tenant, _ := strings.Cut(got, " ")
		if !strings.HasPrefix(path, "/"+tenant+"/") {
			t.Errorf("%s got %d times what is %s's", path, n, tenant)
		}
	}
	for _, id := range ids {
		if n := receiver.ids[id]; n != 4 {
			t.Errorf("event %s of blue arrived %d times, not once at each of 4 endpoints", id, n)
		}
	}
}

// TestClosedWhileItsDatabaseIsAway: the database went back and cannot be opened again yet. The
// process answers the liveness probe and refuses all other requests.
func TestClosedWhileItsDatabaseIsAway(t *testing.T) {
	s := start(t, onPostgres(t))
	s.life.closed.Store(true)
	for path, status := range map[string]int{"/livez": 200, "/readyz": 503, "/v1/events": 503, "/in/src_x": 503, "/metrics": 503} {
		rq, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(rq)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if again := resp.Header.Get("Retry-After"); resp.StatusCode != status || (again != "") != (status == 503) {
			t.Errorf("%s: %d, Retry-After %q", path, resp.StatusCode, again)
		}
	}
}

// TestANewLifeKeepsTheSignIn: after the database was opened again, people still sign in with the
// issuer.
func TestANewLifeKeepsTheSignIn(t *testing.T) {
	o := options(t.TempDir())
	o.People = &People{Name: "Corp", OIDC: oidc.Options{Issuer: "http://127.0.0.1:1", ClientID: "grapnel"}}
	s := start(t, o)
	offered := func() bool {
		w := httptest.NewRecorder()
		s.lives.ServeHTTP(w, httptest.NewRequest(http.MethodGet, s.URL()+"/login", nil))
		return strings.Contains(w.Body.String(), "Corp")
	}
	if !offered() {
		t.Fatal("the sign-in page does not offer the issuer")
	}
	s.lives.put(s.life)
	if !offered() {
		t.Error("the issuer is gone")
	}
}

// TestAStopWhileADatabaseIsOpenedIsNoFailure: the server is stopped while it waits for a database
// that does not answer, after a failover or at the start. The log does not say that it tries again.
func TestAStopWhileADatabaseIsOpenedIsNoFailure(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		if c, err := silent.Accept(); err == nil {
			defer func() { _ = c.Close() }()
			stop()
			<-t.Context().Done()
		}
	}()
	place, err := ParseStore("postgres://" + silent.Addr().String() + "/grapnel")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	l := &lives{server: newServer(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})}
	if c := l.open(ctx, newLife(place, new(postgres.History))); c != nil || log.Len() > 0 {
		t.Errorf("opened %v; logged %s", c != nil, log.String())
	}
	log.Reset()
	if _, err := l.server.openStarting(ctx, place, new(cleanup)); err == nil || log.Len() > 0 {
		t.Errorf("at the start: %v; logged %s", err, log.String())
	}
}
