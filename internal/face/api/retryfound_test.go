package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// TestRetryFound: a search across endpoints makes due now the first pending delivery of each key
// that matches, within the caller's tenant; a repetition changes nothing.
func TestRetryFound(t *testing.T) {
	w := newWorld(t)
	w.endpoint(admin, "")
	w.endpoint(admin, "")
	w.endpoint(acmeAdmin, "")
	const endpoints, keys, each = 2, 3, 4
	for _, by := range []string{admin, acmeAdmin} {
		for k := range keys {
			for range each {
				w.as(by, 202, "POST", "/v1/events", fmt.Sprintf(`{"type":"a","data":1,"key":"k%d"}`, k))
			}
		}
	}
	w.failHeads()
	ask := func(by, query string) (matched, retried int) {
		next := ""
		for {
			got := w.as(by, 200, "POST", "/v1/deliveries/retry?limit=5&filter="+query+next, `{"reason":"fixed"}`)
			matched += int(got["matched"].(float64))
			retried += int(got["retried"].(float64))
			if got["next"] == nil {
				return matched, retried
			}
			next = "&cursor=" + got["next"].(string)
		}
	}
	w.clock = w.clock.Add(time.Second)
	for _, c := range []struct {
		by, query        string
		matched, retried int
	}{
		{admin, "code:422", 0, 0},
		{acmeAdmin, "key:k0", each, 1},
		{admin, "status:pending,held+tenant:default+key:k1", endpoints * each, endpoints},
		{admin, "status:pending,held+tenant:default", endpoints * keys * each, endpoints * (keys - 1)},
		{admin, "status:pending,held+tenant:default", endpoints * keys * each, 0},
		{acmeAdmin, "status:held", keys * (each - 1), keys - 1},
	} {
		if matched, retried := ask(c.by, c.query); matched != c.matched || retried != c.retried {
			t.Errorf("%s: %d match and %d are retried, want %d and %d", c.query, matched, retried, c.matched, c.retried)
		}
	}
	w.must(422, "POST", "/v1/deliveries/retry?filter=status:failed", "")
}

// failHeads has one attempt of each key's first delivery fail; the next one is in an hour.
func (w *world) failHeads() {
	w.t.Helper()
	all, err := w.engine.DeliveryList(w.t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range all {
		if d.Waiting.Head {
			w.attempt(&d, 1, 503, w.clock.Add(time.Hour))
		}
	}
}

// endless is an engine in which every order to retry has reached its bound.
type endless struct{ Engine }

func (e endless) RetryAll(ctx context.Context, scope store.Scope, endpoint string, s *grapnel.Selection, by grapnel.By) (int, bool, error) {
	n, _, err := e.Engine.RetryAll(ctx, scope, endpoint, s, by)
	return n, true, err
}

// TestRetryOfAnEndpoint: it makes due the first delivery of each key that the selection wants, says
// whether there are more, and with an open circuit it only probes, unless the circuit is open no
// more. Other tenants have no such endpoint.
func TestRetryOfAnEndpoint(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	w.endpoint(admin, "")
	const keys = 3
	for k := range 2 * keys {
		w.must(202, "POST", "/v1/events", fmt.Sprintf(`{"type":"a","data":1,"key":"k%d"}`, k%keys))
	}
	w.failHeads()
	path := "/v1/endpoints/" + ep + "/retry"
	w.as(acmeAdmin, 404, "POST", path, "")
	for i, c := range []struct {
		body    string
		health  grapnel.HealthState
		still   error
		more    bool
		retried int
		probe   bool
	}{
		{`{"status_code":422}`, "", nil, false, 0, false},
		{"", grapnel.HealthOpen, nil, false, 1, true},
		{`{"keys":["k0"],"error_class":"status_5xx"}`, "", nil, true, 1, false},
		{`{"status_code":503}`, grapnel.HealthOpen, grapnel.Errorf(grapnel.CodeConflict, "the circuit is closed"), false, keys - 1, false},
		{"", "", nil, false, 0, false},
	} {
		w.engine.health[ep], w.engine.still = grapnel.Health{State: c.health}, c.still
		if w.options.Engine = w.engine; c.more {
			w.options.Engine = endless{w.engine}
		}
		w.handler = New(w.options)
		got := w.must(200, "POST", path, c.body)
		if len(got) != 3 || got["retried"] != float64(c.retried) || got["probe"] != c.probe || got["more"] != c.more {
			t.Errorf("%d: answered %v, want %+v", i, got, c)
		}
	}
	due := 0
	for _, d := range w.must(200, "GET", "/v1/deliveries", "")["data"].([]any) {
		if at := d.(map[string]any)["next_attempt_at"]; at != nil && at.(string) <= w.clock.Format(wire.TimeLayout) {
			due++
		}
	}
	if due != keys { // those of the other endpoint wait on
		t.Errorf("%d deliveries are due, want %d", due, keys)
	}
}
