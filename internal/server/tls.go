package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/crypto/acme"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/face/api"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/nodes/peer"
	"github.com/grapnelhq/grapnel/internal/store"
)

// handshake makes TLS of a connection: with another node if that is what the other side asks for,
// else with a caller.
func (s *Server) handshake(ctx context.Context, c net.Conn) (*tls.Conn, error) {
	secure := tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: s.configFor})
	return secure, secure.HandshakeContext(ctx)
}

func (s *Server) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if peers := s.lives.now.Load().peers; peers != nil && slices.Contains(hello.SupportedProtos, peer.Protocol) {
		return peers.Server(), nil
	}
	if s.certificates == nil {
		return nil, errors.New("this server speaks TLS with other nodes only")
	}
	return s.callersTLS, nil
}

// callersTLS is how the server speaks TLS with callers.
func callersTLS(from certificates) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: from.get}
	if _, is := from.(*issued); is {
		c.NextProtos = append(c.NextProtos, acme.ALPNProto)
	}
	return c
}

// hsts has browsers use https alone for a year.
const hsts = "max-age=31536000"

// entrance is in front of all handlers. A door serves its own paths; and if the server speaks TLS
// with callers, a request in the clear gets no more than a way to https.
func (s *Server) entrance(next http.Handler) http.Handler {
	refuse := api.Refuse(s.options.PublicURL, s.proxies)
	unsecured := s.unsecured(refuse)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.certificates != nil && r.TLS == nil && !probed(r.URL.Path):
			unsecured.ServeHTTP(w, r)
			return
		case !admits(r):
			refuse(w, r, ingress.Refusal{Status: http.StatusNotFound, Code: grapnel.CodeNotFound, Detail: "This address does not serve that path."})
			return
		case s.certificates != nil && r.TLS != nil:
			w.Header().Set("Strict-Transport-Security", hsts)
		}
		next.ServeHTTP(w, r)
	})
}

// unsecured answers requests that came without TLS: the authority's, to prove a domain, and others
// with the way to https. A request that has a key, or changes something, is refused instead: sent
// on, its caller would never notice that it crosses the network in the clear at first.
func (s *Server) unsecured(refuse func(http.ResponseWriter, *http.Request, ingress.Refusal)) http.Handler {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := s.secureAddress(r)
		if reads := r.Method == http.MethodGet || r.Method == http.MethodHead; to != "" && reads && r.Header.Get("Authorization") == "" {
			http.Redirect(w, r, to+r.URL.RequestURI(), http.StatusPermanentRedirect)
			return
		}
		refuse(w, r, ingress.Refusal{Status: http.StatusBadRequest, Code: grapnel.CodeInvalid,
			Detail: "This server speaks HTTPS; the request, and a key in it, came without encryption. Use https:// and replace the key."})
	})
	if i, is := s.certificates.(*issued); is {
		proves := i.manager.HTTPHandler(h)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if host, _, err := net.SplitHostPort(r.Host); err == nil && strings.HasPrefix(r.URL.Path, "/.well-known/acme-challenge/") {
				named := *r
				r, named.Host = &named, host // HTTPHandler knows domains without a port
			}
			proves.ServeHTTP(w, r)
		})
	}
	return h
}

// secureAddress is where the server speaks TLS: at the public URL, else at the host that the caller
// named, with the port of the main address; empty: the caller named none.
func (s *Server) secureAddress(r *http.Request) string {
	if own := s.options.PublicURL; own != nil && own.Scheme == "https" {
		return (&url.URL{Scheme: "https", Host: own.Host}).String()
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	_, port, err := net.SplitHostPort(s.listener.Addr().String())
	if host == "" || err != nil {
		return ""
	}
	if port != "443" {
		host = net.JoinHostPort(host, port)
	}
	return (&url.URL{Scheme: "https", Host: host}).String()
}

// scheme is that of the server's own address.
func (s *Server) scheme() string {
	if s.certificates != nil {
		return "https"
	}
	return "http"
}

// secure prepares TLS with callers, if the options want it.
func (s *Server) secure(place Place) error {
	b := bounds.Fill(s.options.Bounds.Certificates)
	switch o := s.options.TLS; {
	case len(o.Domains) > 0:
		docs := func() store.Documents { return s.lives.now.Load().store }
		sealer := func() *pass.Sealer { return pass.WithKey(s.session.secret("certificates"), rand.Reader) }
		leads := func() bool { return s.lives.now.Load().engine.Leads() }
		s.certificates = newIssued(o, place, docs, sealer, leads, b, s.log)
	case cmp.Or(o.Cert, o.Key) != "":
		p, err := openPair(o, b, s.log)
		if err != nil {
			return err
		}
		s.certificates = p
	default:
		return nil
	}
	s.callersTLS = callersTLS(s.certificates)
	return nil
}
