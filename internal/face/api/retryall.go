package api

import (
	"slices"
	"strconv"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/wire"
)

func retryAllRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/endpoints/{id}/retry", scope: grapnel.ScopeReplay, portal: grapnel.ScopeReplay, handle: retryAll,
			name: "retry-endpoint", tag: "Deliveries", summary: "Retry all that waits for an endpoint",
			about: "Makes the deliveries due now that are first of their key, or have no key, and wait for a later attempt or are blocked. Those held behind them follow in order. Like a single retry it does not count towards disabling; the endpoint's concurrency and rate limits hold. While the circuit is open it only probes: one attempt is made, and if it succeeds the others follow. Deliveries that are due already are left as they are, so a repetition changes nothing. One call retries at most 1000; more says that there are others. 409 for an endpoint that is not enabled.",
			body:  optionalBody, takes: wire.NewRetry{}, gives: map[int]any{200: wire.Retried{}}},
		{method: "POST", path: "/v1/deliveries/retry", scope: grapnel.ScopeReplay, portal: grapnel.ScopeReplay, handle: reading(retryFound),
			name: "retry-deliveries", tag: "Deliveries", summary: "Retry the pending deliveries that a search finds",
			about: "Takes the parameters of the list of deliveries and looks at one page of it: pending and held deliveries only. Those first of their key, or without a key, are made due now; for one held behind another of its key, the first of the key is. Deliveries that are due already stay as they are, so a repetition changes nothing. An endpoint with an open circuit is only probed. Go on with the cursor next.",
			query: pageOf(append(deliveryFilter(), endpointParam)...),
			body:  optionalBody, takes: newReason{}, gives: map[int]any{200: wire.RetriedFound{}}},
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

// retryFound makes due now what the pending deliveries of a page of a search wait for.
func retryFound(a *api, c *call, in *newReason) (answer, error) {
	s, limit, before := a.selection(c, ""), c.query.limit(), c.number()
	if slices.ContainsFunc(s.Status, grapnel.Status.Final) {
		c.query.faults.Add("?filter", "must select pending and held deliveries only; finished ones are replayed, or retried one by one")
	}
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	if s.Status == nil {
		s.Status, s.HeldEndpoints = []grapnel.Status{grapnel.Pending, grapnel.Held}, a.Engine.Held()
	}
	found, resume, err := a.find(c, s, before, limit)
	if err != nil {
		return answer{}, err
	}
	out := wire.RetriedFound{Matched: len(found)}
	if resume > 0 {
		out.Next = c.cursor(strconv.FormatInt(resume, 10))
	}
	of := map[string][]grapnel.Delivery{}
	for _, d := range found {
		of[d.EndpointID] = append(of[d.EndpointID], d)
	}
	for endpoint, all := range of {
		if err := a.retryThese(c, endpoint, all, c.by(in.Reason), &out); err != nil {
			return answer{}, err
		}
	}
	return result(out, nil)
}

// retryThese makes due now what deliveries of an endpoint wait for.
func (a *api) retryThese(c *call, endpoint string, all []grapnel.Delivery, by grapnel.By, out *wire.RetriedFound) error {
	ep, there := a.Engine.Endpoint(c.scope, endpoint)
	if !there || ep.Status != grapnel.EndpointEnabled {
		return nil
	}
	if a.Engine.Healths([]string{endpoint})[0].State == grapnel.HealthOpen {
		err := a.Engine.Probe(c.Context(), c.scope, endpoint, by)
		if err == nil {
			out.Probed++
		}
		if grapnel.CodeOf(err) != grapnel.CodeConflict { // else it is open no more
			return err
		}
	}
	var keys []string
	for i := range all {
		switch d := &all[i]; {
		case !d.Waiting.Head:
			if !slices.Contains(keys, d.Key) {
				keys = append(keys, d.Key)
			}
		case d.Waiting.Blocked || d.Waiting.Due.After(c.now):
			switch _, err := a.Engine.Retry(c.Context(), c.scope, d.Seq, by, nil); {
			case err == nil:
				out.Retried++
			case grapnel.CodeOf(err) != grapnel.CodeConflict && grapnel.CodeOf(err) != grapnel.CodeNotFound: // else it has ended meanwhile
				return err
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	n, _, err := a.Engine.RetryAll(c.Context(), c.scope, endpoint, &grapnel.Selection{Keys: keys}, by)
	out.Retried += n
	return err
}
