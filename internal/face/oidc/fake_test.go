package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuer is a small OpenID Connect issuer whose answers a test can spoil.
type issuer struct {
	t      *testing.T
	server *httptest.Server

	mu     sync.Mutex
	now    time.Time
	asked  map[string]int    // requests by path
	forms  []url.Values      // of requests for tokens
	keys   map[string]signer // published, by their ids
	claims func(map[string]any)
	token  func(map[string]any) string // nil: signed by the first key
	info   map[string]any              // of the userinfo endpoint
	spoil  func(http.ResponseWriter, *http.Request) bool
	doc    func(map[string]any)
}

// signer is a private key with the algorithm that it signs by.
type signer struct {
	alg string
	key crypto.Signer
}

func newSigner(t *testing.T, alg string) signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch alg {
	case "RS256":
		key, err = rsa.GenerateKey(rand.Reader, leastRSA)
	case "ES256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "EdDSA":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return signer{alg, key}
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// sign makes a token.
func (s signer) sign(header map[string]any, claims map[string]any) string {
	text := b64(asJSON(header)) + "." + b64(asJSON(claims))
	sum := sha256.Sum256([]byte(text))
	switch key := s.key.(type) {
	case *rsa.PrivateKey:
		signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		if err != nil {
			panic(err)
		}
		return text + "." + b64(signature)
	case *ecdsa.PrivateKey:
		r, v, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			panic(err)
		}
		return text + "." + b64(append(r.FillBytes(make([]byte, 32)), v.FillBytes(make([]byte, 32))...))
	case ed25519.PrivateKey:
		return text + "." + b64(ed25519.Sign(key, []byte(text)))
	}
	panic("no such key")
}

// public is the key as it is published.
func (s signer) public(id string) map[string]any {
	switch key := s.key.Public().(type) {
	case *rsa.PublicKey:
		return map[string]any{"kty": "RSA", "kid": id, "use": "sig", "n": b64(key.N.Bytes()), "e": "AQAB"}
	case *ecdsa.PublicKey:
		point, err := key.Bytes()
		if err != nil {
			panic(err)
		}
		return map[string]any{"kty": "EC", "crv": "P-256", "kid": id, "x": b64(point[1:33]), "y": b64(point[33:])}
	case ed25519.PublicKey:
		return map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": id, "alg": "EdDSA", "x": b64(key)}
	}
	panic("no such key")
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, now: time.Unix(1_800_000_000, 0), asked: map[string]int{}, keys: map[string]signer{"k1": newSigner(t, "ES256")}}
	i.server = httptest.NewServer(i)
	t.Cleanup(i.server.Close)
	return i
}

func (i *issuer) clock() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.now
}

// set changes the issuer.
func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

func (i *issuer) count(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[path]
}

// good are the claims of a token without fault.
func (i *issuer) good(nonce string) map[string]any {
	return map[string]any{"iss": i.server.URL, "aud": "grapnel", "sub": "alice", "nonce": nonce,
		"iat": i.now.Unix(), "exp": i.now.Add(time.Minute).Unix(), "email": "alice@example.com", "email_verified": true}
}

// ServeHTTP answers as an issuer. A code is the nonce of its flow.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked[r.URL.Path]++
	if i.spoil != nil && i.spoil(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		at := i.server.URL
		doc := map[string]any{"issuer": at, "authorization_endpoint": at + "/auth?x=1", "token_endpoint": at + "/token",
			"jwks_uri": at + "/keys", "userinfo_endpoint": at + "/info", "end_session_endpoint": at + "/end"}
		if i.doc != nil {
			i.doc(doc)
		}
		_, _ = w.Write(asJSON(doc))
	case "/keys":
		all := []any{}
		for _, id := range slices.Sorted(maps.Keys(i.keys)) {
			all = append(all, i.keys[id].public(id))
		}
		_, _ = w.Write(asJSON(map[string]any{"keys": all}))
	case "/token":
		if err := r.ParseForm(); err != nil {
			panic(err)
		}
		i.forms = append(i.forms, r.PostForm)
		claims := i.good(r.PostForm.Get("code"))
		if i.claims != nil {
			i.claims(claims)
		}
		id := slices.Sorted(maps.Keys(i.keys))[0]
		var token string
		if i.token != nil {
			token = i.token(claims)
		} else {
			token = i.keys[id].sign(map[string]any{"alg": i.keys[id].alg, "kid": id}, claims)
		}
		_, _ = w.Write(asJSON(map[string]any{"id_token": token, "access_token": "the-access", "token_type": "Bearer"}))
	case "/info":
		if r.Header.Get("Authorization") != "Bearer the-access" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(asJSON(i.info))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// provider makes one for the issuer.
func (i *issuer) provider(change ...func(*Options)) *Provider {
	i.t.Helper()
	o := Options{Issuer: i.server.URL, ClientID: "grapnel", Secret: "s e:cret", Scopes: []string{"email"}, Clock: i.clock}
	for _, c := range change {
		c(&o)
	}
	p, err := New(o)
	if err != nil {
		i.t.Fatal(err)
	}
	return p
}

// signIn goes through one flow, as a browser without ill will does.
func (i *issuer) signIn(p *Provider) (Claims, error) {
	i.t.Helper()
	to, f, err := p.Begin(i.t.Context(), "https://hooks.example.com/login/callback")
	if err != nil {
		return nil, err
	}
	asked, err := url.Parse(to)
	if err != nil {
		i.t.Fatal(err)
	}
	q := asked.Query()
	return p.Finish(i.t.Context(), f, url.Values{"state": {q.Get("state")}, "code": {q.Get("nonce")}})
}
