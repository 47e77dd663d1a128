//go:build linux

package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// TestAnOperatorOpensACustomersPortal: an operator finds a customer by name, opens its portal by the
// button, ticks an event type in the form of an endpoint, and sees the customer's success rate. The
// dashboard can be narrowed to the customer, and one click leads back.
func TestAnOperatorOpensACustomersPortal(t *testing.T) {
	t.Parallel()
	s := serve(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	newCustomer(t, s, "globex")
	ok(s.CreateEventType(t.Context(), client.NewEventType{Tenant: "acme", Name: "invoice.paid", Description: "An invoice was paid in full.",
		Schema: []byte(`{"type":"object"}`), Example: []byte(`{"amount":100}`)}))(t)
	ok(s.CreateEndpoint(t.Context(), client.NewEndpoint{Tenant: "acme", URL: receiver.URL, Description: "Acme ERP"}))(t)
	evt := ok(s.Publish(t.Context(), client.NewEvent{Tenant: "acme", Type: "invoice.paid", Data: []byte(`{}`)}))(t)
	s.holds("the event is delivered", func(ctx context.Context) (bool, error) {
		e, err := s.Event(ctx, evt.ID)
		return err == nil && len(e.Deliveries) == 1 && e.Deliveries[0].Status == grapnel.Delivered, err
	})

	p := openTab(t, s.url())
	p.signIn(adminKey)
	p.visit("/customers?q=acm")
	p.sees("1 customer: no endpoint is in trouble")
	p.click("td.what a", "acme")
	p.until("the customer's page", `location.pathname === "/customers/acme"`)
	p.sees("no page may frame it")
	p.click("a.btn", "Open portal")
	p.until("the form of a link", `location.pathname === "/customers/acme/portal"`)
	p.click("button.btn.go", "Make the link")
	p.sees("shown now, and never again")
	p.click("a.btn.go", "Open portal")
	p.sees("Acme ERP")
	p.sees("100 % of 1 first attempt succeeded")
	p.visit("/portal/endpoints/new")
	p.sees("An invoice was paid in full.")
	p.fill(`input[name="url"]`, receiver.URL+"/second")
	p.click(`input[value="invoice.paid"]`, "")
	p.click("button.btn.go", "Add the endpoint")
	p.sees("gets events from now on")
	found := ok(s.Endpoints(t.Context(), client.EndpointFilter{Tenant: "acme"}))(t)
	if n := len(found.Data); n != 2 || !slices.Contains(slices.Concat(found.Data[0].EventTypes, found.Data[1].EventTypes), "invoice.paid") {
		t.Errorf("%d endpoints: %+v", n, found.Data)
	}

	p.visit("/customers")
	p.click(`form[action="/customers/globex/only"] button`, "")
	p.until("the overview", `location.pathname === "/"`)
	p.visit("/endpoints")
	p.sees("Endpoint of globex")
	if strings.Contains(p.words(), "Acme ERP") {
		t.Error("another customer's endpoint is shown")
	}
	p.click(`form[action="/customers/all"] button`, "")
	p.sees("Acme ERP")
}
