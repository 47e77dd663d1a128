package api

import (
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// Levers are what a person does to an endpoint without changing what it is: hold it, let it go, ask whether it is back, see which keys
// are stuck at it. All of them come to the same when they are repeated.

func leverRoutes() []route {
	lever := func(verb, summary, about string, handle func(*api, *call) (answer, error)) route {
		return route{method: "POST", path: "/v1/endpoints/{id}/" + verb, scope: grapnel.ScopeManage, handle: handle,
			name: verb + "-endpoint", tag: "Endpoints", summary: summary, about: about,
			body: &intake{types: []string{grapnel.JSONType}, optional: true}, takes: newReason{},
			gives: map[int]any{200: wire.Endpoint{}}}
	}
	return []route{
		lever("pause", "Hold what waits for an endpoint", "Once it is answered, no further attempt starts. One that is paused already stays so; a disabled "+
			"one answers 409.", pauseEndpoint),
		lever("resume", "Deliver to a paused endpoint again", "What was held goes out in order. One that is not paused stays as it is; a disabled one answers "+
			"409: it is enabled by a PATCH of its status.", resumeEndpoint),
		lever("probe", "Find out now whether an endpoint is back", "Sends the delivery that has waited longest without waiting for the time of the next probe. "+
			"It is an attempt like any other. 409 when there is nothing to find out, or nothing to find it out with.", probeEndpoint),
	}
}

// errAsItIs stops a change of something that is that way already.
var errAsItIs = errors.New("api: it is so already")

func pauseEndpoint(a *api, c *call) (answer, error) {
	return steer(a, c, paused)
}

// paused makes an endpoint one that is paused.
func paused(c *call, ep *grapnel.Endpoint) error {
	switch ep.Status {
	case grapnel.EndpointDisabled:
		return grapnel.Errorf(grapnel.CodeConflict, "The endpoint is disabled: nothing is sent to it anyway.")
	case grapnel.EndpointPaused:
		return errAsItIs
	}
	setStatus(ep, grapnel.EndpointPaused, c)
	return nil
}

func resumeEndpoint(a *api, c *call) (answer, error) {
	return steer(a, c, resumed)
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

// steer changes an endpoint's status for the reason in the body, and shows how the endpoint is then.
func steer(a *api, c *call, edit func(*call, *grapnel.Endpoint) error) (answer, error) {
	by, err := c.by()
	if err != nil {
		return answer{}, err
	}
	ep, err := a.changeEndpoint(c, by.Reason, func(ep *grapnel.Endpoint) error { return edit(c, ep) }, notOnce)
	if err != nil && !errors.Is(err, errAsItIs) {
		return answer{}, err
	}
	return a.showEndpoint(c, ep)
}

// probeEndpoint tries an endpoint that is left alone at present.
func probeEndpoint(a *api, c *call) (answer, error) {
	by, err := c.by()
	if err != nil {
		return answer{}, err
	}
	ep, err := a.pushed(c)
	if err != nil {
		return answer{}, err
	}
	if err := a.Engine.Probe(c.Context(), c.scope, ep.ID, by); err != nil {
		return answer{}, err
	}
	return a.showEndpoint(c, ep)
}
