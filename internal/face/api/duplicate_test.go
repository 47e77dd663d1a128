package api

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestDuplicates: each key sees the duplicates of its tenant, the latest first; an event can be
// asked for.
func TestDuplicates(t *testing.T) {
	w := newWorld(t)
	for _, d := range []grapnel.Duplicate{
		{Event: "evt_a", Tenant: "acme", Times: 2, First: w.clock.Add(-time.Hour), Last: w.clock},
		{Event: "evt_g", Tenant: "globex", Source: "src_1", Times: 1, First: w.clock, Last: w.clock.Add(time.Second)}} {
		body, err := store.EncodeDuplicates(nil, []grapnel.Duplicate{d})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.PutDocuments(t.Context(), store.Everyone(), []store.DocumentWrite{{Document: store.Document{Tenant: d.Tenant,
			Kind: store.DuplicatesKind, ID: d.Tenant, At: d.Last, Body: body}}}, store.With{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		key, query string
		want       []string
	}{
		{admin, "", []string{"evt_g", "evt_a"}}, {admin, "?tenant=acme", []string{"evt_a"}}, {admin, "?event=evt_g", []string{"evt_g"}},
		{acmeAdmin, "", []string{"evt_a"}}, {acmeAdmin, "?event=evt_g", nil},
	} {
		data := w.as(c.key, 200, "GET", "/v1/duplicates"+c.query, "")["data"].([]any)
		ok := len(data) == len(c.want)
		for i := range c.want {
			ok = ok && data[i].(map[string]any)["event_id"] == c.want[i]
		}
		if !ok {
			t.Errorf("%s: %v, want %v", c.query, data, c.want)
		}
	}
	got := w.as(acmeAdmin, 200, "GET", "/v1/duplicates", "")["data"].([]any)[0].(map[string]any)
	if got["times"] != 2.0 || got["source"] != nil {
		t.Errorf("answered %v", got)
	}
}
