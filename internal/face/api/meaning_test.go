package api

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/grapnelhq/grapnel"
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
	// Another tenant has none of it; a portal without payloads finds keys, and no text.
	w.key("key_globex", "grp_test_globex", "globex", grapnel.ScopeAdmin)
	for _, word := range []string{"order_14", "invoice.paid", "my-own-id"} {
		if got := w.as("grp_test_globex", 200, "GET", "/v1/search?word="+word, ""); got["as"] != "text" {
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
