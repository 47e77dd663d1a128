package api

import (
	"errors"
	"net/url"
	"reflect"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/wire"
)

// The settings that say how an endpoint's receiver is reached have secrets. Answers and merge
// patches have [redacted] in the place of each; a request with it there leaves the secret as it is.

// viewReach are the settings without their secrets. address shows a URL as the caller may see it.
func viewReach(address func(string) string, ep *grapnel.Endpoint) (oauth *wire.OAuth2, tls *wire.TLS, proxy string) {
	if o := ep.OAuth2; o != nil {
		oauth = &wire.OAuth2{TokenURL: address(o.TokenURL), ClientID: o.ClientID, ClientSecret: redacted, Scopes: o.Scopes, Audience: o.Audience}
	}
	if ep.Proxy.Text != "" {
		proxy = egress.HiddenProxy(ep.Proxy.Text)
	}
	return oauth, viewTLS(ep.TLS), proxy
}

func viewTLS(t *grapnel.TLS) *wire.TLS {
	if t == nil {
		return nil
	}
	v := &wire.TLS{CA: t.CA, ClientCert: t.ClientCert}
	if t.ClientKey.Text != "" {
		v.ClientKey = redacted
	}
	return v
}

// setReach puts them on an endpoint, or adds their faults. Stored values are not judged again.
func (a *api) setReach(c *call, ep *grapnel.Endpoint, in *wire.NewEndpoint, f *strict.Faults) {
	a.setOAuth2(c, ep, in, f)
	a.setTLS(c, ep, in, f)
	if in.Proxy != "" && ep.Proxy.Text != "" && in.Proxy == egress.HiddenProxy(ep.Proxy.Text) {
		return
	}
	if in.Proxy != ep.Proxy.Text && in.Proxy != "" {
		if err := a.checkProxy(in.Proxy); err != nil {
			f.Add("/proxy", "%s", err)
		}
	}
	ep.Proxy = grapnel.Secret{Text: in.Proxy}
	if in.Proxy != "" {
		ep.Proxy.CreatedAt = c.now
	}
}

func (a *api) setOAuth2(c *call, ep *grapnel.Endpoint, in *wire.NewEndpoint, f *strict.Faults) {
	was, o := ep.OAuth2, in.OAuth2
	if ep.OAuth2 = nil; o == nil || o.TokenURL == "" && was != nil && o.ClientID == was.ClientID {
		return
	}
	if o.TokenURL == "" {
		f.Add("/oauth2/token_url", "is required")
	}
	is := &grapnel.OAuth2{TokenURL: o.TokenURL, ClientID: o.ClientID, Scopes: o.Scopes, Audience: o.Audience,
		ClientSecret: grapnel.Secret{Text: o.ClientSecret, CreatedAt: c.now}}
	if o.TokenURL != "" && (was == nil || was.TokenURL != o.TokenURL) {
		if err := a.CheckURL(o.TokenURL); err != nil {
			f.Add("/oauth2/token_url", "%s", err)
		}
	}
	switch {
	case o.ClientSecret != redacted:
	case was == nil:
		f.Add("/oauth2/client_secret", "must not be %s, unless the endpoint has one", redacted)
	case hostOf(was.TokenURL) != hostOf(o.TokenURL):
		f.Add("/oauth2/client_secret", "must be given again, since token_url leads to another server")
	default:
		is.ClientSecret = was.ClientSecret
	}
	for name := range in.Headers {
		if strings.EqualFold(name, "Authorization") {
			f.Add("/headers/"+strict.Escape(name), "is set by oauth2")
		}
	}
	ep.OAuth2 = is
}

func (a *api) setTLS(c *call, ep *grapnel.Endpoint, in *wire.NewEndpoint, f *strict.Faults) {
	was := ep.TLS
	if ep.TLS = nil; in.TLS == nil || *in.TLS == (wire.TLS{}) {
		return
	}
	is := &grapnel.TLS{CA: in.TLS.CA, ClientCert: in.TLS.ClientCert}
	switch key := in.TLS.ClientKey; {
	case key == redacted && was != nil:
		is.ClientKey = was.ClientKey
	case key != "":
		is.ClientKey = grapnel.Secret{Text: key, CreatedAt: c.now}
	}
	if !reflect.DeepEqual(was, is) {
		for _, part := range []*grapnel.TLS{{CA: is.CA}, {ClientCert: is.ClientCert, ClientKey: is.ClientKey}} {
			fault := (*egress.TLSError)(nil)
			if err := egress.CheckTLS(part, c.now); errors.As(err, &fault) {
				f.Add("/tls/"+fault.Field, "%s", fault.Detail)
			}
		}
	}
	if strings.HasPrefix(strings.ToLower(in.URL), "http:") {
		f.Add("/tls", "needs a url that begins with https://")
	}
	ep.TLS = is
}

// checkProxy judges a proxy's address as that of an endpoint: a tenant names both.
func (a *api) checkProxy(raw string) error {
	u, err := parseProxy(raw)
	if err != nil {
		return err
	}
	u.User = nil
	return a.CheckURL(u.String())
}

func parseProxy(raw string) (*url.URL, error) {
	if strings.Contains(raw, redacted) {
		return nil, errors.New("must have its password, since another part of it changes")
	}
	return egress.ParseProxy(raw)
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
