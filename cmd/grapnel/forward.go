package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/transform"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/sign"
)

// forwarder is the handler of `grapnel listen`: it sends messages to a local server, whose response
// decides the outcome.
type forwarder struct {
	reader
	target  *url.URL
	policy  *policy.Policy
	tenant  string        // of the queue
	shape   grapnel.Shape // of the forwarded endpoint; zero: the data alone
	headers bool          // send the headers of the request to the source
	secret  string        // sign with it; empty: nothing is signed
	http    *http.Client

	mu       sync.Mutex
	away     bool           // the local server cannot be reached, and that was said
	statuses map[string]int // of the answers that are not told yet, by delivery
	last     *posted        // nil: nothing was sent
}

// posted is a request that was sent.
type posted struct {
	message *client.Message
	body    []byte
	header  http.Header
}

// How the local server is treated.
const (
	localTimeout  = 30 * time.Second
	firstLook     = 250 * time.Millisecond // first pause between two tries to reach it
	longestLook   = 2 * time.Second
	localBodyKept = 64 << 10
	answerShown   = 200 // columns of an answer in a line
)

// localClient sends to the local server and nowhere else: it follows no redirect and uses no proxy.
func localClient(atOnce int) *http.Client {
	return &http.Client{
		Timeout:       localTimeout,
		Transport:     &http.Transport{MaxIdleConnsPerHost: atOnce, DisableCompression: true, IdleConnTimeout: 4 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (f *forwarder) handle(ctx context.Context, m *client.Message) error {
	body, header, err := f.request(ctx, m)
	if err != nil {
		return err
	}
	for wait := firstLook; ; wait = min(2*wait, longestLook) {
		outcome, status, err := f.post(ctx, m, body, header)
		if err == nil {
			f.reached(nil)
			f.mu.Lock()
			f.statuses[m.DeliveryID], f.last = status, &posted{m, body, header}
			f.mu.Unlock()
			return outcome
		}
		var refused *net.OpError
		if !errors.As(err, &refused) || refused.Op != "dial" || ctx.Err() != nil {
			return fmt.Errorf("the local server did not answer: %w", plain(err))
		}
		// Nothing was sent, so this is not an attempt: the message waits here, under its lease.
		f.reached(plain(err))
		if err := rest(ctx, wait); err != nil {
			return client.RetryAfter(0, errors.New("the local server could not be reached"))
		}
	}
}

// answered is the status of the answer to a message, once; empty: there was none.
func (f *forwarder) answered(m *client.Message) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	status := f.statuses[m.DeliveryID]
	delete(f.statuses, m.DeliveryID)
	return positive(status)
}

// again sends the last request again. The outcome of its message stays.
func (f *forwarder) again(ctx context.Context) {
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	if last == nil {
		f.world.Note("Nothing was sent yet.")
		return
	}
	began := f.world.Now()
	outcome, status, err := f.post(ctx, last.message, last.body, last.header)
	why := cmp.Or(plain(err), outcome)
	text := ""
	if why != nil {
		text = why.Error()
	}
	f.world.Note("%s  %-6s  %s  %s  %s  %s  %s", f.world.Now().UTC().Format("15:04:05"), "again", positive(status), last.message.Type,
		last.message.EventID, say.Took(f.world.Now().Sub(began)), text)
}

// plain is a failure of a request without method and address.
func plain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// reached says once that the local server cannot be reached, and once that it can again. nil: it
// was.
func (f *forwarder) reached(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil && !f.away:
		f.world.Note("Cannot reach %s (%v). Messages are kept and retried.", f.target, err)
	case err == nil && f.away:
		f.world.Note("%s can be reached again.", f.target)
	}
	f.away = err != nil
}

// post sends a request. The outcome is that of the response; err says that there was none.
func (f *forwarder) post(ctx context.Context, m *client.Message, body []byte, header http.Header) (outcome error, status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header = header.Clone()
	if f.secret != "" {
		now := time.Now()
		signature, err := sign.Sign(m.EventID, now, body, f.secret)
		if err != nil {
			return nil, 0, err
		}
		req.Header.Set(sign.HeaderID, m.EventID) // instead of the provider's, which may have been forwarded
		req.Header.Set(sign.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
		req.Header.Set(sign.HeaderSignature, signature)
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, localBodyKept)) // also so that the connection can be used again
	after, said := time.Duration(0), false
	if text := resp.Header.Get("Retry-After"); text != "" {
		after, said = policy.ParseRetryAfter(text, time.Now())
	}
	o := policy.Outcome{Status: resp.StatusCode, Class: policy.ClassOf(resp.StatusCode), RetryAfter: after, HasRetryAfter: said,
		Wish: policy.ParseWish(resp.Header.Get("Webhook-Delivery"))}
	return verdictOf(f.policy, m, o, answer), resp.StatusCode, nil
}

// request is the body and the headers for the local server.
func (f *forwarder) request(ctx context.Context, m *client.Message) ([]byte, http.Header, error) {
	header := http.Header{}
	if f.headers {
		came, err := f.InboxRequestOf(ctx, f.tenant, m.EventID)
		var refused *client.Error
		switch {
		case err == nil:
			header = forwarded(came.Headers)
		case !errors.As(err, &refused) || refused.Status != http.StatusNotFound: // a published event has no request
			return nil, nil, fmt.Errorf("reading the headers: %w", err)
		}
	}
	if m.ContentType != "" {
		header.Set("Content-Type", m.ContentType)
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", "grapnel-listen/"+grapnel.Version)
	}
	if header.Get(sign.HeaderID) == "" {
		header.Set(sign.HeaderID, m.EventID)
	}
	header.Set("Grapnel-Delivery", m.DeliveryID)
	header.Set("Grapnel-Attempt", strconv.Itoa(m.Attempt))
	header.Set("Grapnel-Event-Type", m.Type)
	if f.shape.Transform == "" && (f.shape.Format == "" || f.shape.Format == grapnel.FormatRaw) {
		return m.Body, header, nil
	}
	// The other shapes are written by egress, so that the local server gets the bytes of a real
	// delivery.
	ev, err := f.EventOf(ctx, f.tenant, m.EventID)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the event: %w", err)
	}
	body, format, err := egress.Formatted(f.shape, &grapnel.Event{ID: m.EventID, Tenant: ev.Tenant, Type: m.Type, Key: m.Key, Data: m.Body,
		ContentType: m.ContentType, OccurredAt: ev.OccurredAt, Source: ev.Source}, transform.Bounds{})
	if err != nil {
		return nil, nil, client.Reject(fmt.Errorf("the endpoint's transform gives no body for this event: %w", err))
	}
	maps.Copy(header, format)
	return body, header, nil
}

// forwarded are the headers of a request, without those of its connection and those that were
// redacted.
func forwarded(came []grapnel.Header) http.Header {
	header := http.Header{}
	for _, h := range came {
		name := textproto.CanonicalMIMEHeaderKey(h.Name)
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Trailer", "Te", "Expect",
			"Accept-Encoding":
			continue
		}
		if h.Value != "[redacted]" && !strings.HasPrefix(name, "Grapnel-") && !strings.HasPrefix(name, "Proxy-") {
			header.Add(name, h.Value)
		}
	}
	return header
}

// verdictOf is the outcome of a message by the response. A Retry-After counts if it is longer than
// the pause of the policy, and the policy heeds it.
func verdictOf(p *policy.Policy, m *client.Message, o policy.Outcome, answer []byte) error {
	err := fmt.Errorf("the local server answered %d", o.Status)
	if text := strings.Join(strings.Fields(strings.ToValidUTF8(string(answer), "�")), " "); text != "" {
		err = fmt.Errorf("%w: %s", err, cli.Cut(text, answerShown))
	}
	switch p.Decide(o) {
	case policy.Deliver:
		return nil
	case policy.Fail, policy.DisableEndpoint:
		return client.Reject(err)
	}
	now, ageless := time.Now(), *p
	ageless.MaxAge = 0 // the server knows when the first attempt began
	step := ageless.After(policy.Progress{Attempts: m.Attempt, Anchor: m.FirstSeenAt}, o, now)
	if o.HasRetryAfter && step.Next.Equal(now.Add(min(o.RetryAfter, policy.MaxRetryAfter))) {
		return client.RetryAfter(o.RetryAfter, err)
	}
	return err
}
