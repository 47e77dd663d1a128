//go:build linux

package browser

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// cast is one thing of each kind that pages show, by the beginning of the paths of its pages.
type cast struct {
	t   *testing.T
	ids map[string]string
}

// fill puts the cast's ids into the pattern of a page.
func (c *cast) fill(pattern string) string {
	path := strings.TrimSuffix(pattern, "{$}")
	for prefix, id := range c.ids {
		if strings.HasPrefix(strings.TrimPrefix(path, "/portal"), prefix+"/{id}") {
			path = strings.ReplaceAll(path, "{id}", id)
		}
	}
	if strings.Contains(path, "{") {
		c.t.Errorf("%s: there is nothing to show; add something of this kind to the cast", pattern)
	}
	return path
}

// issue waits for an issue of an endpoint that has failed, and puts it into the cast.
func (s *server) issue(c *cast, endpoint string) {
	s.holds("its failures have become an issue", func(ctx context.Context) (bool, error) {
		found, err := s.Issues(ctx, client.IssueFilter{Endpoint: endpoint})
		if err != nil || len(found.Data) == 0 {
			return false, err
		}
		c.ids["/issues"] = found.Data[0].ID
		return true, nil
	})
}

// strict is a policy by which a receiver that answers 422 has refused for good.
const strict = `{"name":"strict","classify":{"422":"fail"},"schedule":{"mode":"since_previous","delays":["0s","1h"],"tail":"stop"}}`

// populate gives a server something of each kind: endpoints that work, refuse and are down,
// deliveries that arrived, died and wait, a replay, a request in quarantine, a queue with a
// message.
func populate(t *testing.T, s *server) *cast {
	t.Helper()
	ctx := t.Context()
	good := receiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	refusing := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"error":"currency JPY is not supported"}`))
	})
	c := &cast{t, map[string]string{}}
	pol := ok(s.CreatePolicy(ctx, []byte(strict)))(t)
	fine := ok(s.CreateEndpoint(ctx, client.NewEndpoint{URL: good, Description: "Acme, production"}))(t)
	bad := ok(s.CreateEndpoint(ctx, client.NewEndpoint{URL: refusing, Description: "Ledger", EventTypes: []string{"payment.*"},
		Policy: "strict"}))(t)
	down := ok(s.CreateEndpoint(ctx, client.NewEndpoint{URL: "http://127.0.0.1:9/hooks", Description: "Globex, staging",
		Policy: "strict"}))(t)
	ok(s.CreateEndpoint(ctx, client.NewEndpoint{URL: good, Description: "Paused for the weekend", Status: grapnel.EndpointPaused}))(t)
	ok(s.CreateQueue(ctx, client.NewQueue{Name: "orders", EventTypes: []string{"order.*"}}))(t)
	for i := range 12 {
		kind := []string{"payment.made", "invoice.paid", "order.placed"}[i%3]
		data := fmt.Appendf(nil, `{"amount":%d,"currency":"JPY","customer":{"name":"Customer %d","vip":%v}}`, 100*i, i, i%2 == 0)
		ok(s.Publish(ctx, client.NewEvent{Type: kind, Key: fmt.Sprint("customer_", i%4), Data: data}))(t)
	}
	s.holds("four payments are dead, the others have arrived", func(ctx context.Context) (bool, error) {
		dead, err := s.DeadLetters(ctx, client.DeliveryFilter{Endpoint: bad.ID})
		if err != nil {
			return false, err
		}
		there, err := s.Deliveries(ctx, client.DeliveryFilter{Endpoint: fine.ID, Status: []grapnel.Status{grapnel.Delivered}})
		if err != nil {
			return false, err
		}
		c.ids["/deliveries"] = ""
		if len(dead.Data) > 0 {
			c.ids["/deliveries"], c.ids["/events"] = dead.Data[0].ID, dead.Data[0].EventID
		}
		return len(dead.Data) == 4 && len(there.Data) >= 12, nil // operational events arrive too
	})
	s.issue(c, bad.ID)
	rpl := ok(s.StartReplay(ctx, bad.ID, client.NewReplay{}))(t)
	src := ok(s.CreateSource(ctx, client.NewSource{Name: "github", Description: "Pushes", OnUnverified: "quarantine",
		Verify: client.NewVerify{Scheme: "github", Secret: "secret of the test"}}))(t)
	hook := s.url() + "/in/" + src.ID + "?team=billing"
	resp := ok(http.Post(hook, "application/json", strings.NewReader(`{"action":"opened"}`)))(t) //nolint:noctx // as a provider
	_ = resp.Body.Close()
	inbox := ok(s.Inbox(ctx, client.InboxFilter{Source: src.ID}))(t)
	if len(inbox.Data) != 1 {
		t.Fatalf("%d requests in quarantine", len(inbox.Data))
	}
	ok(s.CreateKey(ctx, client.NewKey{Name: "ci", Scopes: []grapnel.Scope{grapnel.ScopeRead}}))(t)
	kind := ok(s.CreateEventType(ctx, client.NewEventType{Name: "payment.made", Description: "A payment was made"}))(t)
	incident := ok(s.OpenIncident(ctx, client.NewIncident{Title: "Publishing is slow", Text: "We look into it."}))(t)
	channel := ok(s.CreateChannel(ctx, client.NewChannel{URL: "ntfy://ntfy.sh/topic", Description: "on call"}))(t)
	for prefix, id := range map[string]string{
		"/incidents": incident.ID, "/channels": channel.ID, "/endpoints": down.ID, "/replays": rpl.ID, "/sources": src.ID,
		"/inbox": inbox.Data[0].ID, "/alerts": s.alertAbout(t, down.ID), "/alert-rules": "dead_letters", "/queues": "orders", "/policies": pol.ID,
		"/event-types": kind.ID, "/customers": "default",
		"/ordering-keys": down.ID + "?key=customer_1"} {
		c.ids[prefix] = id
	}
	return c
}
