package server

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/oidc"
	"github.com/grapnelhq/grapnel/internal/face/web"
)

// People says how people sign in to the dashboard with an issuer.
type People struct {
	OIDC    oidc.Options
	Name    string        // of the issuer, on the sign-in page
	Only    bool          // the page offers no form for API keys
	Session time.Duration // life of a session
}

// provider makes the one for the issuer; nil if there is none. It asks the issuer nothing yet.
func (p *People) provider(b oidc.Bounds) (*oidc.Provider, error) {
	if p == nil {
		return nil, nil
	}
	o := p.OIDC
	o.Bounds = b
	made, err := oidc.New(o)
	if err != nil {
		return nil, grapnel.Errorf(grapnel.CodeInvalid, "signing in: %v", err)
	}
	return made, nil
}

func (p *People) web(issuer *oidc.Provider) web.People {
	if p == nil {
		return web.People{}
	}
	return web.People{Issuer: issuer, Name: p.Name, Only: p.Only, Session: p.Session}
}
