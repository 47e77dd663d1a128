// Package plain reads the requests of publishers and providers without the ceremony of net/http,
// and gives every other request to net/http.
//
// A plain request is a POST to one of a few paths, whose head comes in one piece, has a
// Content-Length, and has nothing unusual in its syntax. A connection begins here. The first
// request on it that is not plain goes to an http.Server, with the bytes that were read of it, and
// the connection stays there. Both call the same handler, so a handler cannot tell the two apart,
// but for one thing: the context of a plain request does not end when its caller leaves.
//
// A head is plain only if net/http reads the same bytes as the same request: FuzzHeads and
// TestHeadsAreThoseOfNetHTTP compare the two. So a proxy in front sees the end of a request where
// net/http sees it, and no request can be smuggled past it that net/http would have refused.
//
// A connection that begins with a TLS handshake is made one of TLS by Server.Handshake. If the two
// sides agree on HTTP/2, net/http has it from then on.
//
// What this package does not promise: that a plain client stays here. A head that arrives in two
// pieces, or is longer than Bounds.Ahead, costs only processor time.
package plain

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// New makes a server in front of another one, whose handler, timeouts and hooks it uses. plain says
// of a path whether POSTs to it may be plain.
func New(s *http.Server, plain func(path string) bool, b Bounds) *Server {
	is := &Server{http: s, plain: plain, bounds: bounds.Fill(b), over: newPassage(), conns: map[*conn]struct{}{}}
	is.ahead = make(chan struct{}, is.bounds.Pipelined)
	is.stopping, is.stop = context.WithCancel(context.Background())
	hook, handler := s.ConnContext, s.Handler
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if b, is := c.(*begun); is {
			ctx = context.WithValue(ctx, secureKey{}, b.secure)
		}
		if hook != nil {
			ctx = hook(ctx, original(c))
		}
		return ctx
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil { // net/http does not see TLS below begun
			r.TLS, _ = r.Context().Value(secureKey{}).(*tls.ConnectionState)
		}
		handler.ServeHTTP(w, r)
	})
	return is
}

// Serve accepts connections until Shutdown or Close, and returns http.ErrServerClosed then.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	s.listener = l
	s.mu.Unlock()
	defer l.Close() //nolint:errcheck // a second time is harmless
	if s.stopping.Err() != nil {
		return http.ErrServerClosed
	}
	var standard sync.WaitGroup
	standard.Go(func() { _ = s.http.Serve(s.over) }) // it ends when Shutdown or Close has closed passage
	defer standard.Wait()
	for failures := 0; ; {
		c, err := l.Accept()
		if err == nil {
			failures = 0
			s.begin(c)
			continue
		}
		if s.stopping.Err() != nil {
			return http.ErrServerClosed
		}
		var passing interface{ Temporary() bool }
		if !errors.As(err, &passing) || !passing.Temporary() {
			_ = s.over.Close()
			return err
		}
		failures++
		// no descriptor is free
		backoff.Wait(s.stopping.Done(), backoff.Steps{First: s.bounds.Refused, Longest: 200 * s.bounds.Refused}.After(failures))
	}
}

// begin serves a connection in a goroutine of its own.
func (s *Server) begin(c net.Conn) {
	in := newConn(s, c)
	s.mu.Lock()
	if s.stopping.Err() != nil {
		s.mu.Unlock()
		_ = c.Close()
		return
	}
	s.conns[in] = struct{}{}
	s.serving.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.serving.Done()
		in.serve()
	}()
}

// Shutdown takes no new connections and no new requests, and waits until those in progress are
// answered or ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end((*conn).retire)
	served := make(chan struct{})
	go func() { // it ends at the latest when Close, which follows an error, has closed all connections
		s.serving.Wait()
		close(served)
	}()
	err := s.http.Shutdown(ctx)
	select {
	case <-served:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes all connections at once.
func (s *Server) Close() error {
	s.end(func(c *conn) { _ = original(c.Conn).Close() }) // without a last message of TLS, which may not fit
	return s.http.Close()
}

// end takes no new connections, and calls each with every connection.
func (s *Server) end(each func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	if s.listener != nil {
		_ = s.listener.Close()
	}
	_ = s.over.Close()
	for c := range s.conns {
		each(c)
	}
}
