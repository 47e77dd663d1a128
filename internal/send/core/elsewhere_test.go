package core

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// TestAFailedProxyLeavesTheEndpointHealthy: neither its circuit nor its health knows of it.
func TestAFailedProxyLeavesTheEndpointHealthy(t *testing.T) {
	for _, o := range []policy.Outcome{{Class: policy.ClassProxy}, {Status: 401, Class: policy.ClassToken}} {
		w := newWard(t, nil)
		for _, a := range w.arrive(20) {
			w.step(&Finished{Endpoint: "ep", Delivery: a.Head.Delivery, Outcome: o, Attempt: grapnel.Attempt{StartedAt: w.now}})
			w.now = w.now.Add(time.Second)
		}
		if h := w.core.Health(w.now, "ep"); h.State != grapnel.HealthHealthy || !h.FailingSince.IsZero() {
			t.Errorf("%s: %+v", o.Class, h)
		}
	}
}
