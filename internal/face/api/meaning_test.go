package api

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestABareWordFindsIdsKeysAndTypes: a word that is on the screen finds its deliveries, whatever it
// is; text in data is looked for only where it is none of them.
func TestABareWordFindsIdsKeysAndTypes(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(acmeAdmin, "")
	other := w.endpoint(acmeAdmin, `,"event_types":["invoice.paid"]`)
	for _, body := range []string{
		`{"type":"invoice.paid","key":"order_14","data":{"note":"refund of invoice.sent, bike"}}`,
		`{"type":"invoice.sent","key":"order_15","id":"my-own-id","data":{"note":"order_14 is before"}}`,
		`{"type":"user.made","data":1}`,
	} {
		w.as(acmeAdmin, 202, "POST", "/v1/events", body)
	}
	own := w.as(acmeAdmin, 200, "GET", "/v1/events/my-own-id", "")["deliveries"].([]any)
	dlv := own[0].(map[string]any)["id"].(string)
	for word, want := range map[string]struct {
		as string
		n  int
	}{
		"order_14": {"key", 2}, "order_15": {"key", 1}, "invoice.paid": {"type", 2}, "invoice.*": {"type", 3}, "invoice.sent": {"type", 1},
		"my-own-id": {"event", 1}, dlv: {"delivery", 1}, ep: {"endpoint", 3}, other: {"endpoint", 1}, "bike": {"text", 2},
		"none.such": {"text", 0},
		"nothing":   {"text", 0}, "dlv_none": {"delivery", 0}, "evt_none": {"event", 0}, "ü": {"text", 0},
	} {
		if got := w.as(acmeAdmin, 200, "GET", "/v1/search?word="+url.QueryEscape(word), ""); got["as"] != want.as || got["word"] != word {
			t.Errorf("%s is %v, want %s", word, got, want.as)
		}
		for more, n := range map[string]int{"": want.n, " status:pending": want.n, " status:failed": 0, " replayed:yes": 0} {
			search := word + more
			got := w.as(acmeAdmin, 200, "GET", "/v1/deliveries?filter="+url.QueryEscape(search), "")["data"].([]any)
			if len(got) != n {
				t.Errorf("%s: found %d, want %d", search, len(got), n)
			}
		}
	}
	for search, n := range map[string]int{`"order_14"`: 1, "order_14 key:order_15": 1, "refund bike": 0,
		"invoice.paid key:order_15": 0, "bike type:invoice.paid": 2} {
		got := w.as(acmeAdmin, 200, "GET", "/v1/deliveries?filter="+url.QueryEscape(search), "")["data"].([]any)
		if len(got) != n {
			t.Errorf("%s: found %d, want %d", search, len(got), n)
		}
	}
	// Names come after ids, keys and types, and before text.
	w.as(acmeAdmin, 200, "PATCH", "/v1/endpoints/"+other, `{"description":"Old bike-CRM"}`)
	w.as(acmeAdmin, 200, "PATCH", "/v1/endpoints/"+ep, `{"description":"user.made"}`)
	src := w.as(acmeAdmin, 201, "POST", "/v1/sources", `{"name":"stripe-live","verify":{"scheme":"stripe","secret":"whsec_abcdefgh"}}`)["id"].(string)
	ev := grapnel.Event{ID: "evt_stripe", Tenant: "acme", Type: "charge.made", Source: src, Data: []byte("{}"), ContentType: grapnel.JSONType, AcceptedAt: w.clock}
	if _, err := w.engine.Publish(t.Context(), []store.Incoming{{Event: &ev}}, nil); err != nil {
		t.Fatal(err)
	}
	for search, want := range map[string]struct {
		as, id string
		n      int
	}{
		"bike-crm": {"endpoint", other, 1}, "BIKE-CRM": {"endpoint", other, 1}, "user.made": {"type", "", 1}, "old": {"endpoint", other, 1},
		"bike": {"text", "", 2}, "stripe-live": {"source", src, 1}, "Stripe-Live": {"source", src, 1}, "stripe": {"text", "", 0},
	} {
		got := w.as(acmeAdmin, 200, "GET", "/v1/search?word="+search, "")
		if id, _ := got["id"].(string); got["as"] != want.as || id != want.id {
			t.Errorf("%s is %v, want %v", search, got, want)
		}
		if got := w.as(acmeAdmin, 200, "GET", "/v1/deliveries?filter="+search, "")["data"].([]any); len(got) != want.n {
			t.Errorf("%s: found %d, want %d", search, len(got), want.n)
		}
	}
	for search, n := range map[string]int{"source:stripe": 1, "source:" + src: 1, "source:stripe-live charge.made": 1, "source:stripe invoice.paid": 0,
		"evt_stripe source:stripe": 1, "my-own-id source:stripe": 0} {
		if got := w.as(acmeAdmin, 200, "GET", "/v1/deliveries?filter="+url.QueryEscape(search), "")["data"].([]any); len(got) != n {
			t.Errorf("%s: found %d, want %d", search, len(got), n)
		}
	}
	w.as(acmeAdmin, 422, "GET", "/v1/deliveries?filter=source:none", "")
	if got := w.as(admin, 200, "GET", "/v1/search?word=acme", ""); got["as"] != "tenant" || got["id"] != "acme" {
		t.Errorf("a tenant is %v", got)
	}
	things := w.as(acmeAdmin, 200, "GET", "/v1/search?word=STRIPE", "")["things"].([]any)
	if len(things) != 1 || things[0].(map[string]any)["id"] != src {
		t.Errorf("a part of a name finds %v", things)
	}
	// A customer finds no source, not even by its name.
	if got := w.as(w.pass(portalScopes), 200, "GET", "/v1/search?word=stripe-live", ""); got["as"] != "text" || len(got["things"].([]any)) > 0 {
		t.Errorf("a customer finds %v", got)
	}
	w.as(w.pass(portalScopes), 422, "GET", "/v1/deliveries?filter=source:stripe-live", "")
	// Another tenant has none of it; a portal without payloads finds keys, and no text.
	w.key("key_globex", "grp_test_globex", "globex", grapnel.ScopeAdmin)
	for _, word := range []string{"order_14", "invoice.paid", "my-own-id", "stripe-live", "bike-crm", "acme"} {
		if got := w.as("grp_test_globex", 200, "GET", "/v1/search?word="+word, ""); got["as"] != "text" || len(got["things"].([]any)) > 0 {
			t.Errorf("of another tenant: %v", got)
		}
	}
	viewer := w.pass([]grapnel.Scope{grapnel.ScopeRead})
	if got := w.as(viewer, 200, "GET", "/v1/deliveries?filter=order_14", "")["data"].([]any); len(got) != 2 {
		t.Errorf("a viewer finds %v", got)
	}
	w.as(viewer, 403, "GET", "/v1/deliveries?filter=bike", "")
	// Pages of an event's deliveries.
	cursor, n := "", 0
	for page := 1; ; page++ {
		got := w.as(acmeAdmin, 200, "GET", "/v1/deliveries?limit=1&filter=order_14"+cursor, "")
		n += len(got["data"].([]any))
		if got["next"] == nil {
			break
		}
		cursor = fmt.Sprintf("&cursor=%v", got["next"])
	}
	if n != 2 {
		t.Errorf("page by page %d are found", n)
	}
}
