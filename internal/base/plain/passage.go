package plain

import (
	"crypto/tls"
	"net"
	"sync"
)

// passage is the listener of the http.Server: it gives connections over.
type passage struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPassage() *passage { return &passage{conns: make(chan net.Conn), done: make(chan struct{})} }

// give hands a connection to the http.Server; if that serves no more, the connection is closed.
func (p *passage) give(c net.Conn) {
	select {
	case p.conns <- c:
	case <-p.done:
		_ = c.Close()
	}
}

// Accept returns the next connection that was given.
func (p *passage) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and give.
func (p *passage) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr is empty: the connections have addresses of their own.
func (p *passage) Addr() net.Addr { return &net.TCPAddr{} }

// begun is a connection of which some bytes were read already.
type begun struct {
	net.Conn
	ahead  []byte
	secure *tls.ConnectionState // nil: the connection is not TLS
}

type secureKey struct{}

// NetConn is the connection below, as that of a tls.Conn.
func (c *begun) NetConn() net.Conn { return c.Conn }

func (c *begun) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
			c.ahead = nil
		}
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite lets net/http end a connection without losing its answer.
func (c *begun) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if can, ok := c.(interface{ CloseWrite() error }); ok {
		return can.CloseWrite()
	}
	return nil
}

// original is the connection as the listener returned it.
func original(c net.Conn) net.Conn {
	for {
		above, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = above.NetConn()
	}
}
