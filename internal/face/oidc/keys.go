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
