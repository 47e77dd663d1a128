//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// call sends one request to the server and returns the status and body of its answer. It never
// retries: tests count the effects of each call.
func (c *child) call(ctx context.Context, method, path string, in any) (int, []byte, error) {
	status, answer, _, err := c.as(ctx, adminKey, method, path, in)
	return status, answer, err
}

// as is call with a given key. It also returns the header of the answer.
func (c *child) as(ctx context.Context, key, method, path string, in any, headers ...string) (int, []byte, http.Header, error) {
	var body io.Reader
	switch in := in.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(in)
	default:
		text, err := json.Marshal(in)
		if err != nil {
			return 0, nil, nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.addr+path, body)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, resp.Header, err
}

// must makes a call that has to be answered with the status wanted. It decodes the answer into out
// unless out is nil.
func (c *child) must(want int, method, path string, in, out any) {
	c.t.Helper()
	status, body, err := c.call(context.Background(), method, path, in)
	c.check(status, body, err, want, method, path, out)
}

// check fails the test unless a call had the wanted answer, and decodes the answer.
func (c *child) check(status int, body []byte, err error, want int, method, path string, out any) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	if status != want {
		c.t.Fatalf("%s %s: answered %d, want %d: %s", method, path, status, want, body)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(body, out); err != nil {
		c.t.Fatalf("%s %s: %v in %s", method, path, err, body)
	}
}

// admitted is must for a call that the server may refuse with 503 while it is overloaded. A refused
// call did nothing, so it is repeated until the server accepts it.
func (c *child) admitted(want int, method, path string, in, out any) {
	c.t.Helper()
	var status int
	var body []byte
	var err error
	eventually(c.t, 20*time.Second, method+" "+path+" is admitted", func() bool {
		status, body, err = c.call(context.Background(), method, path, in)
		return err != nil || status != http.StatusServiceUnavailable || !bytes.Contains(body, []byte(`"code":"overloaded"`))
	})
	c.check(status, body, err, want, method, path, out)
}

// endpoint creates an endpoint and returns its id and secret.
func (c *child) endpoint(address string, create map[string]any) (id, secret string) {
	c.t.Helper()
	body := map[string]any{"url": address}
	for name, value := range create {
		body[name] = value
	}
	var made struct{ ID, Secret string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/endpoints", body, &made)
	return made.ID, made.Secret
}

// newEvent is the body of a publish.
type newEvent struct {
	ID     string          `json:"id"`
	Type   string          `json:"type"`
	Key    string          `json:"key"` // empty: none
	Data   json.RawMessage `json:"data"`
	Tenant string          `json:"tenant"` // empty: the default
}

// encode writes the event so that its data keep every byte: encoding/json would compact and escape
// them.
func (e newEvent) encode() []byte {
	more := ""
	if e.Key != "" {
		more = fmt.Sprintf(`"key":%q,`, e.Key)
	}
	if e.Tenant != "" {
		more += fmt.Sprintf(`"tenant":%q,`, e.Tenant)
	}
	return fmt.Appendf(nil, `{"id":%q,"type":%q,%s"data":%s}`, e.ID, e.Type, more, e.Data)
}

// publish publishes one event and returns what the publisher knows afterwards. refused is the body
// of an answer that is a definite no and that no amount of load explains.
func (c *child) publish(ctx context.Context, e newEvent) (result history.Result, refused string) {
	status, body, err := c.call(ctx, http.MethodPost, "/v1/events", e.encode())
	return judge(status, body, err)
}

func judge(status int, body []byte, err error) (result history.Result, refused string) {
	switch {
	case neverSent(err):
		return history.Failed, ""
	case err != nil, status >= 500:
		return history.Unknown, ""
	case status == http.StatusAccepted, status == http.StatusOK:
		return history.OK, ""
	case status == http.StatusTooManyRequests:
		return history.Failed, ""
	}
	return history.Failed, fmt.Sprintf("%d %s", status, body)
}

// neverSent says whether an error happened before there was a connection.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// row is a delivery as the API lists it.
type row struct {
	ID         string             `json:"id"`
	EventID    string             `json:"event_id"`
	EndpointID string             `json:"endpoint_id"`
	Sequence   int64              `json:"sequence"`
	Status     grapnel.Status     `json:"status"`
	ReasonCode grapnel.ReasonCode `json:"reason_code"`
	Attempts   int                `json:"attempts_made"`
	ReplayOf   string             `json:"replay_of"`
}

// rows reads a whole list of deliveries, page by page.
func (c *child) rows(query url.Values) []row { return c.some(query, math.MaxInt) }

// some reads a list of deliveries until it has enough, or until its end.
func (c *child) some(query url.Values, enough int) []row {
	return pages[row](c, "/v1/deliveries", query, enough)
}

// pages reads a list until it has enough, or until its end. A page may be short, or empty, before
// the end: the server stops a page after 10 ms, and next is the cursor of the rest.
func pages[T any](c *child, path string, query url.Values, enough int) (all []T) {
	c.t.Helper()
	query.Set("limit", strconv.Itoa(min(enough, 500)))
	for {
		var page struct {
			Data []T    `json:"data"`
			Next string `json:"next"`
		}
		c.must(http.StatusOK, http.MethodGet, path+"?"+query.Encode(), nil, &page)
		all = append(all, page.Data...)
		if page.Next == "" || len(all) >= enough {
			return all
		}
		query.Set("cursor", page.Next)
	}
}

// waiting says whether any delivery is not final.
func (c *child) waiting() bool {
	c.t.Helper()
	some, answered := c.anyWaiting()
	if !answered {
		c.t.Fatal("the server does not list deliveries: it answers 503")
	}
	return some
}

// anyWaiting says whether a delivery is pending or held, unless the server answers 503, as a node
// does that has just stood still.
func (c *child) anyWaiting() (some, answered bool) {
	c.t.Helper()
	for _, status := range []string{"pending", "held"} {
		query := url.Values{"limit": {"1"}, "status": {status}}
		for {
			var page struct {
				Data []row  `json:"data"`
				Next string `json:"next"`
			}
			path := "/v1/deliveries?" + query.Encode()
			code, body, err := c.call(context.Background(), http.MethodGet, path, nil)
			if err == nil && code == http.StatusServiceUnavailable {
				return false, false
			}
			c.check(code, body, err, http.StatusOK, http.MethodGet, path, &page)
			if len(page.Data) > 0 {
				return true, true
			}
			if page.Next == "" { // a page may be empty before the list is complete
				break
			}
			query.Set("cursor", page.Next)
		}
	}
	return false, true
}

// quiesce waits until no delivery is pending. It gives up when deliveries are pending and none of
// them made progress for the given time. It sets no bound for the whole, which depends on the
// backlog and the machine. Lists may lag two seconds, so no delivery may be due later than that.
func (c *child) quiesce(within time.Duration, done func() int) bool {
	c.t.Helper()
	var quiet time.Time
	last, moved := done(), time.Now()
	return poll(context.Background(), 10*within, 200*time.Millisecond, func() bool {
		if now := done(); now != last {
			last, moved = now, time.Now()
		}
		if some, answered := c.anyWaiting(); some || !answered {
			quiet = time.Time{}
			return time.Since(moved) > within
		}
		if quiet.IsZero() {
			quiet = time.Now()
		}
		return time.Since(quiet) > 2500*time.Millisecond
	}) && !quiet.IsZero()
}

// finals returns the final state of every delivery, as the server reports it.
func (c *child) finals() []history.Final {
	c.t.Helper()
	var all []history.Final
	for _, r := range c.rows(url.Values{}) {
		all = append(all, history.Final{Delivery: r.ID, Event: r.EventID, Endpoint: r.EndpointID, Position: r.Sequence, ReplayOf: r.ReplayOf,
			Status: r.Status, ReasonCode: r.ReasonCode, Attempts: r.Attempts})
	}
	return all
}
