package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
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
	all, err := w.engine.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.Waiting.Head {
			w.attempt(&d, 1, 503, w.clock.Add(time.Hour))
		}
	}
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
