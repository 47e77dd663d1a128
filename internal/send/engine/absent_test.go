package engine

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/policy"
)

// TestAnAbsentServerDisablesNothing: an endpoint had failed for some minutes when the server was
// stopped, or its machine was suspended, for a week. Its first failure afterwards warns, because no
// attempt was made meanwhile. If it fails on, it is disabled.
func TestAnAbsentServerDisablesNothing(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for name, restarts := range map[string]bool{"stopped": true, "suspended": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slept atomic.Int64
				b := newTunedBench(t, memory.New(), func(o *Options) {
					unhurried(o)
					o.Now = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
				})
				defer b.close()
				r := &receiver{then: status(503)}
				b.endpoint("ep", r, func(ep *grapnel.Endpoint) {
					ep.Policy.Disable, ep.Policy.MaxAge = policy.Disable{After: policy.Duration(5 * 24 * time.Hour)}, 0
				})
				b.watcher("w", nil)
				b.publish("", 1)
				time.Sleep(5 * time.Minute)
				if restarts {
					b.halt()
					time.Sleep(week)
					b.start(core.Options{})
				} else {
					slept.Add(int64(week))
				}
				before := len(r.log())
				time.Sleep(12 * time.Hour)
				ep, _ := b.engine.Endpoint(store.Everyone(), "ep")
				if got := b.kinds("w"); len(r.log()) == before || ep.Status != grapnel.EndpointEnabled || got["failing"] != 1 || got["disabled"] != 0 {
					t.Fatalf("after %d more attempts it is %s (%s), and the other endpoint was told %v", len(r.log())-before, ep.Status,
						ep.DisabledReason, got)
				}
				time.Sleep(3 * 24 * time.Hour)
				if ep, _ = b.engine.Endpoint(store.Everyone(), "ep"); ep.Status != grapnel.EndpointDisabled {
					t.Errorf("after more than half of the time without success it is %s", ep.Status)
				}
			})
		})
	}
}
