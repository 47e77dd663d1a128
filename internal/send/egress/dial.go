package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// noLimit as headerLeft: a body is being read, which has a limit of its own.
const noLimit = math.MaxInt

// serve gives a connection to an attempt, or takes it away.
func (c *conn) serve(a *attempt) {
	c.attempt = a
	if a != nil {
		a.peer = c.peer
	}
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.attempt.wrote()
	}
	return n, err
}

func (c *conn) Read(p []byte) (int, error) {
	if c.headerLeft <= 0 {
		return 0, errLongHeader
	}
	n, err := c.Conn.Read(p[:min(len(p), c.headerLeft)])
	if c.headerLeft != noLimit {
		c.headerLeft -= n
	}
	if n > 0 {
		c.attempt.answered()
	}
	return n, err
}

// track makes a connection one that the sender knows of.
func (s *Sender) track(secure, below net.Conn, peer grapnel.Peer) (*conn, error) {
	c := &conn{Conn: secure, below: below, sender: s, peer: peer, headerLeft: noLimit}
	c.reader = bufio.NewReaderSize(c, s.bounds.Ahead)
	s.connsMu.Lock()
	s.conns[c] = struct{}{}
	s.connsMu.Unlock()
	s.counters.dialed.Add(1)
	s.counters.open.Add(1)
	// Close may have listed the connections just before this one was added
	if s.closing.Err() != nil {
		_ = c.Close()
		return nil, s.closing.Err()
	}
	return c, nil
}

// Close closes the connection; only the first call counts.
func (c *conn) Close() error {
	// not c.Conn: TLS would wait up to 5 s to say goodbye to a receiver that does not read
	err := c.below.Close()
	s := c.sender
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	if c.unwatch != nil {
		c.unwatch()
	}
	if _, open := s.conns[c]; open {
		delete(s.conns, c)
		s.counters.open.Add(-1)
		if len(s.conns) == 0 {
			s.ended.Broadcast()
		}
	}
	return err
}

// dial makes a connection to a route's receiver, and speaks TLS on it where the URL says so.
func (s *Sender) dial(ctx context.Context, r *route, a *attempt) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	raw, err := s.connect(ctx, r.via, r.address, a)
	if err != nil {
		return nil, err
	}
	if r.tls == nil {
		return s.track(raw, raw, peerOf(raw, nil))
	}
	start := s.opts.Now()
	a.enter(stageTLS)
	secure := tls.Client(raw, r.tls)
	err = secure.HandshakeContext(ctx)
	a.tls = s.opts.Now().Sub(start)
	if err != nil {
		a.peer = peerOf(raw, refused(err))
		_ = raw.Close() // the handshake's error is the one that matters
		return nil, &dialError{class: policy.ClassTLS, text: tlsText(err), err: err}
	}
	return s.track(secure, raw, peerOf(raw, secure.ConnectionState().PeerCertificates))
}

// connect resolves and connects, through the proxies if there are any.
func (s *Sender) connect(ctx context.Context, via []*proxy, addr string, a *attempt) (net.Conn, error) {
	if s.opts.Dial != nil {
		a.enter(stageConnect)
		start := s.opts.Now()
		raw, err := s.opts.Dial(ctx, "tcp", addr)
		a.connect = s.opts.Now().Sub(start)
		if err != nil {
			return nil, connectError(err)
		}
		return raw, nil
	}
	addrs, err := s.addresses(ctx, addr, a.guard(), a)
	if err != nil {
		return nil, err
	}
	a.enter(stageConnect)
	start := s.opts.Now()
	defer func() { a.connect = s.opts.Now().Sub(start) }()
	if len(via) > 0 {
		return s.through(ctx, via, addrs, a)
	}
	return s.connectAny(ctx, addrs, a.guard(), a.deadline)
}

var errLongHeader = errors.New("its headers exceeded 32 KiB")
