package api

import (
	lists "container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// Limit caps the connections of a server, which has not begun to serve, at a listener's. When there are that many, the one that has
// been longest without a request being handled is closed for a new one: idle, or new and silent. So callers without a key, who can
// do no more than hold connections, keep nobody from being served. If requests are being handled on all of them, the new one is closed.
func Limit(l net.Listener, s *http.Server, most int) net.Listener {
	all := &connections{Listener: l, most: most}
	handler := s.Handler
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, limited := r.Context().Value(connectionKey{}).(*connection); limited {
			if !all.handling(c) {
				panic(http.ErrAbortHandler) // it was closed after the request had been read
			}
			defer all.waits(c)
		}
		handler.ServeHTTP(w, r)
	})
	return all
}

// connections are those that are open.
type connections struct {
	net.Listener
	most int

	mu      sync.Mutex
	open    int
	waiting lists.List // of *connection on which no request is handled, the longest first
}

type connection struct {
	net.Conn
	all     *connections
	waiting *lists.Element // nil: a request is handled, or it is closed
	closed  bool
}

type connectionKey struct{}

// Accept waits for a connection that is let in.
func (all *connections) Accept() (net.Conn, error) {
	for {
		c, err := all.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if in := all.admit(c); in != nil {
			return in, nil
		}
		_ = c.Close()
	}
}

// admit lets a connection in, for another one if need be; nil: not.
func (all *connections) admit(c net.Conn) *connection {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.open >= all.most {
		longest := all.waiting.Front()
		if longest == nil {
			return nil
		}
		out := longest.Value.(*connection)
		all.remove(out)
		_ = out.Conn.Close()
	}
	in := &connection{Conn: c, all: all}
	in.waiting = all.waiting.PushBack(in)
	all.open++
	return in
}

func (all *connections) remove(c *connection) {
	if c.closed {
		return
	}
	if c.waiting != nil {
		all.waiting.Remove(c.waiting)
	}
	c.closed, c.waiting = true, nil
	all.open--
}

// handling says that a request is handled on a connection from now on; false: it was closed before.
func (all *connections) handling(c *connection) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if c.closed {
		return false
	}
	all.waiting.Remove(c.waiting)
	c.waiting = nil
	return true
}

// waits says that no request is handled on a connection any more.
func (all *connections) waits(c *connection) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !c.closed {
		c.waiting = all.waiting.PushBack(c)
	}
}

// Close closes the connection and counts it out.
func (c *connection) Close() error {
	c.all.mu.Lock()
	c.all.remove(c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite is what an http.Server does with a connection of which it has not read everything, so that the answer arrives.
func (c *connection) CloseWrite() error {
	if tcp, can := c.Conn.(interface{ CloseWrite() error }); can {
		return tcp.CloseWrite()
	}
	return nil
}
