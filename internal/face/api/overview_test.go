package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
)

// An overview counts what other calls list: pending deliveries, dead letters and endpoints. It
// shows a tenant only its own.
func TestOverviewCountsWhatListsShow(t *testing.T) {
	w := newWorld(t)
	w.endpoint(admin, "")
	other := w.endpoint(acmeAdmin, "")
	for range 2 {
		w.as(admin, 202, "POST", "/v1/events", `{"type":"a","data":1}`)
	}
	w.as(acmeAdmin, 202, "POST", "/v1/events", `{"type":"a","data":1}`)
	w.as(acmeAdmin, 200, "POST", "/v1/endpoints/"+other+"/pause", "{}")
	get := func(key, query string) map[string]any {
		t.Helper()
		return w.as(key, 200, "GET", "/v1/overview"+query, "")
	}
	for _, c := range []struct {
		key, query                  string
		all, held, endpoints, pause float64
	}{
		{admin, "", 3, 1, 2, 1},
		{admin, "?tenant=acme", 1, 1, 1, 1},
		{acmeAdmin, "", 1, 1, 1, 1},
	} {
		got := get(c.key, c.query)
		pending, states := got["pending"].(map[string]any), got["endpoints"].(map[string]any)
		is := []any{pending["all"], pending["held"], states["all"], states["paused"]}
		if d := cmp.Diff([]any{c.all, c.held, c.endpoints, c.pause}, is); d != "" {
			t.Errorf("%s %s: %s", c.key, c.query, d)
		}
		sum := 0.0
		for _, state := range []string{"ready", "scheduled", "leased", "held", "waiting"} {
			sum += pending[state].(float64)
		}
		if sum != pending["all"] {
			t.Errorf("%s %s: the states add up to %v of %v", c.key, c.query, sum, pending["all"])
		}
		if len(got["ahead"].([]any)) != 35 || got["oldest_pending_at"] == nil {
			t.Errorf("%s %s: %v", c.key, c.query, got)
		}
	}
	if got := get(acmeAdmin, "?tenant=default")["pending"].(map[string]any)["all"]; got != 0.0 {
		t.Errorf("acme sees %v deliveries of another tenant", got)
	}
}

// TestAnOverviewSaysThatEventsAreRefused: in the words of /readyz, which name nothing secret.
func TestAnOverviewSaysThatEventsAreRefused(t *testing.T) {
	var why error
	w := newWorld(t, func(o *Options) { o.Ready = func() error { return why } })
	for _, why = range []error{nil, grapnel.Errorf(grapnel.CodeStorageFull, "no space left on /secret")} {
		var want any
		if why != nil {
			want = Plainly(why)
		}
		if got := w.as(admin, 200, "GET", "/v1/overview", "")["refuses"]; got != want {
			t.Errorf("with %v: %v", why, got)
		}
	}
}
