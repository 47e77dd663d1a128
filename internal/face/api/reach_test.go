package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
)

// authority and authorityKey are a certificate and its key.
var authority, authorityKey = newCertificate()

func newCertificate() (cert, key string) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Date(2050, 1, 2, 3, 4, 5, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		panic(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}

// TestSecretsOfReachingAreKeptAndNeverShown: no answer shows them, and a patch of something else
// keeps them. A patch that would send a secret to another server needs the secret.
func TestSecretsOfReachingAreKeptAndNeverShown(t *testing.T) {
	w := newWorld(t)
	made := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","proxy":"http://me:s3cret@proxy.example:3128",
		"oauth2":{"token_url":"https://t.example/token","client_id":"me","client_secret":"s3cret"},
		"tls":{"client_cert":`+quoted(authority)+`,"client_key":`+quoted(authorityKey)+`}}`)
	at := "/v1/endpoints/" + made["id"].(string)
	if made["client_cert_ends"] != "2050-01-02T03:04:05.000000Z" {
		t.Errorf("the certificate ends %v", made["client_cert_ends"])
	}
	stored := func() string {
		ep, _ := w.engine.Endpoint(store.Of("default"), made["id"].(string))
		return ep.OAuth2.ClientSecret.Text + " " + ep.Proxy.Text + " " + ep.TLS.ClientKey.Text
	}
	whole := stored()
	for _, patch := range []string{`{"description":"x"}`, `{"oauth2":{"scopes":["a"]}}`, `{"oauth2":{"token_url":"https://t.example/v2"}}`,
		`{"proxy":"http://me:[redacted]@proxy.example:3128","tls":{"client_key":"[redacted]"}}`} {
		if answer := body(t, w.must(200, "PATCH", at, patch)); strings.Contains(answer, "s3cret") || strings.Contains(answer, "PRIVATE") {
			t.Errorf("%s shows a secret: %s", patch, answer)
		}
		if stored() != whole {
			t.Errorf("%s changed a secret", patch)
		}
	}
	for patch, pointer := range map[string]string{
		`{"oauth2":{"token_url":"https://evil.example/token"}}`:            "/oauth2/client_secret",
		`{"proxy":"http://me:[redacted]@evil.example:3128"}`:               "/proxy",
		`{"headers":{"authorization":"x"}}`:                                "/headers/authorization",
		`{"url":"http://a.example"}`:                                       "/tls",
		`{"tls":{"client_cert":null}}`:                                     "/tls/client_cert",
		`{"tls":{"client_key":"x"}}`:                                       "/tls/client_key",
		`{"tls":{"ca":"x"}}`:                                               "/tls/ca",
		`{"oauth2":{"token_url":"http://127.0.0.1/","client_secret":"x"}}`: "/oauth2/token_url",
		`{"proxy":"http://169.254.169.254:80"}`:                            "/proxy",
		`{"proxy":"socks5://proxy.example:1080"}`:                          "/proxy",
		`{"method":"GET"}`:                                                 "/method",
	} {
		r := w.ask(admin, "PATCH", at, patch)
		if r.StatusCode != 422 || !strings.Contains(string(r.body), `"pointer":"`+pointer+`"`) || strings.Contains(string(r.body), "s3cret") {
			t.Errorf("%s: %d %s", patch, r.StatusCode, r.body)
		}
	}
	if stored() != whole {
		t.Error("a refused request changed a secret")
	}
	w.must(200, "PATCH", at, `{"oauth2":{"token_url":"https://u.example/token","client_secret":"other"},"tls":null,"proxy":null}`)
	if got := w.must(200, "PATCH", at, `{"oauth2":{"token_url":null}}`)["oauth2"]; got != nil {
		t.Errorf("the client is %v", got)
	}
	w.must(422, "POST", "/v1/endpoints", `{"url":"https://a.example","oauth2":{"client_id":"me","client_secret":"x"}}`)
	w.must(422, "POST", "/v1/endpoints", `{"url":"https://a.example","oauth2":`+body(t, client("[redacted]"))+`}`)
}
