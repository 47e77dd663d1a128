package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"strings"

	goidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/go-jose/go-jose/v4"
)

// Algorithms lists the signatures that can be accepted. They are all asymmetric.
func Algorithms() []string { return []string{"RS256", "ES256", "EdDSA"} }

// Sizes of RSA keys that are accepted. A longer one would let the issuer's document cost much work.
const leastRSA, mostRSA = 2048, 8192

// readKeys reads the issuer's keys. go-oidc's own reader is not used: it reads again for each
// unknown key, without a pause, and in a goroutine without an owner.
func (p *Provider) readKeys(ctx context.Context) ([]jose.JSONWebKey, error) {
	doc, err := p.document.get(ctx, p.Clock(), p.Bounds.Document, p.Bounds.Again)
	if err != nil {
		return nil, err
	}
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, doc.Keys, nil)
	if err != nil {
		return nil, fault(Unreachable, "jwks_uri has no usable address")
	}
	resp, err := p.http.Do(rq)
	if err != nil {
		return nil, p.failed("keys", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil {
		return nil, p.failed("keys", err)
	}
	var all []jose.JSONWebKey
	for _, text := range set.Keys[:min(len(set.Keys), p.Bounds.Keys)] {
		if k, ok := readKey(text); ok {
			all = append(all, k)
		}
	}
	return all, nil
}

// readKey reads a key that can verify (RFC 7517), and sets the one algorithm that it verifies by;
// false: it is of another kind, for another use, or weak.
func readKey(text []byte) (k jose.JSONWebKey, ok bool) {
	if json.Unmarshal(text, &k) != nil || !k.Valid() || k.Use != "" && k.Use != "sig" {
		return k, false
	}
	told := k.Algorithm
	switch public := k.Key.(type) {
	case *rsa.PublicKey:
		bits := public.N.BitLen()
		k.Algorithm, ok = "RS256", bits >= leastRSA && bits <= mostRSA && public.E >= 3 && public.E%2 == 1
	case *ecdsa.PublicKey:
		k.Algorithm, ok = "ES256", public.Curve == elliptic.P256()
	case ed25519.PublicKey:
		// go-jose lengthens a short key by zeros.
		var raw struct {
			X string `json:"x"`
		}
		k.Algorithm, ok = "EdDSA", json.Unmarshal(text, &raw) == nil && len(raw.X) == 43
	}
	return k, ok && (told == "" || told == k.Algorithm || told == "Ed25519" && k.Algorithm == "EdDSA")
}

// pick returns the keys that a token's header names. Without a name the issuer has to have exactly
// one key of the algorithm.
func pick(all []jose.JSONWebKey, id, alg string) (found []crypto.PublicKey) {
	for _, k := range all {
		if k.Algorithm == alg && (id == "" || k.KeyID == id) {
			found = append(found, k.Key)
		}
	}
	if id == "" && len(found) > 1 {
		return nil
	}
	return found
}

// keysFor returns the issuer's keys for a token. If it is by an unknown one, the issuer may have
// new keys: they are read again, but not within Bounds.KeysAgain of the last read.
func (p *Provider) keysFor(ctx context.Context, id, alg string) ([]crypto.PublicKey, error) {
	all, err := p.keys.get(ctx, p.Clock(), p.Bounds.Document, p.Bounds.Again)
	if err != nil {
		return nil, err
	}
	if found := pick(all, id, alg); len(found) > 0 {
		return found, nil
	}
	if all, err = p.keys.get(ctx, p.Clock(), p.Bounds.KeysAgain, p.Bounds.KeysAgain); err != nil {
		return nil, err
	}
	return pick(all, id, alg), nil
}

// verify checks an ID token (OpenID Connect Core 1.0, 3.1.3.7) and returns its claims. go-oidc
// checks signature, issuer and audience. It reads names of claims without regard to case and knows
// no bound of the clocks, so checkFor and checkTimes read the claims again, exactly.
func (p *Provider) verify(ctx context.Context, token, nonce string) (Claims, error) {
	var accepted []jose.SignatureAlgorithm
	for _, alg := range p.Algorithms {
		accepted = append(accepted, jose.SignatureAlgorithm(alg))
	}
	signed, err := jose.ParseSignedCompact(token, accepted)
	if err != nil {
		return nil, fault(BadToken, "the ID token cannot be read: %s", cut(err.Error()))
	}
	header := signed.Signatures[0].Protected
	if kind, given := header.ExtraHeaders[jose.HeaderType].(string); given && !strings.EqualFold(kind, "JWT") {
		return nil, fault(BadToken, "the token is a %q, not an ID token", cut(kind))
	}
	keys, err := p.keysFor(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return nil, err
	}
	verified, err := goidc.NewVerifier(p.Issuer, &goidc.StaticKeySet{PublicKeys: keys}, &goidc.Config{
		ClientID: p.ClientID, SupportedSigningAlgs: p.Algorithms, SkipExpiryCheck: true}).Verify(ctx, token)
	if err != nil {
		return nil, fault(BadToken, "the ID token is refused: %s", cut(err.Error()))
	}
	var claims Claims
	if err := verified.Claims(&claims); err != nil {
		return nil, fault(BadToken, "the claims of the ID token cannot be read")
	}
	if err := p.checkFor(claims, nonce); err != nil {
		return nil, err
	}
	if err := p.checkTimes(claims); err != nil {
		return nil, err
	}
	return claims, nil
}
