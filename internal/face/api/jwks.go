package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/sign"
	"github.com/grapnelhq/grapnel/wire"
)

// The public keys of one endpoint are open to anybody who knows its id, of which 74 bits are
// random, so that receivers can verify without a key of this server. One document with the keys of
// all endpoints would say how many there are and when they rotate.
func jwksRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/endpoints/{id}/jwks.json", open: anybody, handle: getJWKS,
			name: "get-jwks", tag: "Endpoints", summary: "Get the public keys that verify an endpoint's signatures",
			about: "A JWK Set (RFC 7517) of the Ed25519 keys that sign now, the newest first; after a rotation both, until the overlap ends. Needs no API key: the endpoint's id is the credential. " +
				"Caches may keep it for five minutes. 404 for an endpoint whose secrets are all symmetric, as for one that does not exist.",
			gives: map[int]any{200: wire.JWKS{}}},
	}
}

func getJWKS(a *api, c *call) (answer, error) {
	ep, _ := a.Engine.Endpoint(store.Everyone(), c.PathValue("id")) // else the zero Endpoint, without keys
	keys := jwksOf(&ep, c.now)
	if len(keys) == 0 {
		return answer{}, grapnel.Errorf(grapnel.CodeNotFound, "No endpoint with this id has a public key.")
	}
	ans := jsonAnswer(http.StatusOK, wire.JWKS{Keys: keys})
	ans.header = map[string]string{"Cache-Control": "public, max-age=" + strconv.Itoa(int(a.Bounds.KeysCached/time.Second))}
	return ans, nil
}

// jwksOf are the public halves of the endpoint's secrets that sign now.
func jwksOf(ep *grapnel.Endpoint, now time.Time) (keys []wire.JWK) {
	for _, s := range ep.Secrets {
		if !s.Live(now) || !ep.Receives() {
			continue
		}
		public, _ := sign.PublicKey(s.Text) // a symmetric secret has none
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(public, sign.PublicPrefix))
		if public == "" || err != nil {
			continue
		}
		x := base64.RawURLEncoding.EncodeToString(raw)
		id := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`)) // RFC 7638
		keys = append(keys, wire.JWK{KeyType: "OKP", Curve: "Ed25519", X: x, ID: base64.RawURLEncoding.EncodeToString(id[:]),
			Use: "sig", Algorithm: "EdDSA"})
	}
	return keys
}

// jwksURL is where the endpoint's public keys are; empty: it has none.
func (a *api) jwksURL(c *call, ep *grapnel.Endpoint) string {
	if len(jwksOf(ep, c.now)) == 0 {
		return ""
	}
	return a.links.root(c.Request) + "/v1/endpoints/" + ep.ID + "/jwks.json"
}
