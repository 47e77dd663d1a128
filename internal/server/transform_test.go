package server

import (
	"encoding/json"
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
