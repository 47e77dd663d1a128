package api

import (
	lists "container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// Limit caps the number of connections that a listener accepts for a server, and has to be called
// before the server serves. At the cap, a new connection replaces the one that has been without a
// request in a handler for longest: idle, or new and silent. So callers without a key, who can only
// hold connections open, do not keep others out. If all connections have a request in a handler,
// the new one is closed.
func Limit(l net.Listener, s *http.Server, most int) net.Listener {
	all := &connections{Listener: l, most: most}
	handler, hook := s.Handler, s.ConnContext
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if in, limited := c.(*connection); limited && hook != nil {
			ctx = hook(ctx, in.Conn)
		}
		return context.WithValue(ctx, connectionKey{}, c)
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, limited := r.Context().Value(connectionKey{}).(*connection); limited {
			if !all.handling(c) {
				panic(http.ErrAbortHandler) // Limit closed it after the request had been read
			}
			defer all.waits(c)
		}
		handler.ServeHTTP(w, r)
	})
	return all
}

// connections are the open connections of a server.
type connections struct {
	net.Listener
	most int

	mu      sync.Mutex
	open    int
	waiting lists.List // *connection without a request in a handler, the longest without one first
}

type connection struct {
	net.Conn
	all     *connections
	waiting *lists.Element // nil: it has a request in a handler, or is closed
	busy    int            // requests in a handler; more than one with HTTP/2
	closed  bool
}

type connectionKey struct{}

// Accept returns the next connection that admit takes, and closes the others.
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

// admit takes a connection, in the place of another one if need be; nil: all others are in use.
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

// handling notes that a handler begins on a connection; false: Limit has closed it before.
func (all *connections) handling(c *connection) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if c.closed {
		return false
	}
	if c.busy++; c.busy == 1 {
		all.waiting.Remove(c.waiting)
		c.waiting = nil
	}
	return true
}

// waits notes that a handler has ended on a connection.
func (all *connections) waits(c *connection) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if c.busy--; c.busy == 0 && !c.closed {
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

// CloseWrite lets an http.Server end a connection of which it has not read everything without
// losing its answer.
func (c *connection) CloseWrite() error {
	if tcp, can := c.Conn.(interface{ CloseWrite() error }); can {
		return tcp.CloseWrite()
	}
	return nil
}
