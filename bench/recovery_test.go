//go:build linux

package main

import (
	"bytes"
	"testing"
	"time"
)

// A recovery that comes back gets each of its deliveries, and the healthy endpoint each of its
// own. How fast that is is not held here.
func TestRecoveryCountsEveryDelivery(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	h := recovery{out: &out, n: 2500, endpoints: 25, keys: 10, size: 200, rate: 50, quiet: 400 * time.Millisecond,
		window: 400 * time.Millisecond, dir: t.TempDir()}
	if err := h.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	// Each window has one event in 20 ms.
	if len(h.before) == 0 || len(h.before)%20 != 0 || len(h.during) == 0 || len(h.during)%20 != 0 {
		t.Errorf("%d and %d deliveries of the healthy endpoint were timed", len(h.before), len(h.during))
	}
	if h.count.Distinct != h.n || h.count.Strange != 0 || h.count.Took <= 0 || h.full.resident == 0 || h.restart <= 0 {
		t.Errorf("%d deliveries were published; this was measured: %+v, %+v, restart %v", h.n, h.count, h.full, h.restart)
	}
}

// The receivers distinguishes new numbers from repeated ones and from those that were not ordered.
func TestReceiversCounts(t *testing.T) {
	c := &receivers{seen: make([]bool, 3)}
	for _, body := range []string{`{"data":{"number":2,"pad":""}}`, `{"data":{"number":0,"pad":""}}`, `{"data":{"number":2,"pad":""}}`,
		`{"data":{"number":3,"pad":""}}`, `{"data":{}}`} {
		n, err := receiversNumber([]byte(body))
		c.arrived(n, err)
	}
	if c.count.Distinct != 2 || c.count.Repeated != 1 || c.count.Strange != 2 {
		t.Errorf("counted %+v", c.count)
	}
}
