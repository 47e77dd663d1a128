package torture

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// slowClients holds idle connections and drips one request while plain events must be answered in
// time.
func slowClients(ctx context.Context, t *trial) {
	var idle []net.Conn
	defer func() {
		for _, conn := range idle {
			_ = conn.Close()
		}
	}()
	for range t.Bounds.Idle {
		conn, err := dial(ctx, t.URL)
		if err != nil {
			break // a receiver may limit connections, as long as it answers others
		}
		idle = append(idle, conn)
	}
	t.mark("", "%d idle connections", len(idle))
	dripping := t.optional(plain{label: "dripped"})
	var dripper sync.WaitGroup
	ended := make(chan struct{})
	dripper.Go(func() {
		defer close(ended)
		t.drip(ctx, dripping)
	})
	pause := max(t.Bounds.Drip/10, 10*time.Millisecond)
	for done := false; !done && rest(ctx, pause); {
		t.send(ctx, t.event(plain{label: "meanwhile"}), request{label: "meanwhile"})
		select {
		case <-ended:
			done = true
		default:
		}
	}
	dripper.Wait()
	t.settle(ctx)
}

// drip writes a request piece by piece over the time of the bound. The receiver may end it.
func (t *trial) drip(ctx context.Context, e *Event) {
	r := t.record(e, &request{label: "one byte at a time", allowed: some | Silent, slow: true})
	if r == nil {
		return
	}
	req, err := t.request(ctx, e, request{})
	if err != nil {
		t.stop(err)
		return
	}
	var text bytes.Buffer
	if err := req.Write(&text); err != nil {
		t.stop(err)
		return
	}
	status, err := t.dripped(ctx, req, text.Bytes())
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Took, r.Status = time.Since(t.began)-r.Start, status
	if err != nil {
		r.Error = err.Error()
	} else if classOf(status) == Accepted {
		e.Least = 1
	}
}

func (t *trial) dripped(ctx context.Context, req *http.Request, text []byte) (int, error) {
	conn, err := dial(ctx, t.URL)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	if req.URL.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: req.URL.Hostname(), MinVersion: tls.VersionTLS12})
	}
	const pieces = 30
	for i := range pieces {
		if _, err := conn.Write(text[len(text)*i/pieces : len(text)*(i+1)/pieces]); err != nil {
			return 0, err
		}
		if !rest(ctx, t.Bounds.Drip/pieces) {
			return 0, ctx.Err()
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(t.Bounds.AckBudget))
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}

// alive sends a plain event that must have its effect after all that came before it.
func (t *trial) alive(ctx context.Context) {
	t.send(ctx, t.event(plain{label: "plain event afterwards"}), request{label: "plain event afterwards"})
	t.settle(ctx)
}

// oversize: a receiver may end a connection in the middle of a body that is too large.
func oversize(ctx context.Context, t *trial) {
	padded := func(label string, size int64) *Event {
		return t.optional(plain{label: label, more: `"padding":"` + strings.Repeat("x", int(size)) + `"`})
	}
	e := padded("1 MiB and more", 1<<20)
	r := t.send(ctx, e, request{label: "1 MiB and more", allowed: Accepted | no | Silent})
	if classOf(r.Status) == Accepted {
		e.Least = 1
	}
	for _, chunked := range []bool{false, true} {
		label := "far too large"
		if chunked {
			label += ", no length"
		}
		e := padded(label, t.Bounds.Large)
		e.Most = 0
		t.send(ctx, e, request{label: label, forged: true, allowed: no | Busy | Silent, chunked: chunked})
		e.body = nil
	}
	bomb := t.optional(plain{label: "compressed bomb"})
	t.send(ctx, bomb, request{label: "compressed bomb", allowed: some&^Redirected | Silent, body: bombed(bomb.body, t.Bounds.Large),
		change: func(h http.Header) { h.Set("Content-Encoding", "gzip") }})
	small := t.optional(plain{label: "small, no length"})
	r = t.send(ctx, small, request{label: "small, no length", allowed: Accepted | no | Silent, chunked: true})
	if classOf(r.Status) == Accepted {
		small.Least = 1
	}
	t.alive(ctx)
}

// bombed is a body that becomes large when it is decompressed.
func bombed(body []byte, size int64) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(bytes.TrimSuffix(body, []byte("}")))
	_, _ = io.WriteString(w, `,"padding":"`)
	block := bytes.Repeat([]byte("x"), 64<<10)
	for n := int64(0); n < size; n += int64(len(block)) {
		_, _ = w.Write(block)
	}
	_, _ = io.WriteString(w, `"}`)
	_ = w.Close() // a buffer does not fail
	return out.Bytes()
}

const depth = 10_000

// malformed sends bodies that are signed and cannot be understood. A receiver says no, or says yes
// and sets them aside; an error would have them sent again for days.
func malformed(ctx context.Context, t *trial) {
	for _, one := range []struct{ label, body string }{
		{"invalid UTF-8", "{\"type\":\"invoice.paid\",\"data\":{\"invoice\":\"\xff\xfe\"}}"},
		{"no JSON", "this is no JSON"},
		{"empty body", ""},
		{"null", "null"},
		{"a number", "42"},
		{"an array", "[]"},
		{"data is null", `{"type":"invoice.paid","data":null}`},
		{"fields of wrong types", `{"type":17,"timestamp":{},"data":{"invoice":[],"amount":"much"}}`},
		{"deep nesting", `{"type":"invoice.paid","data":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`},
		{"duplicate names", `{"type":"invoice.paid","type":"invoice.void","data":{"amount":1,"amount":2}}`},
	} {
		t.send(ctx, t.optional(plain{label: one.label}), request{label: one.label, allowed: Accepted | no, body: []byte(one.body)})
	}
	t.alive(ctx)
}

// otherMethods sends signed requests of other methods, and a POST to the path with a slash more.
func otherMethods(ctx context.Context, t *trial) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		t.send(ctx, t.forged(plain{label: method}), request{label: method, method: method, forged: true, allowed: some,
			change: func(h http.Header) { h.Set("WebHook-Request-Origin", "torture.example") }})
	}
	slash := t.optional(plain{label: "path with a slash more"})
	r := t.send(ctx, slash, request{label: "path with a slash more", allowed: some, path: "/"})
	if classOf(r.Status) == Accepted {
		slash.Least = 1
	}
	t.settle(ctx)
}
