package oidc

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/go-jose/go-jose/v4"

	"github.com/grapnelhq/grapnel"
)

// document has the fields of the issuer's metadata that are used (OpenID Connect Discovery 1.0).
type document struct {
	issuer        *goidc.Provider
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Keys          string   `json:"jwks_uri"`
	UserInfo      string   `json:"userinfo_endpoint"`
	EndSession    string   `json:"end_session_endpoint"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	NamesItself   bool     `json:"authorization_response_iss_parameter_supported"`
}

// cache keeps one document of the issuer. One caller at a time reads it; the others wait for the
// result, so however many browsers come, the issuer is asked once.
type cache[D any] struct {
	turn chan struct{} // its holder reads the document
	read func(context.Context) (D, error)

	mu    sync.Mutex
	doc   D
	known bool
	at    time.Time // of the last successful read
	tried time.Time // end of the last read
	err   error     // of the last read
}

// Options say which issuer signs people in, and as which client this server is registered there.
type Options struct {
	Bounds     Bounds
	Issuer     string // exactly as the issuer's documents and tokens name it
	ClientID   string
	Secret     string           // of the client; empty: it has none, as PKCE allows
	Scopes     []string         // asked for; openid is always among them
	Algorithms []string         // accepted signatures; none: all of Algorithms()
	Mapping    Mapping          // who gets which rights
	Clock      func() time.Time // nil: time.Now
	Random     io.Reader        // nil: crypto/rand
}

// Bounds limit what the issuer, and strangers by its answers, can use of this server.
type Bounds struct {
	Fetch     time.Duration `bound:"10s"`                 // one request to the issuer
	Answer    int64         `bound:"512KiB" tiny:"64KiB"` // bytes of its answer
	Document  time.Duration `bound:"1h"`                  // age at which its documents are read again
	Again     time.Duration `bound:"5s" tiny:"50ms"`      // pause after a document could not be read
	KeysAgain time.Duration `bound:"30s" tiny:"50ms"`     // least time between two looks for an unknown key
	Keys      int           `bound:"100" least:"8"`       // keys of the issuer that are looked at
	Finishing int           `bound:"16" least:"1"`        // answers of browsers checked at once
	Token     int           `bound:"65536" tiny:"65536"`  // bytes of an ID token
	Skew      time.Duration `bound:"1m" tiny:"1m"`        // by which the issuer's clock may differ
}

// Flow is one sign-in between its begin and its answer. All of it but the state is secret: the
// caller seals it for the browser that began.
type Flow struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // of PKCE
	Redirect string `json:"r"` // address that the issuer sends the browser to
}

// Provider signs people in with one issuer. Its methods may be called at the same time.
type Provider struct {
	Options
	http      *http.Client
	document  cache[document]
	keys      cache[[]jose.JSONWebKey]
	finishing chan struct{}
}

// Mapping turns what the issuer says about a person into rights here.
type Mapping struct {
	Groups string // name of the claim with the person's groups or roles
	Tenant string // name of the claim with the person's tenant; empty: it has none
	Rules  []Rule
}

// Rule gives a role to those who meet all its conditions. The first rule that a person meets
// counts.
type Rule struct {
	Group  string // one of the person's groups
	Email  string // the person's verified address
	Domain string // its part after the @
	Anyone bool   // every person that the issuer signs in; without other conditions

	Role     grapnel.Role
	Tenant   string // AllTenants, a tenant, or empty: the one of the claim
	Payloads bool   // may see payloads although the role may not
}
