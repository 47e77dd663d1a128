package torture

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// request is how one request differs from a plain one: a signed POST that must be accepted.
type request struct {
	label   string
	allowed Class             // zero: Accepted
	forged  bool              // a receiver must not act on it
	slow    bool              // its handler was made slow
	method  string            // empty: POST
	path    string            // added to the URL
	body    []byte            // nil: the event's
	secrets []string          // nil: the receiver's
	late    time.Duration     // of the signature's time
	change  func(http.Header) // after it was signed
	chunked bool              // without a length
	place   *place            // at a gate that releases its last byte
	wrote   func()            // called when all of it is written
	killed  func() bool       // the receiver was killed meanwhile
}

// send sends a request of an event and records it.
func (t *trial) send(ctx context.Context, e *Event, q request) *Request {
	r := t.record(e, &q)
	if r == nil {
		return &Request{}
	}
	resp, err := t.do(ctx, e, q)
	took := time.Since(t.began) - r.Start
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Took = took
	if err != nil {
		r.Error = reason(err)
		r.Killed = q.killed != nil && q.killed()
		if ctx.Err() != nil {
			r.Allowed |= Silent // the case was stopped; the receiver had no time to answer
		}
		return r
	}
	r.Status, r.Outcome = resp.StatusCode, resp.Header.Get("Webhook-Outcome")
	r.server = resp.Header.Get("Server") + " " + resp.Header.Get("X-Powered-By")
	return r
}

// record adds a request to the history; nil: no more may be sent.
func (t *trial) record(e *Event, q *request) *Request {
	if q.allowed == 0 {
		q.allowed = Accepted
	}
	if t.sent.Add(1) > int64(t.Bounds.Requests) {
		t.stop(errRequests)
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.result.History
	r := &Request{Label: q.label, Forged: q.forged, Allowed: q.allowed, Slow: q.slow, Start: time.Since(t.began)}
	for i, one := range h.Events {
		if one == e {
			r.Event = i
		}
	}
	h.Requests = append(h.Requests, r)
	return r
}

func (t *trial) do(ctx context.Context, e *Event, q request) (*http.Response, error) {
	req, err := t.request(ctx, e, q)
	if err != nil {
		t.stop(err)
		return nil, err
	}
	resp, err := t.client.Do(req)
	if q.place != nil {
		q.place.come() // if it failed before its body was read
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.CopyN(io.Discard, resp.Body, 64<<10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err // an answer that does not end is none
	}
	return resp, nil
}

// request makes the HTTP request.
func (t *trial) request(ctx context.Context, e *Event, q request) (*http.Request, error) {
	target, secrets := t.URL, []string{t.Secret}
	if e.other {
		target, secrets = t.OtherURL, []string{cmp.Or(t.Other, t.Secret)}
	}
	if q.secrets != nil {
		secrets = q.secrets
	}
	body := q.body
	if body == nil {
		body = e.body
	}
	header, err := t.Scheme.Sign(e.ID, t.now().Add(q.late), e.header, body, secrets...)
	if err != nil {
		return nil, err
	}
	if q.wrote != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { q.wrote() }})
	}
	var content io.Reader = bytes.NewReader(body)
	if q.chunked {
		content = io.MultiReader(content)
	} else if q.place != nil {
		content = &gated{Reader: content, left: len(body), place: q.place}
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(q.method, http.MethodPost), target+q.path, content)
	if err != nil {
		return nil, err
	}
	if !q.chunked {
		req.ContentLength = int64(len(body))
	}
	req.GetBody = nil // nothing is sent twice unasked
	req.Header = header
	req.Header.Set("User-Agent", "grapnel-torture")
	if q.change != nil {
		q.change(req.Header)
	}
	return req, nil
}

// reason is an error of a request without its method and URL.
func reason(err error) string {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		if wrapped.Timeout() {
			return "no answer within the limit"
		}
		err = wrapped.Err
	}
	return err.Error()
}

// together sends copies of an event whose last bytes are written at the same moment.
func (t *trial) together(ctx context.Context, e *Event, copies int, q request) {
	gate := newGate(copies)
	var senders sync.WaitGroup
	label := q.label
	for i := range copies {
		q := q
		q.place = &place{gate: gate}
		q.label = label + " " + strconv.Itoa(i+1) + " of " + strconv.Itoa(copies)
		senders.Go(func() { t.send(ctx, e, q) })
	}
	senders.Wait()
}

// retry sends events again, as a sender does, until each is accepted or the patience ends. With a
// clock it moves it on when the receiver is busy, as after the lease of a dead worker.
func (t *trial) retry(ctx context.Context, events ...*Event) {
	deadline := time.Now().Add(t.Bounds.Patience)
	defer func() {
		if t.offset != 0 {
			t.setClock(ctx, 0)
		}
	}()
	var last map[*Event]*Request
	for round, pause := 1, 100*time.Millisecond; ; round, pause = round+1, min(2*pause, time.Second) {
		pending := events[:0:0]
		last = map[*Event]*Request{}
		requests := make([]*Request, len(events))
		var senders sync.WaitGroup
		for i, e := range events {
			senders.Go(func() { requests[i] = t.send(ctx, e, request{label: "retry", allowed: Accepted | again}) })
		}
		senders.Wait()
		for i, r := range requests {
			if classOf(r.Status) != Accepted {
				pending, last[events[i]] = append(pending, events[i]), r
			}
		}
		if events = pending; len(events) == 0 {
			return
		}
		if t.ClockURL != "" && round > 1 {
			t.setClock(ctx, t.offset+time.Hour)
		}
		if ended := t.ClockURL != "" && round > 8; ended || time.Now().Add(pause).After(deadline) || !rest(ctx, pause) {
			break
		}
	}
	if ctx.Err() != nil {
		return
	}
	for _, r := range last {
		if t.ClockURL == "" && classOf(r.Status)&(Busy|Conflict) != 0 {
			t.unjudged("a retry is still answered %d after %v, perhaps by a longer lease; give --clock-url, or --bound patience=TIME",
				r.Status, t.Bounds.Patience)
			continue
		}
		r.Allowed = Accepted
	}
}

// gate lets several requests write their last bytes at the same moment.
type gate struct {
	missing atomic.Int64
	open    chan struct{}
}

func newGate(count int) *gate {
	g := &gate{open: make(chan struct{})}
	g.missing.Store(int64(count))
	return g
}

// place is one request's place at a gate.
type place struct {
	*gate
	once sync.Once
}

// come counts the request; the last one opens the gate.
func (p *place) come() {
	p.once.Do(func() {
		if p.missing.Add(-1) == 0 {
			close(p.open)
		}
	})
}

// gated is a body whose last byte waits for the gate.
type gated struct {
	io.Reader
	left  int
	place *place
}

func (b *gated) Read(into []byte) (int, error) {
	if b.left == 1 {
		b.place.come()
		<-b.place.open
	}
	n, err := b.Reader.Read(into[:min(len(into), max(b.left-1, 1))])
	b.left -= n
	return n, err
}
