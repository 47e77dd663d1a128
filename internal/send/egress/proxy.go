package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/grapnelhq/grapnel/policy"
)

// A proxy is asked for a tunnel (CONNECT) to an address that was resolved and judged here, like one
// that is dialled: the proxy resolves no name, so it cannot lead a delivery elsewhere. TLS with the
// receiver is spoken through the tunnel. A failure before the tunnel stands is the proxy's.

// ParseProxy reads the URL of a forward proxy. Its user and password are secrets, so no error
// quotes it.
func ParseProxy(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL such as http://proxy.example.com:3128")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must start with http:// or https://")
	case u.Hostname() == "" || u.Port() == "":
		return nil, errors.New("must have a host and a port, as in http://proxy.example.com:3128")
	case strings.Trim(u.Path, "/") != "" || strings.ContainsAny(raw, "?#"):
		return nil, errors.New("must have nothing behind its port")
	}
	if _, err := portOf(u); err != nil {
		return nil, err
	}
	u.Path = ""
	return u, nil
}

// HiddenProxy is the URL of a proxy without its password.
func HiddenProxy(raw string) string {
	u, err := ParseProxy(raw)
	if err != nil {
		return ""
	}
	if u.User != nil {
		return u.Scheme + "://" + url.User(u.User.Username()).String() + ":[redacted]@" + u.Host
	}
	return u.String()
}

func newProxy(u *url.URL, secure *tls.Config) *proxy {
	p := &proxy{address: u.Host}
	if u.Scheme == "https" {
		p.tls = secure.Clone()
		p.tls.ServerName = u.Hostname()
	}
	if u.User != nil {
		password, _ := u.User.Password()
		p.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p
}

// prepareProxies notes the way to the receiver: by the server's proxy first, by which the
// endpoint's own proxy, or else its tenant's, is reached too. The operator has chosen the server's
// and the tenant's, so they may be at any address.
func (r *route) prepareProxies(s *Sender, own, tenants string) error {
	if s.opts.Proxy != nil {
		r.via = append(r.via, newProxy(s.opts.Proxy, s.tls))
	}
	if own == "" && tenants != "" {
		u, err := ParseProxy(tenants)
		if err != nil {
			return fmt.Errorf("the tenant's proxy %w", err)
		}
		r.via = append(r.via, newProxy(u, s.tls))
	}
	if own == "" {
		return nil
	}
	u, err := ParseProxy(own)
	if err == nil {
		is := s.rules.Load()
		at := *u
		at.User = nil
		_, err = parseURL(at.String(), is.httpsOnly, is.guard)
	}
	if err != nil {
		return fmt.Errorf("the endpoint's proxy %w", err)
	}
	p := newProxy(u, s.tls)
	p.own = true
	r.via = append(r.via, p)
	return nil
}

// through connects to one of the addresses by the proxies.
func (s *Sender) through(ctx context.Context, via []*proxy, targets []netip.AddrPort, a *attempt) (net.Conn, error) {
	// IPv4 first: a proxy without IPv6 fails slowly, and does not say why
	targets = slices.Clone(targets)
	slices.SortStableFunc(targets, func(x, y netip.AddrPort) int { return x.Addr().BitLen() - y.Addr().BitLen() })
	var first error
	for _, to := range targets {
		c, err := s.tunnel(ctx, via, to, a)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
		if refused := (*refusal)(nil); !errors.As(err, &refused) || ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// tunnel has the last of the proxies connect to an address.
func (s *Sender) tunnel(ctx context.Context, via []*proxy, to netip.AddrPort, a *attempt) (net.Conn, error) {
	p, before := via[len(via)-1], via[:len(via)-1]
	raw, err := s.toProxy(ctx, p, before, a)
	if err != nil {
		return nil, err
	}
	t := &tunneled{Conn: raw, socket: raw, to: to}
	if below, chained := raw.(*tunneled); chained {
		t.socket = below.socket
	}
	interrupted := context.AfterFunc(ctx, func() { _ = t.socket.SetDeadline(longAgo) })
	err = t.ask(ctx, p, s)
	if !interrupted() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = t.socket.Close() // it is being abandoned
		return nil, proxyError(err)
	}
	return t, nil
}

// toProxy connects to a proxy.
func (s *Sender) toProxy(ctx context.Context, p *proxy, before []*proxy, a *attempt) (c net.Conn, err error) {
	guard := s.rules.Load().guard
	if !p.own {
		guard = s.anywhere
	}
	targets, err := s.addresses(ctx, p.address, guard, a)
	if err != nil {
		return nil, proxyError(err)
	}
	if len(before) > 0 {
		c, err = s.through(ctx, before, targets, a)
		if dial, is := errors.AsType[*dialError](err); is && dial.class == policy.ClassConnect {
			err = proxyError(dial) // the receiver of that tunnel is the proxy
		}
		return c, err
	}
	if c, err = s.connectAny(ctx, targets, guard, a.deadline); err != nil {
		return nil, proxyError(err)
	}
	return c, nil
}

// ask asks a proxy for the tunnel.
func (t *tunneled) ask(ctx context.Context, p *proxy, s *Sender) error {
	if p.tls != nil {
		secure := tls.Client(t.Conn, p.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return &dialError{class: policy.ClassProxy, text: tlsText(err), err: err}
		}
		t.Conn = secure
	}
	head := "CONNECT " + t.to.String() + " HTTP/1.1\r\nHost: " + t.to.String() + "\r\nUser-Agent: " + s.opts.UserAgent + "\r\n"
	if p.auth != "" {
		head += "Proxy-Authorization: " + p.auth + "\r\n"
	}
	if _, err := t.Conn.Write([]byte(head + "\r\n")); err != nil {
		return err
	}
	resp, err := answered(t.Conn, s.bounds.ProxyAnswer)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // it has none that is read
	if resp.StatusCode/100 != 2 {
		return &refusal{resp.StatusCode, unreachable(resp.Header)}
	}
	return nil
}

// answered reads the head of a proxy's answer, and no byte more: the next one is the receiver's.
func answered(c net.Conn, most int) (*http.Response, error) {
	var head []byte
	for b := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, b[0]) {
		if len(head) == most {
			return nil, errors.New("its answer is not valid HTTP")
		}
		if _, err := c.Read(b); err != nil {
			return nil, err
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, errors.New("its answer is not valid HTTP")
	}
	return resp, nil
}

// refusal is an answer of a proxy that opens no tunnel.
type refusal struct {
	status      int
	unreachable bool // the proxy says that the receiver is to blame
}

func (e *refusal) Error() string {
	return "it answered " + strings.TrimSpace(strconv.Itoa(e.status)+" "+http.StatusText(e.status))
}

// unreachable says whether a proxy reports, in so many words, that it works and the receiver took
// no connection: by RFC 9209, or as Squid does. A status alone does not say it.
func unreachable(h http.Header) bool {
	for _, says := range []string{"error=connection_refused", "error=connection_timeout", "error=destination_ip_unroutable"} {
		if strings.Contains(h.Get("Proxy-Status"), says) {
			return true
		}
	}
	return strings.HasPrefix(h.Get("X-Squid-Error"), "ERR_CONNECT_FAIL")
}

// proxyError is the failure of a proxy, or of the way to it. The text names no address.
func proxyError(err error) error {
	var dial *dialError
	var refused *refusal
	switch {
	case errors.As(err, &dial) && dial.class == policy.ClassInternal:
		return err
	case errors.As(err, &dial):
		return &dialError{class: policy.ClassProxy, text: "the proxy failed: " + dial.text, err: err}
	case errors.As(err, &refused) && refused.unreachable:
		return &dialError{class: policy.ClassConnect, text: "no connection could be made: the proxy cannot reach the endpoint", err: err}
	case errors.As(err, &refused):
		return &dialError{class: policy.ClassProxy, text: "the proxy failed: " + refused.Error(), err: err}
	case errors.Is(err, errBlocked):
		return &dialError{class: policy.ClassBlocked, text: "the endpoint's proxy has an address that deliveries may not go to", err: err}
	}
	text := "its answer is not valid HTTP"
	if class, _ := classify(err); isTimeout(err) {
		text = "it did not answer in time"
	} else if class == policy.ClassReset {
		text = "it closed the connection"
	}
	return &dialError{class: policy.ClassProxy, text: "the proxy failed: " + text, err: err}
}

// tunneled is a connection through proxies.
type tunneled struct {
	net.Conn          // to the proxy, TLS included
	socket   net.Conn // below everything
	to       netip.AddrPort
}

// RemoteAddr is the receiver's address, and not the proxy's, which is none of a tenant's business.
func (t *tunneled) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(t.to) }

// Close does not wait for a proxy that does not read.
func (t *tunneled) Close() error { return t.socket.Close() }

// SyscallConn is the socket's, for alive.
func (t *tunneled) SyscallConn() (syscall.RawConn, error) {
	socket, is := t.socket.(syscall.Conn)
	if !is {
		return nil, errors.ErrUnsupported
	}
	return socket.SyscallConn()
}

// isProxys says whether an error is a proxy's.
func isProxys(err error) bool {
	dial, is := errors.AsType[*dialError](err)
	return is && dial.class == policy.ClassProxy
}
