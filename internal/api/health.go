package api

import (
	"cmp"
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// healthView is how an endpoint is doing.
type healthView struct {
	State         string  `json:"state" enum:"healthy,failing,open,recovering,throttled,paused,disabled,unknown" doc:"failing: no attempt has succeeded since failing_since; open: the breaker is open and nothing is sent but probes; unknown: the server starts or stops"`
	Reason        *string `json:"reason" doc:"one sentence: why it is in this state; null: there is nothing to say"`
	Since         *stamp  `json:"since" nullable:"true" doc:"when it came into this state; null: unknown"`
	InFlight      int     `json:"in_flight" doc:"requests on their way"`
	Waiting       int     `json:"waiting" doc:"heads of lines that are due or scheduled soon"`
	Held          int     `json:"held" doc:"deliveries that wait for the endpoint, those behind their keys included; 0 while it is healthy. Lists count up to 10000, an endpoint asked for by itself up to 1000000"`
	HeldMore      bool    `json:"held_more" doc:"there are more than were counted"`
	NextAttemptAt *stamp  `json:"next_attempt_at" nullable:"true"`
	NextProbeAt   *stamp  `json:"next_probe_at" nullable:"true" doc:"while open: the next probe is not before this"`
	DrainEstimate *span   `json:"drain_estimate" nullable:"true" doc:"how long what is held takes once the endpoint works; with held_more, at least so long; null: unknown"`
	Strikes       int     `json:"strikes" doc:"deliveries in a row that count towards disabling"`
	FailingSince  *stamp  `json:"failing_since" nullable:"true" doc:"no attempt has succeeded since; null: the last one has, or the policy does not ask"`
}

// mostHeldListed is how far held is counted for each endpoint of a list, where counting must stay cheap. One that is asked for
// by itself has Bounds.HeldMost.
const mostHeldListed = store.MaxWaiting

// health says how endpoints are doing, in the order given. What waits is only counted for those that are not well.
func (a *api) health(c *call, most int, eps ...grapnel.Endpoint) ([]healthView, error) {
	ids := make([]string, len(eps))
	for i := range eps {
		ids[i] = eps[i].ID
	}
	views := make([]healthView, len(eps))
	for i, h := range a.Engine.Healths(ids) {
		held := 0
		if h.State != "" && h.State != grapnel.HealthHealthy {
			var err error
			if held, err = a.History.Waiting(c.Context(), ids[i], most+1); err != nil {
				return nil, err
			}
		}
		views[i] = viewHealth(h, min(held, most), c.now)
		views[i].HeldMore = held > most
	}
	return views, nil
}

func viewHealth(h grapnel.Health, held int, now time.Time) healthView {
	return healthView{
		State: string(cmp.Or(h.State, "unknown")), Reason: orNull(explain(h, now)), Since: stampOf(h.Since), InFlight: h.InFlight, Waiting: h.Waiting,
		Held: held, NextAttemptAt: stampOf(h.NextAttemptAt), NextProbeAt: stampOf(h.NextProbeAt), DrainEstimate: drainEstimate(h, held),
		Strikes: h.Strikes, FailingSince: stampOf(h.FailingSince),
	}
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
		return fmt.Sprintf("no attempt has succeeded since %s; consecutive failures that count towards disabling it: %d", clock(h.FailingSince), h.Strikes)
	case h.State == grapnel.HealthFailing:
		return "no attempt has succeeded since " + clock(h.FailingSince)
	}
	return h.Reason
}

// drainEstimate is how long what is held takes once nothing holds it; null when nobody knows.
func drainEstimate(h grapnel.Health, held int) *span {
	switch h.State {
	case grapnel.HealthOpen, grapnel.HealthRecovering, grapnel.HealthThrottled, grapnel.HealthPaused:
	default:
		return nil
	}
	if h.PerSecond <= 0 {
		return nil
	}
	took := span(policy.DrainTime(held, h.PerSecond).Round(100 * time.Millisecond))
	return &took
}

// stateOf is the health of an endpoint that nothing was sent to yet.
func stateOf(ep *grapnel.Endpoint) grapnel.Health {
	h := grapnel.Health{State: "healthy", Reason: ep.DisabledReason, Since: ep.DisabledAt}
	if ep.Status != grapnel.EndpointEnabled {
		h.State = grapnel.HealthState(ep.Status)
	}
	return h
}
