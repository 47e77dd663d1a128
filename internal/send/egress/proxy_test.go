package egress

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/policy"
)

// relay is a proxy that opens a tunnel to wherever it is asked. It returns its address and what it
// was asked for.
func relay(t *testing.T, asked *[]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serveConns(l, func(c net.Conn) { tunnelTo(c, asked) }))
	return l.Addr().String()
}

func tunnelTo(c net.Conn, asked *[]string) {
	in := bufio.NewReader(c)
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	*asked = append(*asked, req.Method+" "+req.Host+" "+req.Header.Get("Proxy-Authorization"))
	to, err := net.Dial("tcp", req.Host)
	if err != nil {
		_, _ = io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\n\r\n")
		return
	}
	defer to.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() { _, _ = io.Copy(to, in); _ = to.(*net.TCPConn).CloseWrite() }()
	_, _ = io.Copy(c, to)
}

func proxyURL(address string) *url.URL { return &url.URL{Scheme: "http", Host: address} }

// TestDeliveriesGoThroughTheProxies: the operator's first, then the endpoint's. They are asked for
// addresses that were resolved here, a connection is used again, and the peer is the receiver.
func TestDeliveriesGoThroughTheProxies(t *testing.T) {
	var first, second []string
	operators, own := relay(t, &first), relay(t, &second)
	srv := server(t, ok)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	s := sender(t, Options{Allow: loopback(), Resolver: here{}, Proxy: proxyURL(operators)})
	defer s.Close() // before the proxies end
	e := endpoint("http://hooks.example:" + port + "/")
	e.Proxy.Text = "http://me:s3cret@" + own
	for n := range 2 {
		r := send(s, delivery(e))
		if r.Outcome.Status != 200 || r.Phases.Reused != (n == 1) || r.Peer.Address != "127.0.0.1" {
			t.Fatalf("%d: %+v %s", n, r.Outcome, r.Error)
		}
	}
	basic := base64.StdEncoding.EncodeToString([]byte("me:s3cret"))
	if want := fmt.Sprint([]string{"CONNECT " + own + " "}); fmt.Sprint(first) != want {
		t.Errorf("the operator's proxy was asked for %q, not %q", first, want)
	}
	if want := fmt.Sprint([]string{"CONNECT 127.0.0.1:" + port + " Basic " + basic}); fmt.Sprint(second) != want {
		t.Errorf("the endpoint's proxy was asked for %q, not %q", second, want)
	}
}

// TestATenantsProxyIsForEndpointsWithoutOne: an endpoint's own goes before it, it may be at an
// address that deliveries may not go to, the server's is on the way to it, and a change takes
// effect at the next attempt. Channels have it too, but not for mails. What it leads to is judged as
// ever.
func TestATenantsProxyIsForEndpointsWithoutOne(t *testing.T) {
	var servers, tenants, others, own []string
	srv := server(t, ok)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	asked := func(e *grapnel.Endpoint, s *Sender, proxy string, class policy.Class) string {
		t.Helper()
		d := delivery(e)
		d.Proxy = proxy
		servers, tenants, others, own = nil, nil, nil, nil
		if r := send(s, d); r.Outcome.Class != class || strings.Contains(r.Error, "s3cret") {
			t.Fatalf("%+v %s", r.Outcome, r.Error)
		}
		return fmt.Sprint(len(servers), len(tenants), len(others), len(own))
	}
	through, theirs := relay(t, &servers), "http://me:s3cret@"+relay(t, &tenants)
	another, its := "http://"+relay(t, &others), "http://"+relay(t, &own)
	s := sender(t, Options{Allow: loopback(), Resolver: here{}, Proxy: proxyURL(through)})
	defer s.Close()
	e := endpoint("http://hooks.example:" + port + "/")
	for i, c := range []struct{ proxy, want string }{{"", "1 0 0 0"}, {theirs, "1 1 0 0"}, {theirs, "0 0 0 0"}, {another, "1 0 1 0"},
		{"", "1 0 0 0"}} {
		if got := asked(e, s, c.proxy, policy.ClassNone); got != c.want {
			t.Errorf("%d: %s", i, got)
		}
	}
	with := endpoint("http://hooks.example:" + port + "/")
	with.ID, with.Proxy.Text = "ep_with", its
	if got := asked(with, s, theirs, policy.ClassNone); got != "1 0 0 1" {
		t.Error(got)
	}
	// A channel's messages go the same way; its mails go past the tenant's proxy.
	chat, mail := endpoint(""), endpoint("")
	chat.ID, mail.ID, chat.Policy, mail.Policy = "chn_chat", "chn_mail", channels.Policy(), channels.Policy()
	chat.Channel = &grapnel.Channel{URL: grapnel.Secret{Text: "generic://hooks.example:" + port + "/?disabletls=yes"}}
	if got := asked(chat, s, theirs, policy.ClassNone); got != "1 1 0 0" {
		t.Errorf("chat: %s", got)
	}
	mail.Channel = &grapnel.Channel{URL: grapnel.Secret{Text: "smtp://127.0.0.1:1/?fromaddress=a@example.com&toaddresses=b@example.com"}}
	if got := asked(mail, s, theirs, policy.ClassProxy); got != "1 0 0 0" {
		t.Errorf("mail: %s", got)
	}
	guarded := sender(t, Options{Resolver: here{}}) // no address is allowed but public ones
	defer guarded.Close()
	if got := asked(e, guarded, theirs, policy.ClassBlocked); got != "0 0 0 0" {
		t.Error(got)
	}
	far := endpoint("http://1.1.1.1/")
	far.ID, far.Policy.Timeout = "ep_far", policy.Duration(300*time.Millisecond)
	d := delivery(far)
	d.Proxy = theirs
	if r := send(guarded, d); r.Outcome.Class == policy.ClassBlocked || len(tenants) != 1 {
		t.Errorf("%+v, asked %q", r.Outcome, tenants)
	}
}

// TestAProxyIsNoWayAroundTheGuard: neither a name nor a literal leads to an address that is not
// allowed, and an endpoint's own proxy must be at one that is.
func TestAProxyIsNoWayAroundTheGuard(t *testing.T) {
	var asked []string
	operators, trap := relay(t, &asked), newTrap(t)
	s := sender(t, Options{Resolver: here{}, Proxy: proxyURL(operators)}) // no address is allowed but public ones
	for _, host := range []string{"hooks.example", "127.0.0.1", "[::1]"} {
		url := "http://" + host + ":" + trap.port + "/"
		if r := send(s, delivery(endpoint(url))); r.Outcome.Class != policy.ClassBlocked {
			t.Errorf("%s: %+v %s", url, r.Outcome, r.Error)
		}
	}
	e := endpoint("http://1.1.1.1/")
	for _, proxy := range []string{"http://hooks.example:" + trap.port, "http://127.0.0.1:" + trap.port, "http://169.254.169.254:80"} {
		e.ID, e.Proxy.Text = proxy, proxy
		if r := send(s, delivery(e)); r.Outcome.Class != policy.ClassBlocked || strings.Contains(r.Error, "127.0.0.1") {
			t.Errorf("%s: %+v %s", proxy, r.Outcome, r.Error)
		}
	}
	if n := trap.hits.Load(); n != 0 || len(asked) != 0 {
		t.Errorf("%d connections were made, and the proxy was asked for %q", n, asked)
	}
}

// TestFailuresOfAProxyAreItsOwn: nothing that happens before the tunnel stands is the endpoint's,
// unless the proxy says in so many words that the endpoint took no connection.
func TestFailuresOfAProxyAreItsOwn(t *testing.T) {
	trap := newTrap(t)
	for name, c := range map[string]struct {
		answer string
		class  policy.Class
		error  string
	}{
		"redirects":       {"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:" + trap.port + "/\r\n\r\n", policy.ClassProxy, "it answered 302 Found"},
		"wants a user":    {"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", policy.ClassProxy, "it answered 407"},
		"fails":           {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\n\r\nno!", policy.ClassProxy, "it answered 503"},
		"breaks off":      {"HTTP/1.1 200", policy.ClassProxy, "it closed the connection"},
		"is no proxy":     {"220 mail.example ESMTP\r\n\r\n", policy.ClassProxy, "its answer is not valid HTTP"},
		"never ends":      {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: b\r\n", 1<<12), policy.ClassProxy, "its answer is not valid HTTP"},
		"says who":        {"HTTP/1.1 502 Bad Gateway\r\nProxy-Status: p; error=connection_refused\r\n\r\n", policy.ClassConnect, "cannot reach"},
		"is Squid":        {"HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_CONNECT_FAIL 111\r\n\r\n", policy.ClassConnect, "cannot reach"},
		"does not answer": {"", policy.ClassProxy, "it did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer serveConns(l, func(p net.Conn) {
				_, _ = http.ReadRequest(bufio.NewReader(p))
				_, _ = io.WriteString(p, c.answer)
				if c.answer == "" {
					_, _ = p.Read(make([]byte, 1))
				}
			})()
			s := sender(t, Options{Allow: loopback(), Resolver: here{}, Proxy: proxyURL(l.Addr().String())})
			defer s.Close()
			e := endpoint("http://hooks.example:" + trap.port + "/")
			if c.answer == "" { // the others must not be cut off on a slow machine: it would be this case
				e.Policy.Timeout = policy.Duration(300 * time.Millisecond)
			}
			r := send(s, delivery(e))
			if r.Outcome.Class != c.class || !strings.Contains(r.Error, c.error) || strings.Contains(r.Error, "127.0.0.1") || r.Sent != nil {
				t.Errorf("%+v %q", r.Outcome, r.Error)
			}
		})
	}
	s := sender(t, Options{Allow: loopback(), Resolver: here{}, Proxy: proxyURL("127.0.0.1:1")})
	if r := send(s, delivery(endpoint("http://hooks.example/"))); r.Outcome.Class != policy.ClassProxy || !strings.Contains(r.Error, "refused") {
		t.Errorf("no proxy at all: %+v %q", r.Outcome, r.Error)
	}
	if n := trap.hits.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// asking is a receiver that wants a certificate of an authority, and answers with its name.
func asking(t *testing.T, a *authority, version uint16) (url string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		_, _ = fmt.Fprint(w, name, " ", r.TLS.DidResume)
	}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(t, "hooks.example", day(-1), day(1))}, ClientCAs: a.pool,
		ClientAuth: tls.VerifyClientCertIfGiven, MaxVersion: version}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	return "https://hooks.example:" + port + "/"
}

// identity is a client certificate as settings of an endpoint.
func identity(t *testing.T, a *authority, name string) *grapnel.TLS {
	t.Helper()
	cert, key := a.pem(t, name, day(-1), day(1))
	return &grapnel.TLS{CA: a.text(), ClientCert: cert, ClientKey: grapnel.Secret{Text: key}}
}

// TestACertificateIsItsEndpointsAlone: endpoints of several tenants at one receiver show the
// certificate that each has, or none, in whatever order and however often they connect: no
// connection and no TLS session of one serves another.
func TestACertificateIsItsEndpointsAlone(t *testing.T) {
	a := newAuthority(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		url := asking(t, a, version)
		s := sender(t, Options{Allow: loopback(), Resolver: here{}, RootCAs: a.pool, IdleTimeout: time.Nanosecond})
		acme, other, bare := endpoint(url), endpoint(url), endpoint(url)
		acme.ID, acme.Tenant, acme.TLS = "ep_a", "acme", identity(t, a, "acme")
		other.ID, other.Tenant, other.TLS = "ep_b", "other", identity(t, a, "other")
		bare.ID, bare.Tenant = "ep_c", "third"
		resumed := false
		for range 3 {
			for _, c := range []struct {
				e    *grapnel.Endpoint
				want string
			}{{acme, "acme"}, {bare, "nobody"}, {other, "other"}, {bare, "nobody"}} {
				r := send(s, delivery(c.e))
				name, again, _ := strings.Cut(string(r.Body), " ")
				if name != c.want || r.Phases.Reused {
					t.Errorf("TLS %x: %s showed itself as %q: %+v %s", version, c.e.Tenant, r.Body, r.Outcome, r.Error)
				}
				resumed = resumed || again == "true" && c.e.TLS != nil
			}
		}
		if !resumed {
			t.Errorf("TLS %x: no session was resumed, so the test proves little", version)
		}
	}
}

// TestAPrivateAuthority: an endpoint's own authority is the only one that it trusts, and no other
// endpoint trusts it.
func TestAPrivateAuthority(t *testing.T) {
	public, private := newAuthority(t), newAuthority(t)
	s := sender(t, Options{Allow: loopback(), Resolver: here{}, RootCAs: public.pool})
	own, others := endpoint(asking(t, private, 0)), endpoint("")
	own.TLS = &grapnel.TLS{CA: private.text()}
	if r := send(s, delivery(own)); r.Outcome.Status != 200 {
		t.Errorf("%+v %s", r.Outcome, r.Error)
	}
	others.ID, others.URL = "ep_2", own.URL
	if r := send(s, delivery(others)); r.Outcome.Class != policy.ClassTLS {
		t.Errorf("another endpoint trusts it: %+v", r.Outcome)
	}
	changed := *own
	changed.Revision, changed.URL = 2, asking(t, public, 0)
	if r := send(s, delivery(&changed)); r.Outcome.Class != policy.ClassTLS {
		t.Errorf("it trusts the public authorities too: %+v", r.Outcome)
	}
}

func TestCheckTLS(t *testing.T) {
	a := newAuthority(t)
	until := day(1) // read once: the clock may pass a full second before the comparison
	cert, key := a.pem(t, "a", day(-1), until)
	_, foreign := a.pem(t, "b", day(-1), day(1))
	ended, endedKey := a.pem(t, "c", day(-2), day(-1))
	for name, c := range map[string]struct {
		is    grapnel.TLS
		field string
	}{
		"all":              {grapnel.TLS{CA: a.text(), ClientCert: cert, ClientKey: grapnel.Secret{Text: key}}, ""},
		"an authority":     {grapnel.TLS{CA: a.text()}, ""},
		"no authority":     {grapnel.TLS{CA: "x"}, "ca"},
		"no key":           {grapnel.TLS{ClientCert: cert}, "client_key"},
		"no certificate":   {grapnel.TLS{ClientKey: grapnel.Secret{Text: key}}, "client_cert"},
		"not PEM":          {grapnel.TLS{ClientCert: "x", ClientKey: grapnel.Secret{Text: key}}, "client_cert"},
		"another key":      {grapnel.TLS{ClientCert: cert, ClientKey: grapnel.Secret{Text: foreign}}, "client_key"},
		"ended":            {grapnel.TLS{ClientCert: ended, ClientKey: grapnel.Secret{Text: endedKey}}, "client_cert"},
		"an encrypted key": {grapnel.TLS{ClientCert: cert, ClientKey: grapnel.Secret{Text: "BEGIN ENCRYPTED PRIVATE KEY"}}, "client_key"},
	} {
		err := CheckTLS(&c.is, time.Now())
		if fault, _ := err.(*TLSError); (c.field == "") != (err == nil) || fault != nil && fault.Field != c.field { //nolint:errorlint // as it is
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("%s: the error has the key", name)
		}
	}
	if got := ClientCertUntil(&grapnel.TLS{ClientCert: cert}); !got.Equal(until.Truncate(time.Second)) {
		t.Errorf("it ends %s", got)
	}
}

// tokenServer gives tokens t1, t2, … and counts requests.
func tokenServer(t *testing.T, n *atomic.Int64, answer func(w http.ResponseWriter, n int64)) string {
	t.Helper()
	return server(t, func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if r.FormValue("grant_type") != "client_credentials" || id != "me" || secret != "s3cret" || r.FormValue("scope") != "a b" ||
			r.FormValue("audience") != "hooks" {
			t.Errorf("asked with %v as %s", r.Form, id)
		}
		answer(w, n.Add(1))
	}).URL
}

func given(w http.ResponseWriter, n int64) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"access_token":"t%d","token_type":"bearer","expires_in":3600}`, n)
}

func client(tokenURL string) *grapnel.OAuth2 {
	return &grapnel.OAuth2{TokenURL: tokenURL, ClientID: "me", ClientSecret: grapnel.Secret{Text: "s3cret"}, Scopes: []string{"a", "b"}, Audience: "hooks"}
}

// TestTokens: one fetch serves all attempts until the token ends. A 401 for a token that worked is
// recorded as such, and the next attempt has a new one; a 401 for the new one is the endpoint's.
func TestTokens(t *testing.T) {
	var fetched atomic.Int64
	var got, good atomic.Value
	good.Store("Bearer t1")
	srv := server(t, func(w http.ResponseWriter, r *http.Request) {
		if got.Store(r.Header.Get("Authorization")); got.Load() != good.Load() {
			w.WriteHeader(401)
		}
	})
	now := time.Now()
	s := sender(t, Options{Allow: loopback(), MaxConnAge: time.Minute, Now: func() time.Time { return now }})
	e := endpoint(srv.URL)
	e.OAuth2 = client(tokenServer(t, &fetched, given))
	e.Method = http.MethodPut
	done := make(chan Result, 8)
	for range 8 {
		go func() { done <- send(s, delivery(e)) }()
	}
	for range 8 {
		if r := <-done; r.Outcome.Status != 200 || !strings.Contains(fmt.Sprint(r.Sent), "{Authorization [redacted]}") {
			t.Fatalf("%+v %s %v", r.Outcome, r.Error, r.Sent)
		}
	}
	now = now.Add(5 * time.Minute) // the route is another one now, with the same token
	if r := send(s, delivery(e)); r.Outcome.Status != 200 || fetched.Load() != 1 {
		t.Fatalf("%+v after %d fetches", r.Outcome, fetched.Load())
	}
	good.Store("Bearer t2")
	if r := send(s, delivery(e)); r.Outcome.Class != policy.ClassToken || r.Outcome.Status != 401 || fetched.Load() != 1 {
		t.Errorf("a token that has ended early: %+v %s", r.Outcome, r.Error)
	}
	if r := send(s, delivery(e)); r.Outcome.Status != 200 || fetched.Load() != 2 {
		t.Errorf("the next attempt: %+v %s", r.Outcome, r.Error)
	}
	good.Store("nothing")
	for range 3 { // the token is too young to blame
		if r := send(s, delivery(e)); r.Outcome.Class != policy.ClassStatus4xx || fetched.Load() != 2 {
			t.Errorf("%+v after %d fetches", r.Outcome, fetched.Load())
		}
	}
	now = now.Add(time.Hour)
	if r := send(s, delivery(e)); r.Outcome.Class != policy.ClassStatus4xx || fetched.Load() != 3 || got.Load() != "Bearer t3" {
		t.Errorf("after the end of the token: %+v with %v", r.Outcome, got.Load())
	}
	changed := *e
	changed.Revision, changed.OAuth2 = 2, client(e.OAuth2.TokenURL)
	changed.OAuth2.Scopes = []string{"a b"} // another client
	if send(s, delivery(&changed)); fetched.Load() != 4 {
		t.Errorf("%d fetches after the client was changed", fetched.Load())
	}
}

// TestFailuresOfATokenServerAreItsOwn: nothing is sent to the endpoint, and no text repeats what
// the token server wrote.
func TestFailuresOfATokenServerAreItsOwn(t *testing.T) {
	trap := newTrap(t)
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, n int64)
		error  string
	}{
		"refuses": {func(w http.ResponseWriter, _ int64) {
			w.WriteHeader(401)
			_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"s3cret is wrong"}`)
		}, "it answered 401 Unauthorized"},
		"redirects": {func(w http.ResponseWriter, _ int64) {
			w.Header().Set("Location", "http://127.0.0.1:"+trap.port+"/")
			w.WriteHeader(307)
		}, "it answered 307"},
		"is a page": {func(w http.ResponseWriter, _ int64) { _, _ = io.WriteString(w, "<html>s3cret") }, "no bearer token"},
		"is endless": {func(w http.ResponseWriter, _ int64) {
			w.Header().Set("Content-Type", "application/json")
			for chunk := make([]byte, 1<<20); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, "no bearer token"},
		"gives a line break": {func(w http.ResponseWriter, _ int64) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"access_token":"a\r\nX-Evil: 1","token_type":"bearer"}`)
		}, "no bearer token"},
		"hangs": {func(http.ResponseWriter, int64) { time.Sleep(500 * time.Millisecond) }, "it did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			s := sender(t, Options{Allow: loopback(), Bounds: Bounds{TokenTime: 200 * time.Millisecond}})
			e := endpoint("http://127.0.0.1:" + trap.port + "/")
			e.OAuth2 = client("")
			e.OAuth2.TokenURL = server(t, func(w http.ResponseWriter, _ *http.Request) { c.answer(w, n.Add(1)) }).URL
			for range 2 {
				r := send(s, delivery(e))
				if r.Outcome.Class != policy.ClassToken || r.Outcome.Status != 0 || !strings.Contains(r.Error, "the token server failed: ") ||
					!strings.Contains(r.Error, c.error) || strings.Contains(r.Error, "s3cret") || r.Sent != nil || r.Body != nil {
					t.Errorf("%+v %q", r.Outcome, r.Error)
				}
			}
			if n.Load() > 2 { // the client's two ways to show its secret, once
				t.Errorf("it was asked %d times at once", n.Load())
			}
		})
	}
	s := sender(t, Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Resolver: here{}})
	for i, url := range []string{"http://127.0.0.1:" + trap.port + "/", "http://tokens.example:" + trap.port + "/", "http://[::1]:" + trap.port + "/"} {
		e := endpoint("http://127.0.0.2/")
		e.ID, e.OAuth2 = fmt.Sprint(i), client(url)
		if r := send(s, delivery(e)); r.Outcome.Class != policy.ClassToken || !strings.Contains(r.Error, "may not go to") {
			t.Errorf("%s: %+v %q", url, r.Outcome, r.Error)
		}
	}
	if n := trap.hits.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestATokenServerIsReachedByTheProxies, and their failures are theirs.
func TestATokenServerIsReachedByTheProxies(t *testing.T) {
	var asked []string
	var n atomic.Int64
	operators := relay(t, &asked)
	s := sender(t, Options{Allow: loopback(), Proxy: proxyURL(operators)})
	defer s.Close()
	e := endpoint(server(t, ok).URL)
	e.OAuth2 = client(tokenServer(t, &n, given))
	if r := send(s, delivery(e)); r.Outcome.Status != 200 || len(asked) != 2 {
		t.Errorf("%+v %s, and the proxy was asked for %q", r.Outcome, r.Error, asked)
	}
	e.ID, e.Proxy.Text = "ep_2", "http://127.0.0.1:1"
	if r := send(s, delivery(e)); r.Outcome.Class != policy.ClassProxy {
		t.Errorf("%+v %s", r.Outcome, r.Error)
	}
}
