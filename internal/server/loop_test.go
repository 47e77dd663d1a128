package server

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/client"
)

// TestLoopsEnd: an endpoint sends to a source whose events it subscribes to. One event comes back
// up to the limit of hops and no more.
func TestLoopsEnd(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey, o.EgressAllow = testKey, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s := start(t, o)
	c := s.client(t, testKey)
	src, err := c.CreateSource(t.Context(), client.NewSource{Name: "round", Verify: client.NewVerify{Scheme: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: s.URL() + src.IngestURL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), client.NewEvent{Type: "seed", Data: json.RawMessage(`{"n":1}`)}); err != nil {
		t.Fatal(err)
	}
	refused := func() (n int) {
		list, err := c.Deliveries(t.Context(), client.DeliveryFilter{Endpoint: ep.ID})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list.Data {
			if d.Status == "pending" && d.AttemptsMade == 1 {
				n++
			}
		}
		if len(list.Data) > 9 {
			t.Fatalf("one event has become %d", len(list.Data))
		}
		if len(list.Data) < 9 {
			return 0
		}
		return n
	}
	poll(t, "the ninth delivery is refused", func() bool { return refused() == 1 })
}

// TestPublicURL: links in answers begin with the server's public address, and no endpoint may point
// to it.
func TestPublicURL(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	o.PublicURL = &url.URL{Scheme: "https", Host: "example.com", Path: "/hooks"}
	s := start(t, o)
	c := s.client(t, testKey)
	src, err := c.CreateSource(t.Context(), client.NewSource{Name: "in", Verify: client.NewVerify{Scheme: "none"}})
	if err != nil || src.IngestURL != "https://example.com/hooks/in/"+src.ID {
		t.Errorf("%+v, %v", src, err)
	}
	if _, err := c.CreateEndpoint(
		t.Context(),
		client.NewEndpoint{URL: src.IngestURL},
	); err == nil ||
		!strings.Contains(err.Error(), "leads back to this server") {
		t.Errorf("an endpoint at one's own source: %v", err)
	}
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: "https://example.com/other"}); err != nil {
		t.Error(err)
	}
}
