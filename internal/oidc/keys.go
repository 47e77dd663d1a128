package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"net/http"
	"slices"
)

// Algorithms lists the signatures that can be accepted. They are all asymmetric.
func Algorithms() []string { return []string{"RS256", "ES256", "EdDSA"} }

// key is a public key of the issuer, with the one algorithm that it verifies by.
type key struct {
	id     string
	alg    string
	public crypto.PublicKey
}

// Sizes of RSA keys that are accepted. A longer one would let the issuer's document cost much work.
const leastRSA, mostRSA = 2048, 8192

// jwk is a key as the issuer publishes it (RFC 7517).
type jwk struct {
	Type  string `json:"kty"`
	ID    string `json:"kid"`
	Use   string `json:"use"`
	Alg   string `json:"alg"`
	Curve string `json:"crv"`
	N     string `json:"n"`
	E     string `json:"e"`
	X     string `json:"x"`
	Y     string `json:"y"`
}

func (p *Provider) readKeys(ctx context.Context) ([]key, error) {
	doc, err := p.document.get(ctx, p.Clock(), p.Bounds.Document, p.Bounds.Again)
	if err != nil {
		return nil, err
	}
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, doc.Keys, nil)
	if err != nil {
		return nil, fault(Unreachable, "jwks_uri has no usable address")
	}
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := p.ask(rq, &set); err != nil {
		return nil, err
	}
	var all []key
	for _, j := range set.Keys[:min(len(set.Keys), p.Bounds.Keys)] {
		if k, ok := j.key(); ok {
			all = append(all, k)
		}
	}
	return all, nil
}

// key makes a key that can verify; false: it is of another kind, for another use, or weak.
func (j *jwk) key() (key, bool) {
	k := key{id: j.ID}
	if j.Use != "" && j.Use != "sig" {
		return k, false
	}
	switch {
	case j.Type == "RSA":
		n, e := new(big.Int).SetBytes(raw(j.N)), new(big.Int).SetBytes(raw(j.E))
		if n.BitLen() < leastRSA || n.BitLen() > mostRSA || e.BitLen() > 31 || e.Int64() < 3 || e.Bit(0) == 0 {
			return k, false
		}
		k.alg, k.public = "RS256", &rsa.PublicKey{N: n, E: int(e.Int64())}
	case j.Type == "EC" && j.Curve == "P-256":
		x, y := raw(j.X), raw(j.Y)
		if len(x) != 32 || len(y) != 32 {
			return k, false
		}
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
		if err != nil { // it is not on the curve
			return k, false
		}
		k.alg, k.public = "ES256", public
	case j.Type == "OKP" && j.Curve == "Ed25519":
		x := raw(j.X)
		if len(x) != ed25519.PublicKeySize {
			return k, false
		}
		k.alg, k.public = "EdDSA", ed25519.PublicKey(x)
	default:
		return k, false
	}
	return k, j.Alg == "" || j.Alg == k.alg || j.Alg == "Ed25519" && k.alg == "EdDSA"
}

// raw decodes a part of a key or token; nil: it is no base64.
func raw(text string) []byte {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil
	}
	return b
}

// signed says whether the signature of a text is by the key.
func (k *key) signed(text string, signature []byte) bool {
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		sum := sha256.Sum256([]byte(text))
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
	case *ecdsa.PublicKey:
		if len(signature) != 64 {
			return false
		}
		sum := sha256.Sum256([]byte(text))
		r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		return ecdsa.Verify(public, sum[:], r, s)
	case ed25519.PublicKey:
		return ed25519.Verify(public, []byte(text), signature)
	}
	return false
}

// pick returns the keys that a token's header names. Without a name the issuer has to have exactly
// one key of the algorithm.
func pick(all []key, id, alg string) []key {
	found := slices.DeleteFunc(slices.Clone(all), func(k key) bool { return k.alg != alg || id != "" && k.id != id })
	if id == "" && len(found) > 1 {
		return nil
	}
	return found
}

// keysFor returns the issuer's keys for a token. If it is by an unknown one, the issuer may have
// new keys: they are read again, but not within Bounds.KeysAgain of the last read.
func (p *Provider) keysFor(ctx context.Context, id, alg string) ([]key, error) {
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
