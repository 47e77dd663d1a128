package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

const (
	// for resolving a name; a slow name server leaves less time for the receiver
	lookupBudget   = 2 * time.Second
	connectMinimum = 2 * time.Second // for one of several addresses, unless the deadline is nearer
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
	addrs, err := s.addresses(ctx, addr, s.guardOf(a), a)
	if err != nil {
		return nil, err
	}
	a.enter(stageConnect)
	start := s.opts.Now()
	defer func() { a.connect = s.opts.Now().Sub(start) }()
	if len(via) > 0 {
		return s.through(ctx, via, addrs, a)
	}
	return s.connectAny(ctx, addrs, s.guardOf(a), a.deadline)
}

// guardOf is the guard of an attempt's connection.
func (s *Sender) guardOf(a *attempt) *guard {
	if a.mail {
		return s.rules.Load().mail
	}
	return s.rules.Load().guard
}

// addresses returns the addresses of a host and port that may be dialled. Forbidden ones are
// dropped; if none is left the error is errBlocked.
func (s *Sender) addresses(ctx context.Context, addr string, g *guard, a *attempt) ([]netip.AddrPort, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, errBlocked
	}
	number, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, errBlocked
	}
	port := uint16(number)
	if literal, err := netip.ParseAddr(host); err == nil {
		target := netip.AddrPortFrom(literal, port)
		return []netip.AddrPort{target}, g.check(target)
	}
	a.enter(stageDNS)
	start := s.opts.Now()
	ctx, cancel := context.WithTimeout(ctx, lookupBudget)
	defer cancel()
	answers, err := s.opts.Resolver.LookupNetIP(ctx, "ip", host)
	a.dns += s.opts.Now().Sub(start)
	if err != nil {
		return nil, lookupError(ctx, err)
	}
	var targets []netip.AddrPort
	for _, answer := range answers {
		// The resolver gives IPv4 addresses in their IPv6-mapped form too.
		target := netip.AddrPortFrom(answer.Unmap(), port)
		if g.check(target) == nil && !slices.Contains(targets, target) && len(targets) < s.bounds.Addresses {
			targets = append(targets, target)
		}
	}
	if len(targets) > 0 {
		return targets, nil
	}
	if len(answers) > 0 {
		return nil, errBlocked
	}
	return nil, &dialError{class: policy.ClassDNS, text: "the name has no address"}
}

// connectAny tries the addresses in the resolver's order. An address that does not answer leaves
// time for the others.
func (s *Sender) connectAny(ctx context.Context, addrs []netip.AddrPort, g *guard, deadline time.Time) (net.Conn, error) {
	var first error
	for i, addr := range addrs {
		// Keep-alive probes cost system calls, and an idle connection is closed before the first of
		// them.
		d := net.Dialer{ControlContext: g.control, KeepAlive: -1}
		if left := len(addrs) - i; left > 1 {
			d.Timeout = max(time.Until(deadline)/time.Duration(left), connectMinimum)
		}
		raw, err := d.DialContext(ctx, "tcp", addr.String())
		if err == nil {
			return raw, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, syscall.EADDRNOTAVAIL) && sourceless(addr) {
			err = syscall.ENETUNREACH
		}
		if first == nil {
			first = err
		}
	}
	if errors.Is(first, errBlocked) {
		return nil, errBlocked
	}
	return nil, connectError(first)
}

// sourceless says whether this machine has no address to reach another one from: it has no IPv6, or
// no IPv4. Its TCP ports may be used up instead. UDP has ports of its own, and connecting sends
// nothing.
func sourceless(to netip.AddrPort) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.EADDRNOTAVAIL)
}

var errLongHeader = errors.New("its headers exceeded 32 KiB")
