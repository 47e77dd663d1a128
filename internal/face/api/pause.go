package api

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// Pausing, resuming and probing change no setting of an endpoint. Each is the same when it is
// repeated.

func pauseRoutes() []route {
	lever := func(verb, summary, about string, handle func(*api, *call) (answer, error)) route {
		return route{method: "POST", path: "/v1/endpoints/{id}/" + verb,
			scope: grapnel.ScopeManage, portal: grapnel.ScopeEndpointsWrite, lever: true, handle: handle,
			name: verb + "-endpoint", tag: "Endpoints", summary: summary, about: about,
			body: optionalBody, takes: newReason{}, gives: map[int]any{200: wire.Endpoint{}}}
	}
	return []route{
		lever("pause", "Hold the deliveries of an endpoint", "Once it is answered, no further attempt starts. A paused endpoint stays paused; 409 for a disabled one.", steering((*api).pushed, (*api).showEndpoint, paused)),
		lever("resume", "Resume a paused endpoint", "Held deliveries go out in order. An endpoint that is not paused stays as it is; 409 for a disabled one: a PATCH of its status enables it.", steering((*api).pushed, (*api).showEndpoint, resumed)),
		lever("probe", "Probe a failing endpoint now", "Attempts the delivery that has been due the longest, before the next probe's time. It is an attempt like "+
			"any other. 409 if attempts are made anyway, or if no delivery is pending.", ordered(probeEndpoint)),
	}
}

// probeEndpoint attempts a delivery of an endpoint whose circuit is open.
func probeEndpoint(a *api, c *call, by grapnel.By) (answer, error) {
	ep, err := a.pushed(c)
	if err != nil {
		return answer{}, err
	}
	if err := a.Engine.Probe(c.Context(), c.scope, ep.ID, by); err != nil {
		return answer{}, err
	}
	return a.showEndpoint(c, ep)
}
