package oidc

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAPersonSignsIn: by each algorithm; the request asks for what the flow needs, and the code
// goes to the issuer with the verifier whose challenge it was asked with.
func TestAPersonSignsIn(t *testing.T) {
	for _, alg := range Algorithms() {
		t.Run(alg, func(t *testing.T) {
			i := newIssuer(t)
			i.keys = map[string]signer{"k1": newSigner(t, alg)}
			p := i.provider()
			to, f, err := p.Begin(t.Context(), "https://hooks.example.com/login/callback")
			if err != nil {
				t.Fatal(err)
			}
			at, err := url.Parse(to)
			if err != nil {
				t.Fatal(err)
			}
			q := at.Query()
			sum := sha256.Sum256([]byte(f.Verifier))
			for name, want := range map[string]string{"x": "1", "response_type": "code", "client_id": "grapnel", "scope": "openid email",
				"redirect_uri": "https://hooks.example.com/login/callback", "state": f.State, "nonce": f.Nonce,
				"code_challenge": b64(sum[:]), "code_challenge_method": "S256"} {
				if q.Get(name) != want {
					t.Errorf("%s = %q, want %q", name, q.Get(name), want)
				}
			}
			if strings.Contains(to, f.Verifier) || len(f.Verifier) != 43 || f.State == f.Nonce {
				t.Errorf("verifier, state and nonce are not secret, long and apart: %+v", f)
			}
			c, err := p.Finish(t.Context(), f, url.Values{"state": {f.State}, "code": {f.Nonce}})
			if err != nil {
				t.Fatal(err)
			}
			email, verified := c.Email()
			if c.Subject() != "alice" || email != "alice@example.com" || !verified {
				t.Errorf("claims are %s", c)
			}
			form := i.forms[0]
			if form.Get("code_verifier") != f.Verifier || form.Get("redirect_uri") != f.Redirect || form.Has("client_secret") {
				t.Errorf("the code was exchanged with %v", form)
			}
		})
	}
}

// TestHostileTokens: an ID token is refused for each fault that it can have, alone.
func TestHostileTokens(t *testing.T) {
	other := newSigner(t, "ES256")
	header := func(more map[string]any) map[string]any {
		h := map[string]any{"alg": "ES256", "kid": "k1"}
		for name, value := range more {
			h[name] = value
		}
		return h
	}
	for name, test := range map[string]struct {
		claims func(i *issuer, c map[string]any)
		token  func(i *issuer, c map[string]any) string
		want   Why
	}{
		"another issuer":   {claims: func(_ *issuer, c map[string]any) { c["iss"] = "https://evil.example.com" }, want: BadToken},
		"no issuer":        {claims: func(_ *issuer, c map[string]any) { delete(c, "iss") }, want: BadToken},
		"issuer of case":   {claims: func(_ *issuer, c map[string]any) { c["ISS"] = c["iss"]; delete(c, "iss") }, want: BadToken},
		"another audience": {claims: func(_ *issuer, c map[string]any) { c["aud"] = "other" }, want: BadToken},
		"part of audience": {claims: func(_ *issuer, c map[string]any) { c["aud"] = "grapnel2" }, want: BadToken},
		"no audience":      {claims: func(_ *issuer, c map[string]any) { delete(c, "aud") }, want: BadToken},
		"audiences without a party": {claims: func(_ *issuer, c map[string]any) { c["aud"] = []string{"grapnel", "other"} },
			want: BadToken},
		"another party":   {claims: func(_ *issuer, c map[string]any) { c["azp"] = "other" }, want: BadToken},
		"another nonce":   {claims: func(_ *issuer, c map[string]any) { c["nonce"] = "other" }, want: BadToken},
		"no nonce":        {claims: func(_ *issuer, c map[string]any) { delete(c, "nonce") }, want: BadToken},
		"no subject":      {claims: func(_ *issuer, c map[string]any) { c["sub"] = "" }, want: BadToken},
		"a long subject":  {claims: func(_ *issuer, c map[string]any) { c["sub"] = strings.Repeat("a", 256) }, want: BadToken},
		"ended":           {claims: func(i *issuer, c map[string]any) { c["exp"] = i.now.Add(-time.Minute).Unix() }, want: Clocks},
		"no end":          {claims: func(_ *issuer, c map[string]any) { delete(c, "exp") }, want: BadToken},
		"an end as text":  {claims: func(_ *issuer, c map[string]any) { c["exp"] = "1900000000" }, want: BadToken},
		"of the future":   {claims: func(i *issuer, c map[string]any) { c["iat"] = i.now.Add(2 * time.Minute).Unix() }, want: Clocks},
		"no time":         {claims: func(_ *issuer, c map[string]any) { delete(c, "iat") }, want: BadToken},
		"not yet":         {claims: func(i *issuer, c map[string]any) { c["nbf"] = i.now.Add(2 * time.Minute).Unix() }, want: Clocks},
		"a bad beginning": {claims: func(_ *issuer, c map[string]any) { c["nbf"] = "soon" }, want: BadToken},
		"none": {token: func(_ *issuer, c map[string]any) string {
			return b64(asJSON(map[string]any{"alg": "none"})) + "." + b64(asJSON(c)) + "."
		}, want: BadToken},
		"none with the signature of a key": {token: func(i *issuer, c map[string]any) string {
			return i.keys["k1"].sign(header(map[string]any{"alg": "none"}), c)
		}, want: BadToken},
		"HMAC by the public key": {token: func(i *issuer, c map[string]any) string {
			text := b64(asJSON(header(map[string]any{"alg": "HS256"}))) + "." + b64(asJSON(c))
			mac := hmac.New(sha256.New, []byte(i.keys["k1"].public("k1")["x"].(string)))
			mac.Write([]byte(text))
			return text + "." + b64(mac.Sum(nil))
		}, want: BadToken},
		"an algorithm of another key type": {token: func(i *issuer, c map[string]any) string {
			return i.keys["k1"].sign(header(map[string]any{"alg": "RS256"}), c)
		}, want: BadToken},
		"an unknown algorithm": {token: func(i *issuer, c map[string]any) string {
			return i.keys["k1"].sign(header(map[string]any{"alg": "PS256"}), c)
		}, want: BadToken},
		"another key by the name of the issuer's": {token: func(_ *issuer, c map[string]any) string { return other.sign(header(nil), c) },
			want: BadToken},
		"a key that the token brings": {token: func(_ *issuer, c map[string]any) string {
			return other.sign(header(map[string]any{"kid": "k9", "jwk": other.public("k9"), "jku": "http://127.0.0.1:1/"}), c)
		}, want: BadToken},
		"extensions": {token: func(i *issuer, c map[string]any) string {
			return i.keys["k1"].sign(header(map[string]any{"crit": []string{"exp"}}), c)
		}, want: BadToken},
		"an access token": {token: func(i *issuer, c map[string]any) string {
			return i.keys["k1"].sign(header(map[string]any{"typ": "at+jwt"}), c)
		}, want: BadToken},
		"changed after it was signed": {token: func(i *issuer, c map[string]any) string {
			parts := strings.Split(i.keys["k1"].sign(header(nil), c), ".")
			c["sub"] = "mallory"
			return parts[0] + "." + b64(asJSON(c)) + "." + parts[2]
		}, want: BadToken},
		"an empty signature": {token: func(i *issuer, c map[string]any) string {
			token := i.keys["k1"].sign(header(nil), c)
			return token[:strings.LastIndex(token, ".")+1]
		}, want: BadToken},
		"two parts": {token: func(_ *issuer, c map[string]any) string { return "e30." + b64(asJSON(c)) }, want: BadToken},
		"the JSON form": {token: func(i *issuer, c map[string]any) string {
			parts := strings.Split(i.keys["k1"].sign(header(nil), c), ".")
			return string(asJSON(map[string]string{"protected": parts[0], "payload": parts[1], "signature": parts[2]}))
		}, want: BadToken},
		"no JSON":  {token: func(*issuer, map[string]any) string { return "a.b.c" }, want: BadToken},
		"too long": {token: func(*issuer, map[string]any) string { return strings.Repeat("a", 1<<17) }, want: BadToken},
		"no token": {token: func(*issuer, map[string]any) string { return "" }, want: BadToken},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			if test.claims != nil {
				i.claims = func(c map[string]any) { test.claims(i, c) }
			}
			if test.token != nil {
				i.token = func(c map[string]any) string { return test.token(i, c) }
			}
			c, err := i.signIn(i.provider())
			if WhyOf(err) != test.want || c != nil {
				t.Errorf("%v, %v; want %s", c, err, test.want)
			}
			i.set(func() { i.claims, i.token = nil, nil })
			if _, err := i.signIn(i.provider()); err != nil {
				t.Errorf("a good token after it: %v", err)
			}
		})
	}
}

// TestTimesWithinTheSkewCount: clocks may differ by the skew and no more.
func TestTimesWithinTheSkewCount(t *testing.T) {
	i := newIssuer(t)
	i.claims = func(c map[string]any) {
		c["exp"], c["iat"], c["nbf"] = i.now.Add(-59*time.Second).Unix(), i.now.Add(60*time.Second).Unix(), i.now.Add(60*time.Second).Unix()
		c["aud"], c["azp"] = []string{"other", "grapnel"}, "grapnel"
	}
	if _, err := i.signIn(i.provider()); err != nil {
		t.Error(err)
	}
}

// TestAnswersOfBrowsers: an answer is of use with the state of its flow only, and the issuer's
// refusals are told apart.
func TestAnswersOfBrowsers(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(f Flow) url.Values
		want   Why
	}{
		"another state": {func(f Flow) url.Values { return url.Values{"state": {f.State + "x"}, "code": {f.Nonce}} }, NotBegun},
		"no state":      {func(f Flow) url.Values { return url.Values{"code": {f.Nonce}} }, NotBegun},
		"no code":       {func(f Flow) url.Values { return url.Values{"state": {f.State}} }, BadAnswer},
		"another issuer": {func(f Flow) url.Values {
			return url.Values{"state": {f.State}, "code": {f.Nonce}, "iss": {"https://evil.example.com"}}
		}, BadAnswer},
		"denied":                 {func(f Flow) url.Values { return url.Values{"state": {f.State}, "error": {"access_denied"}} }, Denied},
		"bad scope":              {func(f Flow) url.Values { return url.Values{"state": {f.State}, "error": {"invalid_scope"}} }, BadClient},
		"strange error":          {func(f Flow) url.Values { return url.Values{"state": {f.State}, "error": {"<script>"}} }, BadAnswer},
		"a code of another flow": {func(f Flow) url.Values { return url.Values{"state": {f.State}, "code": {"nonce-of-another"}} }, BadToken},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			p := i.provider()
			_, f, err := p.Begin(t.Context(), "https://hooks.example.com/login/callback")
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Finish(t.Context(), f, test.answer(f))
			if WhyOf(err) != test.want || strings.Contains(fmt.Sprint(err), "<script>") {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	p := newIssuer(t).provider()
	if _, err := p.Finish(t.Context(), Flow{}, url.Values{"state": {""}, "code": {"x"}}); WhyOf(err) != NotBegun {
		t.Errorf("an empty flow: %v", err)
	}
}

// TestAnswersNameTheIssuer: if the issuer says that its answers name it, one without its name is
// refused.
func TestAnswersNameTheIssuer(t *testing.T) {
	i := newIssuer(t)
	i.doc = func(doc map[string]any) { doc["authorization_response_iss_parameter_supported"] = true }
	p := i.provider()
	if _, err := i.signIn(p); WhyOf(err) != BadAnswer {
		t.Errorf("without its name: %v", err)
	}
	_, f, err := p.Begin(t.Context(), "https://hooks.example.com/login/callback")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = p.Finish(t.Context(), f, url.Values{"state": {f.State}, "code": {f.Nonce}, "iss": {i.server.URL}}); err != nil {
		t.Errorf("with it: %v", err)
	}
}

// TestKeysRotate: an unknown key is looked for once, and then not again for a while, however many
// tokens name one.
func TestKeysRotate(t *testing.T) {
	i := newIssuer(t)
	p := i.provider()
	if _, err := i.signIn(p); err != nil {
		t.Fatal(err)
	}
	next := newSigner(t, "RS256")
	i.set(func() { i.keys, i.now = map[string]signer{"k2": next}, i.now.Add(p.Bounds.KeysAgain) })
	if _, err := i.signIn(p); err != nil || i.count("/keys") != 2 {
		t.Fatalf("%v after %d reads of the keys; want 2", err, i.count("/keys"))
	}
	i.set(func() {
		i.token = func(c map[string]any) string { return next.sign(map[string]any{"alg": "RS256", "kid": "unknown"}, c) }
	})
	for range 10 {
		if _, err := i.signIn(p); WhyOf(err) != BadToken {
			t.Fatal(err)
		}
	}
	if i.count("/keys") != 2 {
		t.Errorf("ten tokens by unknown keys had the keys read %d times", i.count("/keys")-2)
	}
	i.set(func() { i.now = i.now.Add(p.Bounds.KeysAgain) })
	if _, err := i.signIn(p); WhyOf(err) != BadToken || i.count("/keys") != 3 {
		t.Errorf("after a while: %v, %d reads", err, i.count("/keys"))
	}
	first := newSigner(t, "RS256") // published once, and withdrawn since
	i.set(func() {
		i.keys, i.token = map[string]signer{"k1": first}, nil
		i.now = i.now.Add(p.Bounds.Document)
	})
	if _, err := i.signIn(p); err != nil {
		t.Fatal(err)
	}
	i.set(func() {
		i.token = func(c map[string]any) string { return next.sign(map[string]any{"alg": "RS256", "kid": "k2"}, c) }
	})
	if _, err := i.signIn(p); WhyOf(err) != BadToken {
		t.Errorf("a withdrawn key: %v", err)
	}
}

// TestTokensWithoutAKeyID are accepted if the issuer has one key of the algorithm, and only then.
func TestTokensWithoutAKeyID(t *testing.T) {
	i := newIssuer(t)
	i.token = func(c map[string]any) string { return i.keys["k1"].sign(map[string]any{"alg": "ES256"}, c) }
	if _, err := i.signIn(i.provider()); err != nil {
		t.Error(err)
	}
	i.set(func() { i.keys["k2"] = newSigner(t, "ES256") })
	if _, err := i.signIn(i.provider()); WhyOf(err) != BadToken {
		t.Errorf("with two keys: %v", err)
	}
}

// TestUselessAnswersOfTheIssuer: whatever is wrong with the issuer ends in one kind of fault, which
// is remembered for a while, and repeats nothing that the issuer said.
func TestUselessAnswersOfTheIssuer(t *testing.T) {
	only := func(path string, then http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == path {
				then(w, r)
			}
			return r.URL.Path == path
		}
	}
	moved := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	const doc, canary = "/.well-known/openid-configuration", "canary-of-the-answer"
	for name, test := range map[string]struct {
		spoil func(http.ResponseWriter, *http.Request) bool
		doc   func(map[string]any)
		want  Why
	}{
		"no document":     {spoil: only(doc, http.NotFound), want: Unreachable},
		"a page":          {spoil: only(doc, says("<html>"+canary)), want: Unreachable},
		"a redirect":      {spoil: only(doc, moved), want: Unreachable},
		"too much":        {spoil: only(doc, says(`{"a":"`+strings.Repeat("a", 1<<20)+`"}`)), want: Unreachable},
		"another name":    {doc: func(d map[string]any) { d["issuer"] = "https://other.example.com" }, want: Misnamed},
		"plain http":      {doc: func(d map[string]any) { d["token_endpoint"] = "http://login.example.com/token" }, want: Unreachable},
		"a file":          {doc: func(d map[string]any) { d["jwks_uri"] = "file:///etc/passwd" }, want: Unreachable},
		"no keys":         {spoil: only("/keys", http.NotFound), want: Unreachable},
		"keys of nothing": {spoil: only("/keys", says(`{"keys":[]}`)), want: BadToken},
		"a down exchange": {spoil: only("/token", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, canary, http.StatusBadGateway)
		}), want: Unreachable},
		"a moved exchange": {spoil: only("/token", moved), want: Unreachable},
		"a wrong secret": {spoil: only("/token", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"invalid_client","error_description":"` + canary + `"}`))
		}), want: BadClient},
		"a used code": {spoil: only("/token", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		}), want: CodeOver},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			i.spoil, i.doc = test.spoil, test.doc
			p := i.provider()
			_, err := i.signIn(p)
			if WhyOf(err) != test.want || strings.Contains(err.Error(), canary) || i.count("/elsewhere") != 0 {
				t.Errorf("%v, want %s", err, test.want)
			}
			for range 5 {
				_, _ = i.signIn(p)
			}
			if name != "keys of nothing" && i.count("/token") == 0 && i.count(doc) != 1 {
				t.Errorf("the document was read %d times within the pause", i.count(doc))
			}
			i.set(func() { i.spoil, i.doc, i.now = nil, nil, i.now.Add(p.Bounds.KeysAgain) })
			if _, err := i.signIn(p); err != nil {
				t.Errorf("after it was mended: %v", err)
			}
		})
	}
}

// TestManyBrowsersReadOnce: browsers that come together have the documents read once, and no more
// answers are checked at once than the bound says.
func TestManyBrowsersReadOnce(t *testing.T) {
	i := newIssuer(t)
	p := i.provider(func(o *Options) { o.Bounds.Finishing = 64 })
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if _, err := i.signIn(p); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if i.count("/keys") != 1 || i.count("/.well-known/openid-configuration") != 1 {
		t.Errorf("documents were read %d and %d times", i.count("/keys"), i.count("/.well-known/openid-configuration"))
	}
	p = i.provider(func(o *Options) { o.Bounds.Finishing = 1 })
	p.finishing <- struct{}{}
	if _, err := i.signIn(p); WhyOf(err) != Busy {
		t.Errorf("one too many: %v", err)
	}
}

// TestASlowIssuer: an answer that does not come ends with the bound.
func TestASlowIssuer(t *testing.T) {
	i := newIssuer(t)
	i.spoil = func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
	_, err := i.signIn(i.provider(func(o *Options) { o.Bounds.Fetch = 50 * time.Millisecond }))
	if WhyOf(err) != Unreachable {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := i.provider()
	p.document.turn <- struct{}{} // another browser's read goes on
	if _, _, err := p.Begin(ctx, "https://hooks.example.com/"); !errors.Is(err, context.Canceled) {
		t.Errorf("a browser that left: %v", err)
	}
}

// TestClaimsOfTheUserinfoEndpoint: they are asked for if the token lacks a wanted one, are about
// the same person, and replace nothing.
func TestClaimsOfTheUserinfoEndpoint(t *testing.T) {
	i := newIssuer(t)
	wants := func(o *Options) { o.Mapping = Mapping{Groups: "groups", Rules: []Rule{{Group: "ops", Role: "viewer"}}} }
	i.info = map[string]any{"sub": "alice", "groups": []string{"ops"}, "email": "mallory@example.com"}
	c, err := i.signIn(i.provider(wants))
	if email, _ := c.Email(); err != nil || len(c.Texts("groups")) != 1 || email != "alice@example.com" {
		t.Errorf("%s, %v", c, err)
	}
	i.set(func() { i.info["sub"] = "mallory" })
	if _, err = i.signIn(i.provider(wants)); WhyOf(err) != BadToken {
		t.Errorf("of another person: %v", err)
	}
	before := i.count("/info")
	i.set(func() { i.claims = func(c map[string]any) { c["groups"] = "ops" } })
	if _, err = i.signIn(i.provider(wants)); err != nil || i.count("/info") != before {
		t.Errorf("asked although the token has it: %v", err)
	}
}

// TestAVerifiedAddressIsTheOneThatIsVerified: what the userinfo endpoint says of its address is not
// said of another one in the token.
func TestAVerifiedAddressIsTheOneThatIsVerified(t *testing.T) {
	i := newIssuer(t)
	i.claims = func(c map[string]any) { delete(c, "email_verified") }
	wants := func(o *Options) { o.Mapping = Mapping{Rules: []Rule{{Email: "alice@example.com", Role: "admin"}}} }
	for email, verified := range map[string]bool{"alice@example.com": true, "mallory@example.com": false} {
		i.set(func() { i.info = map[string]any{"sub": "alice", "email": email, "email_verified": true} })
		c, err := i.signIn(i.provider(wants))
		if _, is := c.Email(); err != nil || is != verified {
			t.Errorf("with %s verified: %s, %v", email, c, err)
		}
	}
}

// TestClientAuthentication: the secret is sent in the way that the issuer takes, and nowhere else.
func TestClientAuthentication(t *testing.T) {
	i := newIssuer(t)
	var user, password string
	i.spoil = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			user, password, _ = r.BasicAuth()
		}
		return false
	}
	if _, err := i.signIn(i.provider()); err != nil || user != "grapnel" || password != "s+e%3Acret" {
		t.Errorf("%q %q %v", user, password, err)
	}
	i.set(func() {
		i.doc = func(d map[string]any) { d["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"} }
	})
	if _, err := i.signIn(i.provider()); err != nil || user != "" || i.forms[1].Get("client_secret") != "s e:cret" {
		t.Errorf("%q %v %v", user, i.forms[1], err)
	}
	if _, err := i.signIn(i.provider(func(o *Options) { o.Secret = "" })); err != nil ||
		user != "" || i.forms[2].Get("client_id") != "grapnel" {
		t.Errorf("%q %v %v", user, i.forms[2], err)
	}
}

func TestSignOut(t *testing.T) {
	i := newIssuer(t)
	p := i.provider()
	if _, ok := p.SignOut("https://hooks.example.com/login"); ok {
		t.Error("an address is known before the document")
	}
	if _, err := i.signIn(p); err != nil {
		t.Fatal(err)
	}
	to, ok := p.SignOut("https://hooks.example.com/login")
	at, err := url.Parse(to)
	if !ok || err != nil || at.Path != "/end" || at.Query().Get("client_id") != "grapnel" ||
		at.Query().Get("post_logout_redirect_uri") != "https://hooks.example.com/login" {
		t.Errorf("%q %v", to, ok)
	}
}

func TestWrongOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"http":         {Issuer: "http://login.example.com", ClientID: "a"},
		"no address":   {Issuer: "login.example.com", ClientID: "a"},
		"a user":       {Issuer: "https://me@login.example.com", ClientID: "a"},
		"no client":    {Issuer: "https://login.example.com"},
		"none":         {Issuer: "https://login.example.com", ClientID: "a", Algorithms: []string{"none"}},
		"a shared key": {Issuer: "https://login.example.com", ClientID: "a", Algorithms: []string{"HS256"}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestKeysThatAreNotUsed: a published key counts only if it is strong, whole and for signatures.
func TestKeysThatAreNotUsed(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	ec, rs := newSigner(t, "ES256").public("k"), newSigner(t, "RS256").public("k")
	with := func(from map[string]any, name string, value any) map[string]any {
		k := maps.Clone(from)
		k[name] = value
		return k
	}
	if _, ok := readKey(asJSON(ec)); !ok {
		t.Fatal("a good key is refused")
	}
	for name, key := range map[string]map[string]any{
		"encrypts": with(ec, "use", "enc"), "off the curve": with(ec, "y", ec["x"]), "another curve": with(ec, "crv", "P-521"),
		"another algorithm": with(ec, "alg", "RS256"), "even exponent": with(rs, "e", b64([]byte{4})), "exponent one": with(rs, "e", b64([]byte{1})),
		"small": with(rs, "n", b64(small.N.Bytes())), "symmetric": {"kty": "oct", "kid": "k", "k": "AAAA"},
		"Ed25519 cut": {"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}, "a private one": with(ec, "d", ec["x"]),
	} {
		if k, ok := readKey(asJSON(key)); ok {
			t.Errorf("%s: taken as %s", name, k.Algorithm)
		}
	}
}
