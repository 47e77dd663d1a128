package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/minutes"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/policy"
)

// town is two databases in one PostgreSQL, and the options of a server that serves both.
func town(t *testing.T) (Options, *pgtest.Server) {
	t.Helper()
	db := databases(t, "home", "west")
	t.Chdir(t.TempDir()) // the admin key is written here
	o := options("")
	o.AdminKey, o.Lease = testKey, LeastLease
	o.Store, o.Cells = db.URL("home"), []CellOptions{{"west", db.URL("west")}}
	return o, db
}

// moves moves a tenant to a cell and waits for the end of the move.
func moves(t *testing.T, c *client.Client, tenant, to string) {
	t.Helper()
	if _, err := c.MoveTenant(t.Context(), tenant, to, "for the test"); err != nil {
		t.Fatal(err)
	}
	limit := time.Now().Add(30 * time.Second)
	for {
		is, err := c.Tenant(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		if is.Settled() && is.Cell == to {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("it is %+v", is)
		}
	}
}

// Answers that passes of a tenant got move with it: a link that has opened a portal opens none
// after the move, and a repeated request has no second effect.
func TestAnswersToPassesMove(t *testing.T) {
	o, _ := town(t)
	s := start(t, o)
	c, by := s.inCell(t, ""), s.consumer(t)
	s.settles(t, c)
	link := by.must(http.StatusCreated, "POST", "/v1/tenants/acme/portal-links", `{"scopes":["endpoints:write"]}`)
	_, code, _ := strings.Cut(link["url"].(string), "#")
	opens := []string{"Authorization", "Bearer " + code}
	session := by.must(http.StatusCreated, "POST", "/v1/portal-sessions", "", opens...)["pass"].(string)
	create := func() map[string]any {
		t.Helper()
		return by.must(http.StatusCreated, "POST", "/v1/endpoints", `{"url":"https://example.com/"}`, "Authorization", "Bearer "+session,
			"Idempotency-Key", "one")
	}
	before := create()
	moves(t, c, "acme", "west")
	if status, _, body := by.ask("POST", "/v1/portal-sessions", "", opens...); status != http.StatusUnauthorized {
		t.Errorf("the link opens a portal again: %d %s", status, body)
	}
	if again := create(); again["id"] != before["id"] {
		t.Errorf("the repeated request has created %v besides %v", again["id"], before["id"])
	}
}

// A request with a key that is bound to no tenant is answered as the first time, also if the tenant
// has moved since, in whichever direction.
func TestAnswersToKeysWithoutATenant(t *testing.T) {
	o, _ := town(t)
	s := start(t, o)
	ctx, c, by := t.Context(), s.inCell(t, ""), s.consumer(t)
	s.settles(t, c)
	ep, err := c.CreateEndpoint(ctx, client.NewEndpoint{URL: "https://example.com/", Tenant: "acme", EventTypes: []string{"none"}})
	if err != nil {
		t.Fatal(err)
	}
	rotate := func() any {
		return by.must(http.StatusOK, "POST", "/v1/endpoints/"+ep.ID+"/rotate-secret", "", "Idempotency-Key", "rotate")["secret"]
	}
	publish := func() any {
		return by.must(http.StatusAccepted, "POST", "/v1/events", `{"tenant":"acme","type":"a.b","data":1}`, "Idempotency-Key", "publish")["id"]
	}
	secret := rotate()
	moves(t, c, "acme", "west")
	if again := rotate(); again != secret {
		t.Errorf("the secret is rotated twice, to %v and %v", secret, again)
	}
	event := publish()
	moves(t, c, "acme", "home")
	if again := publish(); again != event {
		t.Errorf("one request has published %v and %v", event, again)
	}
}

// A consumer that waits for a message while its tenant moves is asked to repeat, or waits on in the
// other cell. It is not told that its key or its queue does not exist.
func TestAConsumerWaitsThroughAMove(t *testing.T) {
	o, _ := town(t)
	s := start(t, o)
	ctx, c, by := t.Context(), s.inCell(t, ""), s.consumer(t)
	s.settles(t, c)
	k, err := c.CreateKey(ctx, client.NewKey{Name: "acme", Scopes: []grapnel.Scope{grapnel.ScopeConsume}, Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateQueue(ctx, client.NewQueue{Name: "jobs", Tenant: "acme"}); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"west", "home"} {
		answers := make(chan int, 2)
		for _, key := range []string{k.Secret, testKey} {
			go func() {
				status, _, _ := by.ask("GET", "/v1/queues/jobs/next?wait=20s", "", "Authorization", "Bearer "+key)
				answers <- status
			}()
		}
		poll(t, "both wait", func() bool {
			q, err := c.Queue(ctx, "jobs")
			return err == nil && len(q.Consumers) == 2
		})
		moves(t, c, "acme", to)
		if _, err := c.Publish(ctx, client.NewEvent{Tenant: "acme", Type: "a.b", Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if status := <-answers; status != http.StatusOK && status != http.StatusServiceUnavailable {
				t.Errorf("to %s: answered %d", to, status)
			}
		}
		by.must(http.StatusOK, "POST", "/v1/queues/jobs/purge?tenant=acme", `{"confirm":"jobs"}`)
	}
}

// A lease holds while its tenant moves away and comes back: the server that granted it does not
// take it for ended.
func TestALeaseThroughTwoMoves(t *testing.T) {
	o, _ := town(t)
	s := start(t, o)
	ctx, c := t.Context(), s.inCell(t, "")
	s.settles(t, c)
	if _, err := c.CreateQueue(ctx, client.NewQueue{Name: "jobs", Tenant: "acme", Lease: policy.Duration(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(ctx, client.NewEvent{Tenant: "acme", Type: "a.b", Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	m, err := c.Next(ctx, "jobs", client.Take{})
	if err != nil || len(m) != 1 {
		t.Fatal(m, err)
	}
	moves(t, c, "acme", "west")
	moves(t, c, "acme", "home")
	if err := c.Ack(ctx, m[0].Lease); err != nil {
		t.Error(err)
	}
	if err := c.Ack(ctx, m[0].Lease); answered(t, err) != http.StatusConflict {
		t.Errorf("the second ack: %v", err)
	}
	if d, err := c.Delivery(ctx, m[0].DeliveryID); err != nil || d.Status != grapnel.Delivered {
		t.Errorf("it is %+v, %v", d, err)
	}
}

// settles waits until all shards of both cells have this node. c is a client of the first cell.
func (r running) settles(t *testing.T, c *client.Client) {
	t.Helper()
	poll(t, "all shards have a node", func() bool {
		return settled(member{r, c, nil}.status(t), 1) && settled(member{r, r.inCell(t, "west"), nil}.status(t), 1)
	})
}

// The hours that a tenant brings are no minute of the cell that it comes to.
func TestMinutesOfATenantThatCame(t *testing.T) {
	o, _ := town(t)
	s := start(t, o)
	ctx, c := t.Context(), s.inCell(t, "")
	s.settles(t, c)
	url, got := receiving(t)
	ep, err := c.CreateEndpoint(ctx, client.NewEndpoint{URL: url, Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(ctx, client.NewEvent{Tenant: "acme", Type: "a.b", Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	<-got
	west := s.cells[1]
	now := time.Now().Truncate(time.Minute)
	k := minutes.New(minutes.Options{Store: west.store, Log: o.Log, Now: func() time.Time { return now }, Came: west.came})
	read := func() {
		t.Helper()
		if err := k.Read(ctx); err != nil {
			t.Fatal(err)
		}
	}
	read()
	moves(t, c, "acme", "west")
	now = now.Add(time.Minute)
	read()
	if from, to, list := k.Of(ep.ID); len(list) > 0 || !from.Equal(to) {
		t.Errorf("known from %s to %s: %+v", from, to, list)
	}
}

// Every request about a tenant reaches its current cell, with the tenant's own keys and with a key
// that is bound to no tenant.
func TestTenantInAnotherCell(t *testing.T) {
	o, _ := town(t)
	s := start(t, o)
	ctx, c := t.Context(), s.inCell(t, "")
	s.settles(t, c)
	url, got := receiving(t)
	k, err := c.CreateKey(ctx, client.NewKey{Name: "acme", Scopes: []grapnel.Scope{grapnel.ScopeAdmin}, Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	acme := s.client(t, k.Secret)
	made := func(c *client.Client, tenant string) (*client.Endpoint, *client.Source) {
		t.Helper()
		ep, err := c.CreateEndpoint(ctx, client.NewEndpoint{URL: url, Tenant: tenant, EventTypes: []string{"a.*"}})
		if err != nil {
			t.Fatal(err)
		}
		src, err := c.CreateSource(
			ctx,
			client.NewSource{Name: "hub-" + ep.ID, Tenant: tenant, Verify: client.NewVerify{Scheme: "github", Secret: "the-first-one"}},
		)
		if err != nil {
			t.Fatal(err)
		}
		return ep, src
	}
	before, hub := made(acme, "")
	if _, err := c.CreateQueue(ctx, client.NewQueue{Name: "jobs", Tenant: "acme"}); err != nil {
		t.Fatal(err)
	}
	ep, _ := made(c, "")
	n := 0
	arrives := func(c *client.Client, tenant string) string {
		t.Helper()
		n++
		p, err := c.Publish(ctx, client.NewEvent{Type: "a.b", Data: fmt.Appendf(nil, "%d", n), Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		if id := <-got; id != p.ID {
			t.Errorf("%s has arrived, not %s", id, p.ID)
		}
		return p.ID
	}
	early := arrives(acme, "")
	arrives(c, "acme")
	arrives(c, "")

	for _, cell := range []string{"west", "home"} {
		moves(t, c, "acme", cell)
		arrives(acme, "")
		arrives(c, "acme")
		arrives(c, "")
		if taken := s.hub(t, hub, "the-first-one").send("from "+cell, `{"n":1}`); taken.status >= 300 {
			t.Errorf("in %s a webhook is answered %+v", cell, taken)
		}
		// By id, with the admin key: read, change, act on it.
		if e, err := c.Event(ctx, early); err != nil || e.Tenant != "acme" || len(e.Deliveries) != 2 {
			t.Errorf("in %s the first event is %+v, %v", cell, e, err)
		}
		if e, err := c.PauseEndpoint(ctx, before.ID, "moved"); err != nil || e.Status != grapnel.EndpointPaused {
			t.Errorf("in %s pausing: %+v, %v", cell, e, err)
		}
		if e, err := acme.ResumeEndpoint(ctx, before.ID, "moved"); err != nil || e.Status != grapnel.EndpointEnabled {
			t.Errorf("in %s resuming: %+v, %v", cell, e, err)
		}
		if l, err := c.Endpoints(ctx, client.EndpointFilter{Tenant: "acme"}); err != nil || len(l.Data) != 1 || l.Data[0].ID != before.ID {
			t.Errorf("in %s its endpoints are %+v, %v", cell, l, err)
		}
		if m, err := c.Next(ctx, "jobs", client.Take{}); err != nil || len(m) != 1 {
			t.Errorf("in %s the queue gives %+v, %v", cell, m, err)
		} else if err := c.Ack(ctx, m[0].Lease); err != nil {
			t.Errorf("in %s what came of it: %v", cell, err)
		}
		m, err := c.Next(ctx, "jobs", client.Take{Max: 2})
		if err != nil || len(m) != 2 {
			t.Fatalf("in %s the queue gives %+v, %v", cell, m, err)
		}
		if _, err := c.Extend(ctx, m[0].Lease, time.Minute); err != nil {
			t.Errorf("in %s a lease is not longer: %v", cell, err)
		}
		by := s.consumer(t)
		if got := by.must(
			http.StatusOK,
			http.MethodPost,
			"/v1/leases/settle",
			fmt.Sprintf(`{"acks":[%q,%q,"lse_none"]}`, m[0].Lease, m[1].Lease),
		); got["settled"] != 2.0 {
			t.Errorf("in %s of three leases: %v", cell, got)
		}
		if l, err := c.Deliveries(ctx, client.DeliveryFilter{Endpoint: before.ID}); err != nil || len(l.Data) == 0 {
			t.Errorf("in %s the endpoint has deliveries %+v, %v", cell, l, err)
		}
		if _, err := c.CreateKey(ctx, client.NewKey{Name: "later", Scopes: []grapnel.Scope{grapnel.ScopeRead}, Tenant: "acme"}); err != nil {
			t.Errorf("in %s a key: %v", cell, err)
		}
		// One request for two cells is refused as a whole.
		both := []client.NewEvent{{Type: "c.d", Data: []byte("1"), Tenant: "acme"}, {Type: "c.d", Data: []byte("1")}}
		if _, err := c.PublishBatch(ctx, both); (answered(t, err) == http.StatusMisdirectedRequest) != (cell == "west") {
			t.Errorf("in %s a batch of two tenants: %v", cell, err)
		}
		if e, err := c.Endpoint(ctx, ep.ID); err != nil || e.Tenant != "default" {
			t.Errorf("in %s the endpoint of home is %+v, %v", cell, e, err)
		}
		if answer := answered(t, c.DeleteEndpoint(ctx, "ep_none", "")); answer != http.StatusNotFound {
			t.Errorf("in %s what is nowhere is answered %d", cell, answer)
		}
	}
	m := member{running: s}
	for kind, want := range map[string]float64{"api": 2, "source": 1} {
		if n := m.measured(t, fmt.Sprintf(`grapnel_events_accepted_total{cell="west",source_kind=%q}`, kind)); n != want {
			t.Errorf("west has accepted %v events of kind %s, not %v", n, kind, want)
		}
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}
