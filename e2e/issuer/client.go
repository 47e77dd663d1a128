package main

import (
	"crypto"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// client is the one registered client, as op.Client.
type client struct {
	id, secret       string
	redirects, after []string
}

func (c *client) GetID() string                       { return c.id }
func (c *client) RedirectURIs() []string              { return c.redirects }
func (c *client) PostLogoutRedirectURIs() []string    { return c.after }
func (c *client) ApplicationType() op.ApplicationType { return op.ApplicationTypeWeb }
func (c *client) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}
func (c *client) GrantTypes() []oidc.GrantType         { return []oidc.GrantType{oidc.GrantTypeCode} }
func (c *client) LoginURL(id string) string            { return "/sign-in?request=" + id }
func (c *client) AccessTokenType() op.AccessTokenType  { return op.AccessTokenTypeBearer }
func (c *client) IDTokenLifetime() time.Duration       { return time.Minute }
func (c *client) DevMode() bool                        { return true } // http on loopback
func (c *client) IsScopeAllowed(string) bool           { return true }
func (c *client) IDTokenUserinfoClaimsAssertion() bool { return false }
func (c *client) ClockSkew() time.Duration             { return 0 }

func (c *client) RestrictAdditionalIdTokenScopes() func([]string) []string { //nolint:revive // the interface's name
	return func(scopes []string) []string { return scopes }
}

func (c *client) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}

// AuthMethod is how the client proves itself to the token endpoint.
func (c *client) AuthMethod() oidc.AuthMethod {
	if c.secret == "" {
		return oidc.AuthMethodNone
	}
	return oidc.AuthMethodBasic
}

// request is one sign-in, as op.AuthRequest.
type request struct {
	id      string
	asked   oidc.AuthRequest
	subject string // empty: the person has not been asked
	at      time.Time
}

func (r *request) GetID() string                      { return r.id }
func (r *request) GetACR() string                     { return "" }
func (r *request) GetAMR() []string                   { return nil }
func (r *request) GetAudience() []string              { return []string{r.asked.ClientID} }
func (r *request) GetAuthTime() time.Time             { return r.at }
func (r *request) GetClientID() string                { return r.asked.ClientID }
func (r *request) GetNonce() string                   { return r.asked.Nonce }
func (r *request) GetRedirectURI() string             { return r.asked.RedirectURI }
func (r *request) GetResponseType() oidc.ResponseType { return r.asked.ResponseType }
func (r *request) GetResponseMode() oidc.ResponseMode { return r.asked.ResponseMode }
func (r *request) GetScopes() []string                { return r.asked.Scopes }
func (r *request) GetState() string                   { return r.asked.State }
func (r *request) GetSubject() string                 { return r.subject }
func (r *request) Done() bool                         { return r.subject != "" }

func (r *request) GetCodeChallenge() *oidc.CodeChallenge {
	if r.asked.CodeChallenge == "" {
		return nil
	}
	return &oidc.CodeChallenge{Challenge: r.asked.CodeChallenge, Method: r.asked.CodeChallengeMethod}
}

// key is a key of the issuer.
type key struct {
	id      string
	alg     jose.SignatureAlgorithm
	private crypto.Signer
}

// signing is a key as op.SigningKey.
type signing struct{ *key }

func (k signing) SignatureAlgorithm() jose.SignatureAlgorithm { return k.alg }
func (k signing) Key() any                                    { return k.private }
func (k signing) ID() string                                  { return k.id }

// published is a key as op.Key.
type published struct{ *key }

func (k published) ID() string                         { return k.id }
func (k published) Algorithm() jose.SignatureAlgorithm { return k.alg }
func (k published) Use() string                        { return "sig" }
func (k published) Key() any                           { return k.private.Public() }
