package svix

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// services are the operations on access to portals, on tasks, and on the server.
func services() []operation {
	return []operation{
		{pattern: "POST /auth/app-portal-access/{app}", handle: openPortal, alone: true},
		{pattern: "POST /auth/app/{app}/expire-all", handle: expireAll},
		{pattern: "POST /auth/logout", handle: logout},
		{pattern: "GET /background-task", handle: listTasks},
		{pattern: "GET /background-task/{task}", handle: getTask},
		{pattern: "GET /health", handle: health, open: true},
		{pattern: "GET /health/ping", handle: health, open: true},
	}
}

// capabilities are the scopes of a portal for those of Svix.
var capabilities = map[string][]grapnel.Scope{
	"ViewBase":              {grapnel.ScopeRead, grapnel.ScopePayloadRead},
	"ViewEndpointSecret":    {grapnel.ScopeSecretsReveal},
	"ManageEndpointSecret":  {grapnel.ScopeSecretsReveal, grapnel.ScopeEndpointsWrite},
	"ManageTransformations": {grapnel.ScopeEndpointsWrite},
	"CreateAttempts":        {grapnel.ScopeReplay},
	"ManageEndpoint":        {grapnel.ScopeEndpointsWrite, grapnel.ScopeSecretsReveal, grapnel.ScopeReplay},
}

const (
	leastExpiry = 3600      // seconds
	mostExpiry  = 24 * 3600 // as long as a portal stays open
)

type portalIn struct {
	Application  *applicationIn `json:"application"`
	Capabilities []string       `json:"capabilities"`
	ReadOnly     bool           `json:"readOnly"`
	FeatureFlags []string       `json:"featureFlags"`
	Expiry       *int           `json:"expiry"`
	SessionID    string         `json:"sessionId"`
}

// link is the link to the portal that the body asks for.
func (in *portalIn) link() (l wire.NewPortalLink, err error) {
	l = wire.NewPortalLink{Session: "24h", Subject: in.SessionID}
	if len(in.FeatureFlags) > 0 {
		return l, invalid("a portal has no feature flags here", "body", "featureFlags")
	}
	if in.Expiry != nil {
		if *in.Expiry < leastExpiry || *in.Expiry > mostExpiry {
			return l, invalid("must be from 3600 to 86400: a portal stays open for a day at most", "body", "expiry")
		}
		l.Session = (time.Duration(*in.Expiry) * time.Second).String()
	}
	wanted := in.Capabilities
	switch {
	case in.ReadOnly:
		wanted = []string{"ViewBase"}
	case len(wanted) == 0:
		wanted = []string{"ViewBase", "ManageEndpoint"}
	}
	for i, name := range append([]string{"ViewBase"}, wanted...) {
		scopes, known := capabilities[name]
		if !known {
			return l, invalid("is no capability", "body", "capabilities", strconv.Itoa(i-1))
		}
		for _, s := range scopes {
			if !slices.Contains(l.Scopes, s) {
				l.Scopes = append(l.Scopes, s)
			}
		}
	}
	return l, nil
}

// openPortal makes two links: one for the browser, and one that is opened at once, whose session is
// the token for components that call this API by themselves.
func openPortal(a *ask) (reply, error) {
	var in portalIn
	if _, err := a.decode(&in); err != nil {
		return reply{}, err
	}
	link, err := in.link()
	if err == nil {
		err = a.ensure(in.Application)
	}
	if err != nil {
		return reply{}, err
	}
	path := at("/v1/tenants", a.tenant, "portal-links")
	var shown, used wire.PortalLink
	if err := a.api(http.MethodPost, path, nil, link, &shown); err != nil {
		return reply{}, err
	}
	if err := a.api(http.MethodPost, path, nil, link, &used); err != nil {
		return reply{}, err
	}
	_, code, _ := strings.Cut(used.URL, "#")
	rq, err := http.NewRequestWithContext(a.Context(), http.MethodPost, "/v1/portal-sessions", bytes.NewReader(nil))
	if err != nil {
		return reply{}, err
	}
	a.pass(rq)
	rq.Header.Set("Authorization", "Bearer "+code)
	var session wire.PortalSession
	if err := a.send(rq, &session); err != nil {
		return reply{}, err
	}
	return reply{http.StatusOK, map[string]string{"url": shown.URL, "token": session.Pass}}, nil
}

// expireAll ends the portals of an application, or of some sessions.
func expireAll(a *ask) (reply, error) {
	var in struct {
		Expiry   *int     `json:"expiry"`
		Sessions []string `json:"sessionIds"`
	}
	if _, err := a.decode(&in); err != nil {
		return reply{}, err
	}
	if in.Expiry != nil && *in.Expiry != 0 {
		return reply{}, invalid("must be 0: portals end at once", "body", "expiry")
	}
	path := at("/v1/tenants", a.tenant, "portal-links")
	if len(in.Sessions) == 0 {
		return reply{status: http.StatusNoContent}, a.api(http.MethodDelete, path, nil, nil, nil)
	}
	for _, subject := range in.Sessions {
		if err := a.api(http.MethodDelete, path, url.Values{"subject": {subject}}, nil, nil); err != nil {
			return reply{}, err
		}
	}
	return reply{status: http.StatusNoContent}, nil
}

func logout(a *ask) (reply, error) {
	return reply{status: http.StatusNoContent}, a.api(http.MethodDelete, "/v1/sessions/current", nil, nil, nil)
}

func health(a *ask) (reply, error) {
	return reply{status: http.StatusNoContent}, a.read("/readyz", nil, nil)
}
