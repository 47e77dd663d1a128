package importer_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/importer"
)

// newConvoy is a fake with a project in the shapes of Convoy's OpenAPI document of version 26.3.5.
func newConvoy(t *testing.T, endpoints, subscriptions []object, types any, filters map[string][]object) *there {
	t.Helper()
	return newThere(t, func(w http.ResponseWriter, r *http.Request) {
		rest, is := strings.CutPrefix(r.URL.Path, "/api/v1/projects/prj/")
		var data any
		switch parts := strings.Split(rest, "/"); {
		case is && rest == "endpoints":
			data = convoyPage(r, endpoints)
		case is && rest == "subscriptions":
			data = convoyPage(r, subscriptions)
		case is && rest == "event-types" && types != nil:
			data = types
		case is && len(parts) == 3 && parts[2] == "filters" && filters != nil:
			data = filters[parts[1]]
		default:
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(object{"status": true, "message": "fetched", "data": data})
	})
}

// convoyPage is a page whose cursor is the last uid.
func convoyPage(r *http.Request, all []object) object {
	limit, _ := strconv.Atoi(r.URL.Query().Get("perPage"))
	from := 0
	if cursor := r.URL.Query().Get("next_page_cursor"); cursor != "" {
		from = 1 + slices.IndexFunc(all, func(o object) bool { return o["uid"] == cursor })
	}
	to := min(from+limit, len(all))
	next := ""
	if to > from {
		next = all[to-1]["uid"].(string)
	}
	return object{"content": all[from:to], "pagination": object{"per_page": limit, "has_next_page": to < len(all), "next_page_cursor": next}}
}

const convoySecret = "Vuk5LM0uujddIsqO5v_eSuz88"

func convoyEndpoints() []object {
	return []object{
		{"uid": "01A", "name": "first", "description": "d", "url": "http://127.0.0.1:9/1", "owner_id": "acme", "status": "active",
			"rate_limit": 120, "rate_limit_duration": 60, "secrets": []object{{"value": "of-before-that-is-expired-now", "expires_at": "2024-01-01T00:00:00Z"},
				{"value": convoySecret, "expires_at": "0001-01-01T00:00:00Z"}},
			"authentication": object{"type": "api_key", "api_key": object{"header_name": "X-Key", "header_value": "{k}"}}},
		{"uid": "01B", "title": "earlier version", "target_url": "http://127.0.0.1:9/2", "status": "paused", "rate_limit": 5, "rate_limit_duration": "1m",
			"secrets":        []object{{"value": "short"}},
			"authentication": object{"type": "oauth2"}},
		{"uid": "01C", "name": "conditions", "url": "http://127.0.0.1:9/3", "secrets": []object{{"value": convoySecret}}},
		{"uid": "01D", "name": "without", "url": "http://127.0.0.1:9/4", "secrets": []object{{"value": convoySecret}}},
		{"uid": "01E", "name": "function", "url": "http://127.0.0.1:9/5", "secrets": []object{{"value": convoySecret}}, "mtls_client_cert": object{"client_cert": "x"}},
		{"uid": "01F", "name": "all", "url": "http://127.0.0.1:9/6", "owner_id": "not a tenant", "secrets": []object{{"value": convoySecret}}},
	}
}

func subscription(uid, endpoint string, more object, types ...string) object {
	s := object{"uid": uid, "type": "api", "endpoint_metadata": object{"uid": endpoint}, "filter_config": object{"event_types": types, "filter": object{"body": object{}, "headers": object{}}}}
	for name, value := range more {
		s[name] = value
	}
	return s
}

func convoySubscriptions() []object {
	return []object{
		subscription("s1", "01A", nil, "invoice.paid"), subscription("s2", "01A", nil, "invoice.paid", "order.made"),
		subscription("s3", "01B", nil, "*"), subscription("s4", "01C", nil, "*"),
		subscription("s5", "01E", object{"function": "function transform(p) {}"}, "*"), subscription("s6", "01F", nil, "*"),
		{"uid": "s7", "type": "cli", "device_id": "x"},
	}
}

// TestConvoyIsImportedOnce: pages, both forms of the documents, and parts without a counterpart.
func TestConvoyIsImportedOnce(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	f := newConvoy(t, convoyEndpoints(), convoySubscriptions(), []object{{"name": "*"}, {"name": "invoice.paid", "description": "d", "category": "money",
		"json_schema": []byte(`{"type":"object"}`)}, {"name": "order.made", "deprecated_at": "2025-01-01T00:00:00Z"}},
		map[string][]object{"s4": {{"event_type": "*", "body": object{"amount": object{"$gt": 5}}}}})
	found, err := importer.Convoy(t.Context(), f.remote(), "prj")
	if err != nil {
		t.Fatal(err)
	}
	plan := h.imports(found)
	h.wants(plan, "create invoice.paid", "create order.made", "create 01A", "create 01B", "skip 01C: filter: Convoy's has another language",
		"skip 01D: subscriptions: it has none", "skip 01E: function: it is JavaScript", "skip 01F: tenant: must be")
	e := h.endpoint("convoy.id=01A")
	if e.Tenant != "acme" || e.Description != "first\nd" || e.Headers["X-Key"] != "{{k}}" || e.RateLimit.PerSecond != 2 ||
		e.Format != grapnel.FormatRaw || !slices.Equal(e.EventTypes, []string{"invoice.paid", "order.made"}) {
		t.Errorf("the endpoint is %+v", e.NewEndpoint)
	}
	if got := h.secretOf(e); got != "whsec_"+base64.StdEncoding.EncodeToString([]byte(convoySecret)) {
		t.Error("the secret has other bytes")
	}
	if e := h.endpoint("convoy.id=01B"); e.Status != grapnel.EndpointPaused || len(e.EventTypes) != 0 || e.Tenant != "default" {
		t.Errorf("the endpoint is %+v", e.NewEndpoint)
	}
	lost := strings.Join(plan.Items[3].Lost, "; ")
	if !strings.Contains(lost, "secret: ") || !strings.Contains(lost, "authentication oauth2") {
		t.Errorf("not carried over: %s", lost)
	}
	if found, err = importer.Convoy(t.Context(), f.remote(), "prj"); err != nil {
		t.Fatal(err)
	}
	again := h.imports(found)
	h.wants(again, "same invoice.paid", "same order.made", "same 01A", "same 01B", "skip 01C", "skip 01D", "skip 01E", "skip 01F")
}

// TestEarlierVersionsOfConvoy: event types in another form or not at all, and filters in
// subscriptions alone.
func TestEarlierVersionsOfConvoy(t *testing.T) {
	t.Parallel()
	for _, types := range []any{nil, object{"event_types": []object{{"name": "invoice.paid"}}}} {
		f := newConvoy(t, convoyEndpoints()[:2], convoySubscriptions()[:3], types, nil)
		found, err := importer.Convoy(t.Context(), f.remote(), "prj")
		want := 2
		if types != nil {
			want = 3
		}
		if err != nil || len(found.Wants) != want {
			t.Errorf("%d objects, %v", len(found.Wants), err)
		}
	}
}
