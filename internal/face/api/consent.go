package api

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// Where a tenant requires it, an endpoint with a new address is paused until the address has
// answered a challenge (package consent). Creating and changing endpoints make it so (create,
// change).

func consentRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/endpoints/{id}/consent", scope: grapnel.ScopeManage, portal: grapnel.ScopeEndpointsWrite, lever: true,
			handle: ordered(askForConsent),
			name:   "ask-consent", tag: "Endpoints", summary: "Ask an endpoint's address for consent now",
			about: "Sends the challenge again, and answers when it has a result: with consent the endpoint is enabled, else consent.cause says " +
				"why not. 409 if the endpoint waits for no consent; 429 if too many challenges were sent for the tenant or to the host.",
			body: optionalBody, takes: newReason{}, gives: map[int]any{200: wire.Endpoint{}}},
	}
}

func askForConsent(a *api, c *call, by grapnel.By) (answer, error) {
	ep, err := a.pushed(c)
	if err != nil {
		return answer{}, err
	}
	if a.Consents == nil {
		return answer{}, grapnel.Errorf(grapnel.CodeUnavailable, "This server asks no addresses for consent.")
	}
	if ep, err = a.Consents.Ask(c.Context(), ep.ID, by); err != nil {
		return answer{}, err
	}
	return a.showEndpoint(c, ep)
}
