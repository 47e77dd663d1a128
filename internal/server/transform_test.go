package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// TestLongBodiesOfTransformsAreShown: a body that --max-event allows is delivered, previewed, and
// rebuilt to compare its signature.
func TestLongBodiesOfTransformsAreShown(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey, o.MaxEvent = testKey, 1<<20
	s := start(t, o)
	c := s.client(t, testKey)
	url, got := receiving(t)
	ep, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: url, Transform: `{once: .data, twice: .data}`})
	if err != nil {
		t.Fatal(err)
	}
	ev := client.NewEvent{Type: "long", Data: json.RawMessage(`"` + strings.Repeat("a", 900<<10) + `"`)}
	p, err := c.Preview(t.Context(), ev, ep.ID)
	if err != nil {
		t.Fatal(err)
	}
	if p.Request == nil || len(p.Request.Body) < 1800<<10 {
		t.Errorf("the preview has the request %.100v", p.Request)
	}
	if _, err := c.Publish(t.Context(), ev); err != nil {
		t.Fatal(err)
	}
	<-got
	var d client.Delivery
	poll(t, "it is delivered", func() bool {
		list, err := c.Deliveries(t.Context(), client.DeliveryFilter{Endpoint: ep.ID})
		if err != nil || len(list.Data) != 1 {
			t.Fatal(list, err)
		}
		d = list.Data[0]
		return d.Status == grapnel.Delivered
	})
	is, err := c.Signature(t.Context(), d.ID, 1)
	if err != nil || is.Verdict != "current" {
		t.Errorf("the signature: %+v, %v", is, err)
	}
}

// TestFailuresHidePayloads: a viewer without payloads sees that a transform has failed, and not the
// data that the error quotes.
func TestFailuresHidePayloads(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	c := s.client(t, testKey)
	_, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: "http://127.0.0.1:9", Transform: `.data.card + 1`})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte(`{"card":"payload-canary"}`)}); err != nil {
		t.Fatal(err)
	}
	var d client.Delivery
	poll(t, "the transform fails", func() bool {
		list, err := c.Deliveries(t.Context(), client.DeliveryFilter{})
		if err != nil || len(list.Data) != 1 {
			t.Fatal(list, err)
		}
		d = list.Data[0]
		return d.Status == grapnel.Failed
	})
	link, err := c.CreatePortalLink(t.Context(), d.Tenant, client.NewPortalLink{Scopes: []grapnel.Scope{grapnel.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, s.URL())
	_, code, _ := strings.Cut(link.URL, "#")
	_, header, _ := b.ask("POST", "/portal/open", url.Values{"code": {code}})
	pass, _, _ := strings.Cut(strings.TrimPrefix(header.Get("Set-Cookie"), "grapnel_portal="), ";")
	viewer := s.client(t, pass)
	for _, path := range []string{"/v1/deliveries", "/v1/deliveries/" + d.ID, "/v1/dead-letters", "/v1/events/" + d.EventID} {
		shown := func(c *client.Client) string {
			var answer json.RawMessage
			if err := c.Do(t.Context(), "GET", path, nil, nil, &answer); err != nil {
				t.Fatal(err)
			}
			return string(answer)
		}
		if is := shown(c); !strings.Contains(is, "payload-canary") {
			t.Errorf("%s does not show the error: %s", path, is)
		}
		if is := shown(viewer); strings.Contains(is, "payload-canary") || !strings.Contains(is, "gives no body for this event") {
			t.Errorf("%s shows %s", path, is)
		}
	}
}

// receiving is an endpoint that passes on the ids of events.
func receiving(t *testing.T) (url string, got chan string) {
	got = make(chan string, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("webhook-id") }))
	t.Cleanup(s.Close)
	return s.URL, got
}
