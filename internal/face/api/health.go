package api

import (
	"cmp"
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

var healthFields = pairOf[grapnel.Health, wire.Health]("Held", "HeldMore", "DrainEstimate")

// mostHeldListed is how far held is counted for each endpoint of a list, where counting must stay
// cheap. One that is asked for by itself has Bounds.HeldMost.
const mostHeldListed = store.MaxWaiting

// health is the health of endpoints, in the order given. Held deliveries are counted only for
// endpoints that are not healthy.
func (a *api) health(c *call, most int, eps ...grapnel.Endpoint) ([]wire.Health, error) {
	views := make([]wire.Health, len(eps))
	for i, h := range a.Engine.Healths(ids(eps)) {
		held := 0
		if h.State != "" && h.State != grapnel.HealthHealthy {
			var err error
			if held, err = a.History.Waiting(c.Context(), eps[i].ID, most+1); err != nil {
				return nil, err
			}
		}
		views[i] = viewHealth(h, min(held, most), c.now)
		views[i].HeldMore = held > most
	}
	return views, nil
}

func ids(eps []grapnel.Endpoint) []string {
	list := make([]string, len(eps))
	for i := range eps {
		list[i] = eps[i].ID
	}
	return list
}

// wanted returns the endpoints for which a condition holds, queues and channels too, and their ids.
// The endpoints are the configuration's own, because copying ten thousand of them takes longer than
// counting them. A caller must not change them.
func (a *api) wanted(scope store.Scope, is func(*grapnel.Endpoint) bool) (eps []*grapnel.Endpoint, ids []string) {
	a.Engine.EachEndpoint(scope, func(ep *grapnel.Endpoint) bool {
		if is(ep) {
			eps, ids = append(eps, ep), append(ids, ep.ID)
		}
		return true
	})
	return eps, ids
}

func viewHealth(h grapnel.Health, held int, now time.Time) wire.Health {
	v := wire.Health{Held: held, DrainEstimate: drainEstimate(h, held)}
	healthFields.show(&h, &v)
	v.State, v.Reason = cmp.Or(h.State, "unknown"), explain(h, now)
	return v
}

// explain says why an endpoint is in its state, in a sentence without a full stop.
func explain(h grapnel.Health, now time.Time) string {
	switch {
	case h.State == grapnel.HealthOpen && h.NextProbeAt.After(now):
		return h.Reason + "; the next probe is not before " + clock(h.NextProbeAt)
	case h.State == grapnel.HealthOpen && h.InFlight > 0:
		return h.Reason + "; an attempt is on its way"
	case h.State == grapnel.HealthOpen:
		return h.Reason + "; the next probe is the next delivery that is due"
	case h.State == grapnel.HealthFailing && h.Strikes > 0:
		return fmt.Sprintf("no attempt has succeeded since %s; consecutive failures that count towards disabling it: %d",
			clock(h.FailingSince), h.Strikes)
	case h.State == grapnel.HealthFailing:
		return "no attempt has succeeded since " + clock(h.FailingSince)
	}
	return h.Reason
}

// drainEstimate is how long the held deliveries take once nothing holds them; null when unknown.
func drainEstimate(h grapnel.Health, held int) *policy.Duration {
	switch h.State {
	case grapnel.HealthOpen, grapnel.HealthRecovering, grapnel.HealthThrottled, grapnel.HealthPaused:
	default:
		return nil
	}
	if h.PerSecond <= 0 {
		return nil
	}
	return new(policy.Duration(policy.DrainTime(held, h.PerSecond).Round(100 * time.Millisecond)))
}

// stateOf is the health of an endpoint that nothing was sent to yet.
func stateOf(ep *grapnel.Endpoint) grapnel.Health {
	h := grapnel.Health{State: "healthy", Reason: ep.DisabledReason, Since: ep.DisabledAt}
	if ep.Status != grapnel.EndpointEnabled {
		h.State = grapnel.HealthState(ep.Status)
	}
	return h
}
