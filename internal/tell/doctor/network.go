package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/send/egress"
)

// reachAll connects to each host once, some at a time.
func (s *Subject) reachAll(ctx context.Context) (all []*host) {
	known := map[string]bool{}
	add := func(u *url.URL, asked bool) {
		port := cmp.Or(u.Port(), map[bool]string{true: "443", false: "80"}[u.Scheme == "https"])
		h := &host{url: u, address: net.JoinHostPort(u.Hostname(), port), asked: asked}
		if key := u.Scheme + h.address; u.Hostname() != "" && !known[key] && len(all) < s.Bounds.Hosts {
			known[key], all = true, append(all, h)
		}
	}
	for _, u := range s.URLs {
		add(u, true)
	}
	for _, text := range s.endpoints {
		if u, err := url.Parse(text); err == nil {
			add(u, false)
		}
	}
	var work sync.WaitGroup
	slots := make(chan struct{}, s.Bounds.AtOnce)
	for _, h := range all {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			s.reach(ctx, h, egress.Dialer(s.Allow))
		})
	}
	work.Wait()
	return all
}

// reach resolves a host, connects, and ends TLS. Only the operator's URL gets a request.
func (s *Subject) reach(ctx context.Context, h *host, dialer *net.Dialer) {
	ctx, cancel := context.WithTimeout(ctx, s.Bounds.Patience)
	defer cancel()
	addresses := []netip.Addr{}
	if literal, err := netip.ParseAddr(h.url.Hostname()); err == nil {
		addresses = append(addresses, literal)
	} else if addresses, err = s.Lookup(ctx, h.url.Hostname()); err != nil || len(addresses) == 0 {
		h.resolved = cmp.Or(err, errors.New("the answer has no address"))
		return
	}
	_, port, _ := net.SplitHostPort(h.address)
	var conn net.Conn
	for _, a := range addresses {
		if conn, h.dialled = dialer.DialContext(ctx, "tcp", net.JoinHostPort(a.Unmap().String(), port)); h.dialled == nil {
			break
		}
	}
	if h.dialled != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if h.url.Scheme == "https" {
		secure := tls.Client(conn, &tls.Config{ServerName: h.url.Hostname(), RootCAs: s.Roots, Time: s.Now, MinVersion: tls.VersionTLS12})
		h.secured = secure.HandshakeContext(ctx)
		if wrong, is := errors.AsType[*tls.CertificateVerificationError](h.secured); is && len(wrong.UnverifiedCertificates) > 0 {
			h.until = wrong.UnverifiedCertificates[0].NotAfter
		}
		if h.secured != nil {
			return
		}
		h.until, conn = secure.ConnectionState().PeerCertificates[0].NotAfter, secure
	}
	if !h.asked {
		return
	}
	one := &http.Transport{DisableKeepAlives: true,
		DialContext:    func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, h.url.String(), http.NoBody)
	if err == nil {
		var answer *http.Response
		if answer, err = one.RoundTrip(r); err == nil {
			_ = answer.Body.Close()
			h.looked = s.Now()
			h.clock, _ = http.ParseTime(answer.Header.Get("Date"))
		}
	}
	h.dialled = err
}

func checkNames(_ context.Context, s *Subject) (found []Finding, _ string) {
	if len(s.hosts) == 0 {
		return nil, "no endpoints are known and no --url is given"
	}
	for _, h := range s.hosts {
		if h.resolved != nil {
			found = append(found, bad("the name "+h.url.Hostname()+" has no address: "+h.resolved.Error(), "Deliveries there fail.",
				"Ask the name server with getent hosts "+h.url.Hostname()+"; correct /etc/resolv.conf, or the endpoint's URL."))
		}
	}
	return found, ""
}

func checkEgress(_ context.Context, s *Subject) (found []Finding, _ string) {
	if len(s.URLs) == 0 {
		return nil, "no --url is given"
	}
	for _, h := range s.hosts {
		if h.asked && (h.dialled != nil || h.secured != nil) {
			found = append(found, bad(h.address+" cannot be reached: "+cmp.Or(h.dialled, h.secured).Error(), "Deliveries probably cannot leave this machine.",
				"Try it with curl -v from this machine; open the firewall, or allow a private address with --egress-allow."))
		}
	}
	return found, ""
}

func checkEndpoints(_ context.Context, s *Subject) (found []Finding, _ string) {
	if !s.server.runs {
		return nil, notRunning
	}
	for _, h := range s.hosts {
		switch {
		case h.asked || h.dialled == nil:
		case egress.Blocked(h.dialled):
			found = append(found, bad("deliveries may not go to "+h.address, "Its address is not public; each delivery to it fails.",
				"Allow the range with --egress-allow if the endpoint is yours; else correct its URL."))
		default:
			found = append(found, worrying(h.address+" does not accept connections", "Deliveries to it are retried until its policy ends them.",
				"Tell its owner; grapnel endpoints list shows its health."))
		}
	}
	return found, ""
}

func checkCertificates(_ context.Context, s *Subject) (found []Finding, _ string) {
	if len(s.hosts) == 0 {
		return nil, "no endpoints are known and no --url is given"
	}
	found = s.ending
	for _, h := range s.hosts {
		switch {
		case h.secured != nil && !h.asked:
			found = append(found, bad("the certificate of "+h.address+" is refused: "+h.secured.Error(), "Deliveries to it fail.",
				"Tell its owner; openssl s_client -showcerts -connect "+h.address+" shows the chain."))
		case h.secured == nil && !h.until.IsZero() && h.until.Before(s.soon()):
			found = append(found, worrying("the certificate of "+h.address+" ends on "+h.until.Format(time.DateOnly), "Deliveries to it fail from then on.", "Tell its owner to renew it."))
		}
	}
	return found, ""
}

func checkOwn(ctx context.Context, s *Subject) (found []Finding, skipped string) {
	ends := func(what string, until time.Time) {
		if until.Before(s.soon()) {
			found = append(found, worrying("the certificate "+what+" ends on "+until.Format(time.DateOnly), "Publishers, providers and browsers refuse the server from then on.", "Renew it."))
		}
	}
	if s.PublicURL == nil || s.PublicURL.Scheme != "https" {
		skipped = "--public-url has no certificate"
	} else {
		h := &host{url: s.PublicURL, address: net.JoinHostPort(s.PublicURL.Hostname(), cmp.Or(s.PublicURL.Port(), "443"))}
		s.reach(ctx, h, &net.Dialer{}) // the operator's own, which may be private
		if err := cmp.Or(h.resolved, h.dialled, h.secured); err != nil {
			found = append(found, bad("--public-url "+s.PublicURL.String()+" cannot be used: "+err.Error(), "Links in messages and portals begin with it.",
				"Correct the proxy, the name or the certificate; curl -v "+s.PublicURL.String()+" shows the fault."))
		} else {
			ends("at "+s.PublicURL.String(), h.until)
		}
	}
	for _, path := range s.Certificates {
		text, err := os.ReadFile(path)
		block, _ := pem.Decode(text)
		if err != nil || block == nil {
			found = append(found, bad(path+" has no certificate", "The server cannot accept TLS.", "Write the certificate and its chain into it, in PEM."))
			continue
		}
		if is, err := x509.ParseCertificate(block.Bytes); err == nil {
			ends("in "+path, is.NotAfter)
		}
	}
	return found, skipped
}

func checkClock(_ context.Context, s *Subject) (found []Finding, _ string) {
	off := func(by time.Duration, what string) {
		if by.Abs() > s.Bounds.Skew {
			found = append(found, bad(fmt.Sprintf("this clock differs from %s by %v", what, by.Abs().Round(time.Second)),
				"Receivers refuse signatures with a wrong time, and schedules are kept by it.", "Set the clock by NTP: timedatectl set-ntp true"))
		}
	}
	for _, h := range s.hosts {
		if !h.clock.IsZero() {
			off(h.looked.Truncate(time.Second).Sub(h.clock), "that of "+h.address)
		}
	}
	if d := s.database; !d.Clock.IsZero() {
		if d.Clock.Before(d.Asked) {
			off(d.Asked.Sub(d.Clock), "the database's")
		} else if d.Clock.After(d.Told) {
			off(d.Clock.Sub(d.Told), "the database's")
		}
	}
	for _, path := range s.files() {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(s.Now().Add(max(s.Bounds.Skew, time.Minute))) {
			off(info.ModTime().Sub(s.Now()), "the time of "+filepath.Base(path)+", which was written later")
			break
		}
	}
	return found, ""
}
