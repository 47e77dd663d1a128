package plain

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
)

// States of a connection.
const (
	busy    int32 = iota // with a request, or new: its first one may be on its way
	idle                 // between requests
	retired              // to be closed instead of read from
)

func newConn(s *Server, c net.Conn) *conn {
	ctx, end := context.WithCancel(context.Background())
	if s.http.ConnContext != nil {
		ctx = s.http.ConnContext(ctx, c)
	}
	in := &conn{Conn: c, server: s, remote: c.RemoteAddr().String(), end: end, buf: make([]byte, s.bounds.Ahead)}
	in.base = (&http.Request{Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: in.remote}).WithContext(ctx)
	in.answer.header = http.Header{}
	return in
}

// retire closes a connection that is between requests; one with a request is closed after its
// answer.
func (c *conn) retire() {
	if c.state.Swap(retired) == idle {
		_ = c.Close()
	}
}

// serve answers plain requests, until another one comes or the connection ends.
func (c *conn) serve() {
	defer c.server.forget(c)
	defer c.end()
	for first := true; ; first = false {
		pipelined := c.r != c.w
		if !pipelined && !c.await(first) {
			_ = c.Close()
			return
		}
		if first && c.buf[c.r] == handshakeRecord && c.server.Handshake != nil {
			if given := c.secure(); given {
				return
			}
			if c.base.TLS == nil || !c.await(first) {
				_ = c.Close()
				return
			}
		}
		for !first && c.r < c.w && (c.buf[c.r] == '\r' || c.buf[c.r] == '\n') {
			c.r++ // some clients send a line break behind a body; net/http skips it, too
		}
		if c.r == c.w {
			continue
		}
		size, ok := c.head.read(c.buf[c.r:c.w], c.server.plain, c.server.bounds.Lines)
		if !ok {
			if c.SetDeadline(time.Time{}) != nil { // net/http sets its own
				_ = c.Close()
				return
			}
			c.server.over.give(&begun{Conn: c.Conn, ahead: bytes.Clone(c.buf[c.r:c.w]), secure: c.base.TLS})
			return
		}
		c.r += size
		if !c.respond(pipelined) {
			c.linger()
			return
		}
	}
}

// handshakeRecord is the first byte of TLS, and of no request.
const handshakeRecord = 22

// secure makes TLS of a connection whose first bytes begin it, within the time for a head. It sets
// c.base.TLS, or gives the connection to net/http if that is to speak HTTP/2 on it.
func (c *conn) secure() (given bool) {
	ctx, cancel := context.WithTimeout(c.base.Context(), c.server.http.ReadHeaderTimeout)
	defer cancel()
	secure, err := c.server.Handshake(ctx, &begun{Conn: c.Conn, ahead: bytes.Clone(c.buf[c.r:c.w])})
	if err != nil {
		if c.server.http.ErrorLog != nil {
			c.server.http.ErrorLog.Printf("plain: TLS handshake with %s failed: %v", c.remote, err)
		}
		return false
	}
	is := secure.ConnectionState()
	if is.NegotiatedProtocol == "h2" {
		if secure.SetDeadline(time.Time{}) != nil {
			return false
		}
		c.server.over.give(secure)
		return true
	}
	c.server.mu.Lock() // Close and Shutdown of the server use it
	c.Conn, c.base.TLS = secure, &is
	c.server.mu.Unlock()
	return false
}

// await reads the first bytes of the next request; false: none came in time, or the connection was
// retired before.
func (c *conn) await(first bool) bool {
	most := c.server.http.ReadHeaderTimeout
	if !first {
		most = c.server.http.IdleTimeout
		if !c.state.CompareAndSwap(busy, idle) {
			return false
		}
	}
	c.r, c.w = 0, 0
	if c.limited.Swap(false) {
		c.readUntil = time.Time{}
	}
	if !renew(&c.readUntil, most, c.SetReadDeadline) {
		return false
	}
	n, err := c.Conn.Read(c.buf)
	c.w = n
	return n > 0 && err == nil && (first || c.state.CompareAndSwap(idle, busy))
}

// renew sets a deadline, unless the one that is set leaves most of the time.
func renew(until *time.Time, most time.Duration, set func(time.Time) error) bool {
	now := time.Now()
	if left := until.Sub(now); most <= 0 || left > most-most/8 && left <= most {
		return true
	}
	*until = now.Add(most)
	return set(*until) == nil
}

// handle calls the handler. A pipelined request waits until its kind has a free share. It has the
// share while it is handled, and for Rests times as long after that: see Bounds. An answer that is
// not read holds none.
func (c *conn) handle(pipelined bool) {
	if pipelined && c.left <= int64(c.w-c.r) { // else it may take long to arrive
		c.server.ahead <- struct{}{}
		began := time.Now()
		defer func() {
			rest := min(time.Duration(c.server.bounds.Rests)*time.Since(began), c.server.bounds.Rest)
			backoff.Wait(c.server.stopping.Done(), rest)
			<-c.server.ahead
		}()
	}
	c.server.http.Handler.ServeHTTP((*writer)(c), &c.request)
}

// respond calls the handler and writes its answer; false: the connection has to be closed.
func (c *conn) respond(pipelined bool) (open bool) {
	h, r := &c.head, &c.request
	c.left = h.length
	*r, c.url = *c.base, url.URL{Path: h.path}
	r.URL, r.RequestURI, r.Host, r.Header, r.ContentLength, r.Body = &c.url, h.path, h.host, h.header, h.length, (*body)(c)
	if h.length > int64(c.w-c.r) { // the rest has to be waited for
		c.readUntil = time.Time{}
		if !renew(&c.readUntil, c.server.http.ReadTimeout, c.SetReadDeadline) {
			return false
		}
	}
	c.answer.begin()
	defer func() {
		if v := recover(); v != nil {
			open = false
			if err, is := v.(error); (!is || !errors.Is(err, http.ErrAbortHandler)) && c.server.http.ErrorLog != nil {
				c.server.http.ErrorLog.Printf("plain: panic serving %s: %v\n%s", c.remote, v, debug.Stack())
			}
		}
	}()
	c.handle(pipelined)
	if c.rest > 0 {
		backoff.Wait(c.server.stopping.Done(), c.rest)
	}
	return c.write()
}

// write sends the answer. The connection stays open if the body was read, at least into the buffer.
func (c *conn) write() (open bool) {
	if ahead := int64(c.w - c.r); c.left > 0 && c.left <= ahead {
		c.r += int(c.left)
		c.left = 0
	}
	open = c.left == 0 && c.server.stopping.Err() == nil && c.answer.header.Get("Connection") == ""
	out := c.answer.render(time.Now(), !open)
	if !renew(&c.writeUntil, c.server.http.WriteTimeout, c.SetWriteDeadline) {
		return false
	}
	_, err := c.Conn.Write(out)
	c.answer.finish(c.server.bounds.Kept)
	return open && err == nil
}

// linger closes a connection that has unread bytes of a body. A close would reset it, and the
// caller might lose the answer; so bytes on their way are read for a while.
func (c *conn) linger() {
	if c.left > 0 && closeWrite(c.Conn) == nil && c.SetReadDeadline(time.Now().Add(c.server.bounds.Linger)) == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, min(c.left, c.server.bounds.Discard))
	}
	_ = c.Close()
}

// body is the body of the request that a connection has.
type body conn

// Read returns bytes that were read ahead, then those of the connection.
func (b *body) Read(p []byte) (n int, err error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	if b.r < b.w {
		n = copy(p, b.buf[b.r:b.w])
		b.r += n
	} else if n, err = b.Conn.Read(p); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if b.left -= int64(n); b.left == 0 {
		return n, nil
	}
	return n, err
}

// Close does nothing: bytes that the handler has not read are read or left after its answer.
func (*body) Close() error { return nil }

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}
