package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// newHTTP makes the client for the issuer, with which go-oidc and oauth2 make their requests. It is
// not the one for endpoints: the operator configured the issuer, so it may have a private address.
// Connections are not kept: sign-ins are rare, and so nothing remains to be closed.
func newHTTP(b Bounds) *http.Client {
	return &http.Client{
		Timeout: b.Fetch,
		Transport: &bounded{most: b.Answer, over: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: b.Fetch}).DialContext,
			DisableKeepAlives: true, MaxResponseHeaderBytes: 32 << 10, ForceAttemptHTTP2: true,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded lets only answers of status 200 and bounded size through; any other is a Fault. So the
// libraries never see, and never repeat in their errors, a page or a refusal of the issuer.
type bounded struct {
	most int64
	over http.RoundTripper
}

// RoundTrip makes one request and reads its answer whole.
func (t *bounded) RoundTrip(rq *http.Request) (*http.Response, error) {
	rq = rq.Clone(rq.Context())
	rq.Header.Set("Accept", "application/json")
	rq.Header.Set("User-Agent", "grapnel")
	resp, err := t.over.RoundTrip(rq)
	if err != nil {
		return nil, fault(Unreachable, "cannot reach the issuer: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, t.most+1))
	switch {
	case err != nil:
		return nil, fault(Unreachable, "the answer of %s broke off", rq.URL.Path)
	case int64(len(body)) > t.most:
		return nil, fault(Unreachable, "the answer of %s has more than %d bytes", rq.URL.Path, t.most)
	case resp.StatusCode != http.StatusOK:
		var told struct {
			Error string `json:"error"`
		}
		if resp.StatusCode < http.StatusInternalServerError && json.Unmarshal(body, &told) == nil && told.Error != "" {
			return nil, refusal(told.Error)
		}
		if resp.StatusCode == http.StatusUnauthorized && rq.Method == http.MethodPost {
			return nil, fault(BadClient, "%s answered 401", rq.URL.Path)
		}
		return nil, fault(Unreachable, "%s answered %d", rq.URL.Path, resp.StatusCode)
	}
	if media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && media == "application/jwt" {
		return nil, fault(Unreachable, "%s answered a signed document, which is not understood", rq.URL.Path)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// failed is the fault of a request that a library made. The text of its error is not repeated: it
// may have the issuer's answer in it, and so a token.
func (p *Provider) failed(what string, err error) error {
	if is, ok := errors.AsType[*Fault](err); ok {
		return is
	}
	if told, ok := errors.AsType[*url.Error](err); ok && told.Timeout() {
		return fault(Unreachable, "the issuer did not answer within %v", p.Bounds.Fetch)
	}
	if is, ok := errors.AsType[*oauth2.RetrieveError](err); ok && is.ErrorCode != "" {
		return refusal(is.ErrorCode)
	}
	return fault(Unreachable, "the issuer gave no usable %s", what)
}

// address checks an address of the issuer: https, or http on this machine.
func address(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Opaque != "":
		return errors.New("not an address such as https://login.example.com")
	case u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return errors.New("addresses begin with https://; http:// is for this machine only")
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (p *Provider) readDocument(ctx context.Context) (document, error) {
	var doc document
	found, err := goidc.NewProvider(goidc.ClientContext(ctx, p.http), p.Issuer)
	if wrong, ok := errors.AsType[*goidc.IssuerMismatchError](err); ok {
		return doc, fault(Misnamed, "the document of %q is of the issuer %q", p.Issuer, cut(wrong.Discovered))
	}
	if err == nil {
		err = found.Claims(&doc)
	}
	if err != nil {
		return doc, p.failed("document", err)
	}
	doc.issuer = found
	for name, at := range map[string]string{"authorization_endpoint": doc.Authorization, "token_endpoint": doc.Token, "jwks_uri": doc.Keys} {
		if err := address(at); err != nil {
			return doc, fault(Unreachable, "%s of the issuer's document, %q: %w", name, cut(at), err)
		}
	}
	for _, at := range []*string{&doc.UserInfo, &doc.EndSession} {
		if address(*at) != nil {
			*at = "" // it has none that can be used
		}
	}
	return doc, nil
}

// client is this server as the issuer knows it. The secret goes into the form if the issuer does
// not take it in a header.
func (p *Provider) client(doc *document, redirect string) *oauth2.Config {
	style := oauth2.AuthStyleInParams
	if p.Secret != "" && (len(doc.Methods) == 0 || slices.Contains(doc.Methods, "client_secret_basic")) {
		style = oauth2.AuthStyleInHeader
	}
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.Secret, RedirectURL: redirect, Scopes: p.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: doc.Authorization, TokenURL: doc.Token, AuthStyle: style}}
}

// exchange trades a code for tokens. The issuer compares the PKCE verifier with the challenge of
// the flow in which it issued the code, so a code of another browser's flow is refused.
func (p *Provider) exchange(ctx context.Context, doc *document, f Flow, code string) (*oauth2.Token, string, error) {
	ctx = goidc.ClientContext(ctx, p.http)
	t, err := p.client(doc, f.Redirect).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return nil, "", p.failed("tokens", err)
	}
	id, _ := t.Extra("id_token").(string)
	if id == "" || len(id) > p.Bounds.Token {
		return nil, "", fault(BadToken, "the issuer's answer has no ID token, or one of more than %d bytes", p.Bounds.Token)
	}
	return t, id, nil
}

// complete adds the claims that the issuer tells only at its userinfo endpoint. Claims of the
// signed token are not replaced, and the endpoint has to speak of the same person.
func (p *Provider) complete(ctx context.Context, doc *document, c Claims, access *oauth2.Token) (Claims, error) {
	lacks := func(name string) bool { _, told := c.find(name); return !told }
	if doc.UserInfo == "" || !slices.ContainsFunc(p.Mapping.claims(), lacks) {
		return c, nil
	}
	told, err := doc.issuer.UserInfo(goidc.ClientContext(ctx, p.http), oauth2.StaticTokenSource(access))
	var more Claims
	if err == nil {
		err = told.Claims(&more)
	}
	if err != nil {
		return nil, p.failed("claims", err)
	}
	if subject, _ := more.Text("sub"); subject != c.Subject() {
		return nil, fault(BadToken, "the userinfo endpoint speaks of another person than the ID token")
	}
	if told, _ := c.Text("email"); told != "" {
		if email, _ := more.Text("email"); email != told {
			delete(more, "email_verified") // it is said of another address
		}
	}
	for name, value := range more {
		if _, told := c[name]; !told {
			c[name] = value
		}
	}
	return c, nil
}

// have returns the document without reading it.
func (c *cache[D]) have() (D, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doc, c.known
}

// fresh returns the result of a read that need not or must not be repeated (ok): a document younger
// than age, or the error of a read less than pause ago.
func (c *cache[D]) fresh(now time.Time, age, pause time.Duration) (doc D, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.known && now.Sub(c.at) < age && !now.Before(c.at):
		return c.doc, true, nil
	case c.err != nil && now.Sub(c.tried) < pause && !now.Before(c.tried):
		return doc, true, c.err
	}
	return doc, false, nil
}

// get returns a document younger than age. After a read failed, the next one is at least pause
// later.
func (c *cache[D]) get(ctx context.Context, now time.Time, age, pause time.Duration) (doc D, err error) {
	if doc, ok, err := c.fresh(now, age, pause); ok {
		return doc, err
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return doc, ctx.Err()
	}
	if doc, ok, err := c.fresh(now, age, pause); ok { // another caller has read it meanwhile
		return doc, err
	}
	// The result is for all who wait, so it does not depend on whether this browser stays.
	doc, err = c.read(context.WithoutCancel(ctx))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried, c.err = now, err
	if err == nil {
		c.doc, c.known, c.at = doc, true, now
	}
	return doc, err
}
