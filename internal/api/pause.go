package api

import (
	"errors"

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
			body: &intake{types: []string{grapnel.JSONType}, optional: true}, takes: newReason{},
			gives: map[int]any{200: wire.Endpoint{}}}
	}
	return []route{
		lever("pause", "Hold the deliveries of an endpoint", "Once it is answered, no further attempt starts. A paused endpoint stays paused; 409 for a disabled one.", ordered(pauseEndpoint)),
		lever("resume", "Resume a paused endpoint", "Held deliveries go out in order. An endpoint that is not paused stays as it is; 409 for a disabled one: a PATCH of its status enables it.", ordered(resumeEndpoint)),
		lever("probe", "Probe a failing endpoint now", "Attempts the delivery that has been due the longest, before the next probe's time. It is an attempt like "+
			"any other. 409 if attempts are made anyway, or if no delivery is pending.", ordered(probeEndpoint)),
	}
}

// errAsItIs stops a change of something that is that way already.
var errAsItIs = errors.New("api: already in that state")

func pauseEndpoint(a *api, c *call, by grapnel.By) (answer, error) {
	return steer(a, c, by, paused)
}

// paused makes an endpoint one that is paused.
func paused(c *call, ep *grapnel.Endpoint) error {
	switch ep.Status {
	case grapnel.EndpointDisabled:
		return grapnel.Errorf(grapnel.CodeConflict, "The endpoint is disabled: no attempts are made.")
	case grapnel.EndpointPaused:
		return errAsItIs
	}
	setStatus(ep, grapnel.EndpointPaused, c)
	return nil
}

func resumeEndpoint(a *api, c *call, by grapnel.By) (answer, error) {
	return steer(a, c, by, resumed)
}

// resumed makes it one that is not.
func resumed(c *call, ep *grapnel.Endpoint) error {
	switch ep.Status {
	case grapnel.EndpointDisabled:
		return grapnel.Errorf(grapnel.CodeConflict, "The endpoint is disabled%s, not paused: enable it instead.", because(ep.DisabledReason))
	case grapnel.EndpointEnabled:
		return errAsItIs
	}
	setStatus(ep, grapnel.EndpointEnabled, c)
	return nil
}

// steer changes an endpoint's status for the reason in the body, and shows how the endpoint is
// then.
func steer(a *api, c *call, by grapnel.By, edit func(*call, *grapnel.Endpoint) error) (answer, error) {
	ep, err := a.changeEndpoint(c, by.Reason, func(ep *grapnel.Endpoint) error { return edit(c, ep) }, notOnce)
	if err != nil && !errors.Is(err, errAsItIs) {
		return answer{}, err
	}
	return a.showEndpoint(c, ep)
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
