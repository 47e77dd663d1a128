package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

const (
	// for resolving a name; a slow name server leaves less time for the receiver
	lookupBudget   = 2 * time.Second
	connectMinimum = 2 * time.Second // for one of several addresses, unless the deadline is nearer
)

// guard is the guard of an attempt's connection.
func (a *attempt) guard() *guard {
	if a.mail {
		return a.sender.rules.Load().mail
	}
	return a.sender.rules.Load().guard
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
