// Package client calls the API of a Grapnel server from Go.
//
// A call takes a context, sends one request and returns the server's answer as a typed value, or an
// *Error with the server's code and request id. Every POST carries an Idempotency-Key, so a call
// whose answer was lost can be repeated without doing its work twice. Repetitions have three
// limits: the kind (a PATCH or DELETE is repeated only if nothing was sent), the number per call,
// and a budget per client. Once the budget's reserve is used up, at most one in ten requests is a
// repetition, so that clients do not overload a struggling server.
//
// It does not queue: when a call returns an error, the caller decides whether to retry or drop the
// event. It imports only the types of package grapnel.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// DefaultServer is the default address of a server.
const DefaultServer = "http://127.0.0.1:8420"

// maxAnswer is the limit of one answer: the largest page of the largest events stays far below it.
const maxAnswer = 256 << 20

// New makes a client. It does not connect; only a Server that is not an http(s) URL is an error.
func New(o Options) (*Client, error) {
	o.Server = cmp.Or(o.Server, DefaultServer)
	base, err := url.Parse(o.Server)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, &Error{Code: string(grapnel.CodeInvalid),
			Detail: fmt.Sprintf("%q is not the URL of a server: it has to look like %s", o.Server, DefaultServer)}
	}
	var own http.Client
	if o.HTTP != nil {
		own = *o.HTTP
	}
	// Following a redirect would carry the request, perhaps with its key, to wherever it points.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.HTTP = &own
	if o.Random == nil {
		o.Random = rand.Reader
	}
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.Retries = cmp.Or(o.Retries, 2)
	o.UserAgent = cmp.Or(o.UserAgent, "grapnel-client/"+grapnel.Version)
	return &Client{base: base, options: o, budget: newBudget()}, nil
}

// Server is the base URL that the client calls.
func (c *Client) Server() string { return c.base.String() }

// Do sends one request to a path below the server and decodes the answer into out. It is for routes
// without a method here. in is sent as JSON unless it is nil; out may be nil or a *json.RawMessage.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	return c.do(ctx, call{method: method, path: path, query: query, in: in, out: out})
}

// PostOnce is Do for a POST with an idempotency key of the caller's. The same key with the same
// request again changes nothing and returns what the first call returned.
func (c *Client) PostOnce(ctx context.Context, path, once string, in, out any) error {
	return c.do(ctx, call{method: http.MethodPost, path: path, in: in, once: once, out: out})
}

func (c *Client) do(ctx context.Context, rq call) error {
	if rq.in != nil {
		var err error
		if rq.body, err = json.Marshal(rq.in); err != nil {
			return fmt.Errorf("the request cannot be written as JSON: %w", err)
		}
	}
	if c.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.Timeout+rq.wait)
		defer cancel()
	}
	if rq.method == http.MethodPost && rq.once == "" && !rq.idempotent {
		var key [16]byte
		if _, err := io.ReadFull(c.options.Random, key[:]); err != nil {
			return fmt.Errorf("no randomness for an idempotency key: %w", err)
		}
		rq.once = hex.EncodeToString(key[:])
	}
	c.budget.earn()
	for tries := 1; ; tries++ {
		answer, err := c.try(ctx, rq)
		if err == nil {
			return decode(answer, rq.out)
		}
		if tries > max(c.options.Retries, 0) || !rq.repeatable(err) || !c.pause(ctx, tries, err) {
			return err
		}
	}
}

// try sends the request once and returns the body of an answer below 300.
func (c *Client) try(ctx context.Context, rq call) ([]byte, error) {
	resp, err := c.send(ctx, rq)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if rq.head != nil && resp.StatusCode < 300 {
		rq.head(resp.Header)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, &Unreachable{Server: c.Server(), Err: cause(ctx, err)}
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the server's answer is larger than %d bytes", maxAnswer)
	case resp.StatusCode >= 300:
		return nil, problem(resp, body)
	}
	return body, nil
}

// send sends the request once.
func (c *Client) send(ctx context.Context, rq call) (*http.Response, error) {
	// JoinPath would leave out the part, or the one before.
	if whole := rq.path + "/"; strings.Contains(whole, "/./") || strings.Contains(whole, "/../") {
		return nil, &Error{Code: string(grapnel.CodeInvalid), Detail: rq.path + ": a part of the path is only dots; no id or name is"}
	}
	target := *c.base
	target.Path = strings.TrimSuffix(target.Path, "/")
	target = *target.JoinPath(rq.path)
	target.RawQuery = rq.query.Encode()
	req, err := http.NewRequestWithContext(ctx, rq.method, target.String(), bytes.NewReader(rq.body))
	if err != nil {
		return nil, fmt.Errorf("creating the request failed: %w", err)
	}
	req.Header.Set("User-Agent", c.options.UserAgent)
	req.Header.Set("Accept", cmp.Or(rq.accept, "application/json, application/problem+json"))
	if c.options.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.options.Key)
	}
	if rq.body != nil {
		req.Header.Set("Content-Type", cmp.Or(rq.media, "application/json"))
	}
	if rq.once != "" {
		req.Header.Set("Idempotency-Key", rq.once)
	}
	for name, values := range req.Header {
		if strings.ContainsFunc(values[0], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, &Error{Code: string(grapnel.CodeInvalid), Detail: name + ": its value has a line break or another control character"}
		}
	}
	resp, err := c.options.HTTP.Do(req)
	if err != nil {
		return nil, &Unreachable{Server: c.Server(), Err: cause(ctx, err)}
	}
	return resp, nil
}

// cause drops the *url.Error around a transport failure, whose text repeats method and URL, and
// prefers the context's own reason, so that errors.Is finds context.DeadlineExceeded and
// context.Canceled.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// window is the query of a list: which page, and more names and values as in query.
func window(limit int, cursor string, more ...any) url.Values {
	return query(append(more, "limit", max(0, limit), "cursor", cursor)...)
}

// ListFilter selects things that have names; the zero value selects all.
type ListFilter struct {
	Tenant string
	Search string // a part of the name, description or URL, or the beginning of the id
	Limit  int
	Cursor string
}

func (f ListFilter) query() url.Values {
	return window(f.Limit, f.Cursor, "tenant", f.Tenant, "search", f.Search)
}

// query has those of some names, each followed by its value, that given has. A list gives its name
// several times.
func query(pairs ...any) url.Values {
	q := url.Values{}
	for name, value := range given(pairs...) {
		list := reflect.ValueOf(value)
		at, timed := value.(time.Time)
		switch {
		case timed:
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		case list.Kind() == reflect.Slice:
			for i := range list.Len() {
				q.Add(name, fmt.Sprint(list.Index(i)))
			}
		default:
			q.Set(name, fmt.Sprint(value))
		}
	}
	return q
}

// given has those of some names, each followed by its value, whose value is not the zero value.
func given(pairs ...any) map[string]any {
	all := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		if at, timed := pair[1].(time.Time); !reflect.ValueOf(pair[1]).IsZero() && !(timed && at.IsZero()) {
			all[fmt.Sprint(pair[0])] = pair[1]
		}
	}
	return all
}
