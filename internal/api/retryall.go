package api

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/wire"
)

func retryAllRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/endpoints/{id}/retry", scope: grapnel.ScopeReplay, portal: grapnel.ScopeReplay, handle: retryAll,
			name: "retry-endpoint", tag: "Deliveries", summary: "Retry all that waits for an endpoint",
			about: "Makes the deliveries due now that are first of their key, or have no key, and wait for a later attempt or are blocked. Those held behind them follow in order. Like a single retry it does not count towards disabling; the endpoint's concurrency and rate limits hold. While the circuit is open it only probes: one attempt is made, and if it succeeds the others follow. Deliveries that are due already are left as they are, so a repetition changes nothing. One call retries at most 1000; more says that there are others. 409 for an endpoint that is not enabled.",
			body:  optionalBody, takes: wire.NewRetry{}, gives: map[int]any{200: wire.Retried{}}},
	}
}

// retryAll makes the heads of an endpoint due now. A repetition finds them due, so its answer need
// not be the first one.
func retryAll(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.NewRetry](c.body, &f)
	ep, err := a.pushed(c)
	if err == nil {
		err = f.Err()
	}
	if err != nil {
		return answer{}, err
	}
	if a.Engine.Healths([]string{ep.ID})[0].State == grapnel.HealthOpen {
		err := a.Engine.Probe(c.Context(), c.scope, ep.ID, c.by(in.Reason))
		if grapnel.CodeOf(err) != grapnel.CodeConflict { // else it is open no more
			return result(wire.Retried{Retried: 1, Probe: true}, err)
		}
	}
	n, more, err := a.Engine.RetryAll(c.Context(), c.scope, ep.ID,
		&grapnel.Selection{Types: in.EventTypes, Keys: in.Keys, Class: in.ErrorClass, StatusCode: in.StatusCode}, c.by(in.Reason))
	return result(wire.Retried{Retried: n, More: more}, err)
}
