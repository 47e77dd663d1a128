package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/policy"
)

// An endpoint with OAuth2 gets a bearer token with each request. The token is kept in memory until
// shortly before it ends, and one fetch runs at a time. A token server that fails is asked again
// after a pause; attempts in the pause fail with its last failure.
//
// A 401 for a token that was accepted before says that the token has ended early, and not that the
// delivery is refused: the attempt fails with policy.ClassToken, and the next one fetches a new
// token. The request is not repeated inside the attempt. A 401 for a new token is the endpoint's.

const headerAuth = "Authorization"

// prepareTokens gives a route the tokens of the endpoint's route before, unless the client changed.
func (r *route) prepareTokens(e *grapnel.Endpoint, before *route) {
	switch {
	case e.OAuth2 == nil:
	case before != nil && before.tokens != nil && sameClient(before.tokens.of, e.OAuth2):
		r.tokens = before.tokens
	default:
		r.tokens = &tokens{of: e.OAuth2, turn: make(chan struct{}, 1)}
	}
}

func sameClient(a, b *grapnel.OAuth2) bool {
	return a.TokenURL == b.TokenURL && a.ClientID == b.ClientID && a.ClientSecret.Text == b.ClientSecret.Text && a.Audience == b.Audience &&
		slices.Equal(a.Scopes, b.Scopes)
}

func (t *tokens) live(now time.Time) *token {
	if t == nil {
		return nil
	}
	if is := t.is.Load(); is != nil && !is.refused.Load() && now.Before(is.ends) {
		return is
	}
	return nil
}

// token returns the token of a request; nil if the endpoint wants none.
func (s *Sender) token(ctx context.Context, r *route) (*token, error) {
	t := r.tokens
	if t == nil {
		return nil, nil //nolint:nilnil // as it says
	}
	if is := t.live(s.opts.Now()); is != nil {
		return is, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.bounds.TokenTime, errTokenTime)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	now := s.opts.Now()
	if is := t.live(now); is != nil {
		return is, nil
	}
	if now.Before(t.again) {
		return nil, t.failed
	}
	is, err := t.fetch(ctx, s, r)
	if err == nil {
		t.is.Store(is)
		t.failed, t.failures, t.again = nil, 0, time.Time{}
		return is, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
		if !errors.Is(err, errTokenTime) {
			return nil, err // this attempt was interrupted, which says nothing about the server
		}
	}
	t.failures++
	t.failed, t.again = err, now.Add(backoff.Steps{First: s.bounds.TokenPause, Longest: s.bounds.LongestRest}.After(t.failures))
	return nil, err
}

var errTokenTime = errors.New("no answer in time")

// fetch asks the token server, which is guarded as a receiver is: its address, its time, the bytes
// of its answer. It is reached by the endpoint's proxies. The endpoint's private authority is
// trusted besides the system's. It gets no client certificate.
func (t *tokens) fetch(ctx context.Context, s *Sender, r *route) (*token, error) {
	o := t.of
	is := s.rules.Load()
	u, err := parseURL(o.TokenURL, is.httpsOnly, is.guard)
	if err != nil {
		return nil, &dialError{class: policy.ClassBlocked, text: "its URL " + err.Error(), err: err}
	}
	deadline, _ := ctx.Deadline()
	secure := s.tls.Clone()
	if own := r.endpoint.TLS; own != nil && own.CA != "" {
		if secure.RootCAs, err = x509.SystemCertPool(); err != nil {
			return nil, err
		}
		secure.RootCAs.AppendCertsFromPEM([]byte(own.CA))
		secure.ClientSessionCache = nil
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return s.connect(ctx, r.via, addr, &attempt{sender: s, start: s.opts.Now(), deadline: deadline})
		},
		TLSClientConfig: secure, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxResponseHeader,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport:     short{transport, s.bounds.TokenAnswer},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	config := clientcredentials.Config{ClientID: o.ClientID, ClientSecret: o.ClientSecret.Text, TokenURL: u.String(), Scopes: o.Scopes}
	if o.Audience != "" {
		config.EndpointParams = url.Values{"audience": {o.Audience}}
	}
	got, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return nil, err
	}
	if got.Type() != "Bearer" || len(got.AccessToken) > s.bounds.TokenText || !bearer.MatchString(got.AccessToken) {
		return nil, errNoToken
	}
	life := time.Hour // of a token whose end is not said; a refusal ends it before
	if !got.Expiry.IsZero() {
		life = min(time.Until(got.Expiry), 24*time.Hour)
		life -= min(life/4, 10*time.Second) // so that it does not end on its way
	}
	now := s.opts.Now()
	return &token{header: "Bearer " + got.AccessToken, got: now, ends: now.Add(life)}, nil
}

var (
	errNoToken = errors.New("its answer has no bearer token")
	bearer     = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]+$`) // RFC 6750
	errorCode  = regexp.MustCompile(`^[a-z_]{1,40}$`)
)

// short bounds the bodies of answers.
type short struct {
	http.RoundTripper
	most int64
}

// RoundTrip makes a request.
func (t short) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, t.most), resp.Body}
	}
	return resp, err
}

// tokenless records why an attempt has no token. The text has nothing that the token server wrote
// but a code: it may repeat the client's secret.
func (r *route) tokenless(ctx context.Context, s *Sender, err error, result *Result) {
	var refused *oauth2.RetrieveError
	var dial *dialError
	text := "its answer has no bearer token"
	switch {
	case ctx.Err() != nil || s.closing.Err() != nil:
		result.fail(policy.ClassInternal, "interrupted: the server is shutting down")
		return
	case errors.As(err, &dial) && (dial.class == policy.ClassProxy || dial.class == policy.ClassInternal):
		result.fail(dial.class, dial.text)
		return
	case errors.As(err, &dial):
		text = dial.text
	case errors.Is(err, errBlocked):
		s.counters.blocked.Add(1)
		text = "its address is one that deliveries may not go to"
	case errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode/100 != 2:
		status := refused.Response.StatusCode
		text = "it answered " + strconv.Itoa(status) + " " + http.StatusText(status)
		if errorCode.MatchString(refused.ErrorCode) {
			text += ", " + refused.ErrorCode
		}
	case errors.Is(err, errTokenTime):
		text = "it did not answer in time"
	case errors.Is(err, io.EOF), errors.As(err, new(*net.OpError)):
		text = "it closed the connection before its answer was complete"
	}
	result.fail(policy.ClassToken, "the token server failed: "+text)
}

// judge learns from the answer to a request with the token.
func (t *token) judge(now time.Time, rest time.Duration, result *Result) {
	switch {
	case result.Outcome.Class == policy.ClassNone:
		t.worked.Store(true)
	case result.Outcome.Status == http.StatusUnauthorized && result.Outcome.Class == policy.ClassStatus4xx && now.Sub(t.got) >= rest:
		t.refused.Store(true)
		if t.worked.Load() {
			result.fail(policy.ClassToken, "401 Unauthorized: the endpoint no longer takes its token; the next attempt fetches a new one")
		}
	}
}
