package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// stripping is a proxy that serves a server below a path. With says it adds the header that names
// the path.
func stripping(t *testing.T, prefix string, says bool, to func() string) *httptest.Server {
	proxy := &httputil.ReverseProxy{Transport: &http.Transport{}, Rewrite: func(r *httputil.ProxyRequest) {
		upstream, err := url.Parse(to())
		if err != nil {
			t.Error(err)
		}
		r.SetURL(upstream)
		r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, prefix)
		if says {
			r.SetXForwarded()
			r.Out.Header.Set("X-Forwarded-Prefix", prefix)
		}
	}}
	t.Cleanup(proxy.Transport.(*http.Transport).CloseIdleConnections)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, prefix+"/") {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front
}

// TestBelowAPath: behind a proxy that serves the server below a path, every link in an answer works
// as it is, whether the operator or the proxy names the path. A signature over the URL given to a
// provider is valid.
func TestBelowAPath(t *testing.T) {
	const prefix = "/Hooks/grapnel"
	for name, says := range map[string]bool{"--public-url": false, "X-Forwarded-Prefix": true} {
		t.Run(name, func(t *testing.T) {
			var s running
			front := stripping(t, prefix, says, func() string { return s.URL() })
			o := options(t.TempDir())
			o.AdminKey = testKey
			if says {
				o.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			} else {
				public, err := url.Parse(front.URL + prefix)
				if err != nil {
					t.Fatal(err)
				}
				o.PublicURL = public
			}
			s = start(t, o)
			c := s.consumer(t)
			c.url = front.URL + prefix

			c.must(201, "POST", "/v1/queues", `{"name":"orders","ordering":"none"}`)
			for _, verb := range []string{"ack", "nack", "reject", "extend"} {
				c.must(202, "POST", "/v1/events", `{"type":"a.b","data":{}}`)
				status, header, _ := c.ask("GET", "/queues/orders/next", "", "Accept", "*/*")
				var ours, theirs map[string]any
				if err := errors.Join(
					json.Unmarshal([]byte(header.Get("Grapnel-Meta")), &ours),
					json.Unmarshal([]byte(header.Get("X-Hooque-Meta")), &theirs),
				); err != nil {
					t.Fatal(status, err)
				}
				link := ours[verb+"_url"].(string)
				if their, there := theirs[verb+"Url"]; there && their != link {
					t.Errorf("two links to %s: %v and %s", verb, their, link)
				}
				if status, _, body := c.ask("POST", link, ""); status != 200 && status != 204 {
					t.Errorf("%s: answered %d %s", link, status, body)
				}
			}

			source := c.must(201, "POST", "/v1/sources", `{"name":"phone","verify":{"scheme":"twilio","secret":"12345678"}}`)
			ingest, err := url.Parse(source["ingest_url"].(string))
			if err != nil {
				t.Fatal(err)
			}
			base, err := url.Parse(front.URL + prefix + "/")
			if err != nil {
				t.Fatal(err)
			}
			given := base.ResolveReference(ingest).String()
			if given != front.URL+prefix+"/in/"+source["id"].(string) {
				t.Errorf("the provider is given %s", given)
			}
			mac := hmac.New(sha256.New, []byte("12345678"))
			_, _ = io.WriteString(mac, given+"MessageSidSM1")
			c.must(202, "POST", given, "MessageSid=SM1", "Content-Type", "application/x-www-form-urlencoded",
				"X-Twilio-Webhooks-Signature-Settings", "key=webhooks_sharedkey_1,algorithm=HMAC_SHA256",
				"X-Twilio-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))

			served := c.must(200, "GET", "/openapi.json", "")["servers"].([]any)[0].(map[string]any)["url"].(string)
			server, err := url.Parse(served)
			if err != nil {
				t.Fatal(err)
			}
			if got := base.ResolveReference(server).String(); strings.TrimSuffix(got, "/") != front.URL+prefix {
				t.Errorf("the document says that the server is %s, which is %s", served, got)
			}
			_, _, page := c.ask("GET", "/docs", "", "Accept", "text/html")
			if all, ours := strings.Count(string(page), `href="/`), strings.Count(string(page), `href="`+prefix+`/`); all != ours || ours < 20 {
				t.Errorf("the reference has %d links, %d of them below %s", all, ours, prefix)
			}
		})
	}
}
