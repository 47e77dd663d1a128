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
// What this package does not promise: that a plain client stays here. A head that arrives in two
// pieces, or is longer than Bounds.Ahead, costs only processor time.
package plain

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// Bounds are the sizes inside this package; see package bounds.
type Bounds struct {
	Ahead int `bound:"4KiB" tiny:"512"`  // bytes of a connection that are read ahead; the most for a head
	Lines int `bound:"64" tiny:"8"`      // headers of a plain request
	Kept  int `bound:"64KiB" tiny:"256"` // largest answer whose memory is used again

	// What the caller has sent beyond an answer is read for this time before the connection is closed.
	Discard int64         `bound:"256KiB" tiny:"1KiB"`
	Linger  time.Duration `bound:"500ms" tiny:"10ms"`

	Refused time.Duration `bound:"5ms"` // first pause of the listener when no descriptor is free

	// Pipelined is how many requests are handled at once that had come before the answer to the one
	// before them was sent, and Rests how many times as long as it took a share stays unused after one
	// of them, up to Rest. So callers that do not wait for answers take at most this part of the
	// server's time together, however many connections they have, and callers that do wait are served
	// almost as if they were alone.
	Pipelined int           `bound:"1"`
	Rests     int           `bound:"3" tiny:"1"`
	Rest      time.Duration `bound:"100ms" tiny:"1ms"`
}

// Server answers requests from the connections of one listener.
type Server struct {
	http   *http.Server
	plain  func(path string) bool
	bounds Bounds
	over   *passage
	ahead  chan struct{} // one for each pipelined request that is handled

	stopping context.Context // ended: it takes no new requests
	stop     context.CancelFunc

	mu       sync.Mutex
	listener net.Listener
	conns    map[*conn]struct{}
	serving  sync.WaitGroup // goroutines of conns
}

// New makes a server in front of another one, whose handler, timeouts and hooks it uses. plain says
// of a path whether POSTs to it may be plain.
func New(s *http.Server, plain func(path string) bool, b Bounds) *Server {
	is := &Server{http: s, plain: plain, bounds: bounds.Fill(b), over: newPassage(), conns: map[*conn]struct{}{}}
	is.ahead = make(chan struct{}, is.bounds.Pipelined)
	is.stopping, is.stop = context.WithCancel(context.Background())
	if hook := s.ConnContext; hook != nil {
		s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return hook(ctx, original(c)) }
	}
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

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
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
	s.end(func(c *conn) { _ = c.Close() })
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
