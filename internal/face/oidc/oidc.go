// Package oidc signs people in with an OpenID Connect issuer: the authorization code flow with
// PKCE.
//
// Begin makes the address that the browser is sent to, and the Flow that the caller binds to this
// browser. Finish takes the answer that the browser brings back and returns the person's claims.
//
// What holds here:
//
//   - An answer counts only with the state of its Flow, a code that the issuer exchanges for this
//     Flow's PKCE verifier, and an ID token with this Flow's nonce. So a code or a token of
//     another sign-in is of no use.
//   - An ID token is believed only with a signature of a key that the issuer publishes, by one of
//     the configured algorithms. A key verifies by the algorithm of its own type only, so a token
//     cannot choose: there is no none and no HMAC in this package.
//   - Whatever the issuer answers is bounded in time and bytes, and redirects are not followed.
//   - Strangers can make the server ask the issuer only so often: documents are cached, failures
//     are remembered, an unknown key is looked for at most once in Bounds.KeysAgain, and at most
//     Bounds.Finishing answers are checked at once.
//
// What it does not promise: that a person whom the issuer locks out loses a session that exists.
// The caller bounds sessions in time.
package oidc

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// New checks the options. It asks the issuer nothing: a server starts while its issuer is down.
func New(o Options) (*Provider, error) {
	o.Bounds = bounds.Fill(o.Bounds)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.Random = cmp.Or(o.Random, rand.Reader)
	if len(o.Algorithms) == 0 {
		o.Algorithms = Algorithms()
	}
	for _, alg := range o.Algorithms {
		if !slices.Contains(Algorithms(), alg) {
			return nil, fmt.Errorf("algorithm %q is not one of %s", alg, strings.Join(Algorithms(), ", "))
		}
	}
	if err := address(o.Issuer); err != nil {
		return nil, fmt.Errorf("issuer %q: %w", o.Issuer, err)
	}
	if o.ClientID == "" {
		return nil, errors.New("the client id is missing")
	}
	if slices.Contains(o.Mapping.claims(), "") {
		return nil, errors.New("rules by group need the name of the claim with the groups")
	}
	if !slices.Contains(o.Scopes, "openid") {
		o.Scopes = append([]string{"openid"}, o.Scopes...)
	}
	p := &Provider{Options: o, http: newHTTP(o.Bounds), finishing: make(chan struct{}, o.Bounds.Finishing)}
	p.document = cache[document]{turn: make(chan struct{}, 1), read: p.readDocument}
	p.keys = cache[[]jose.JSONWebKey]{turn: make(chan struct{}, 1), read: p.readKeys}
	return p, nil
}

// Begin makes a flow whose answer comes to redirect, and the address to send the browser to.
func (p *Provider) Begin(ctx context.Context, redirect string) (to string, f Flow, err error) {
	doc, err := p.document.get(ctx, p.Clock(), p.Bounds.Document, p.Bounds.Again)
	if err != nil {
		return "", f, err
	}
	f.Redirect = redirect
	for _, text := range []*string{&f.State, &f.Nonce, &f.Verifier} {
		var b [32]byte
		if _, err := io.ReadFull(p.Random, b[:]); err != nil {
			return "", f, err
		}
		*text = base64.RawURLEncoding.EncodeToString(b[:])
	}
	return p.client(&doc, redirect).AuthCodeURL(f.State, goidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), f, nil
}

// Finish checks the answer that a browser brings back for its flow. The caller has to see to it
// that a flow is finished once.
func (p *Provider) Finish(ctx context.Context, f Flow, answer url.Values) (Claims, error) {
	if f.State == "" || subtle.ConstantTimeCompare([]byte(f.State), []byte(answer.Get("state"))) != 1 {
		return nil, fault(NotBegun, "the state is not that of the flow")
	}
	select {
	case p.finishing <- struct{}{}:
		defer func() { <-p.finishing }()
	default:
		return nil, fault(Busy, "%d sign-ins are being checked", p.Bounds.Finishing)
	}
	doc, err := p.document.get(ctx, p.Clock(), p.Bounds.Document, p.Bounds.Again)
	if err != nil {
		return nil, err
	}
	// RFC 9207: an answer that another issuer sent must not bring its code here.
	if iss, given := answer["iss"]; given && !slices.Equal(iss, []string{p.Issuer}) || !given && doc.NamesItself {
		return nil, fault(BadAnswer, "the answer does not name the issuer")
	}
	if code := answer.Get("error"); code != "" {
		return nil, refusal(code)
	}
	if answer.Get("code") == "" {
		return nil, fault(BadAnswer, "the answer has no code")
	}
	access, id, err := p.exchange(ctx, &doc, f, answer.Get("code"))
	if err != nil {
		return nil, err
	}
	claims, err := p.verify(ctx, id, f.Nonce)
	if err != nil {
		return nil, err
	}
	return p.complete(ctx, &doc, claims, access)
}

// SignOut is the address at which the issuer ends its own session and leads the browser to back;
// false: the issuer has none, or its document has not been read.
func (p *Provider) SignOut(back string) (to string, ok bool) {
	doc, known := p.document.have()
	if !known || doc.EndSession == "" {
		return "", false
	}
	return withQuery(doc.EndSession, url.Values{"client_id": {p.ClientID}, "post_logout_redirect_uri": {back}}), true
}

// withQuery adds parameters to an address that may have some.
func withQuery(to string, add url.Values) string {
	if strings.Contains(to, "?") {
		return to + "&" + add.Encode()
	}
	return to + "?" + add.Encode()
}
