package egress

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// TLSError says which part of an endpoint's TLS settings cannot be used, and why.
type TLSError struct {
	Field  string // ca, client_cert or client_key
	Detail string
}

func (e *TLSError) Error() string { return e.Field + " " + e.Detail }

// CheckTLS returns the fault of an endpoint's TLS settings. It is called when they are saved: a
// certificate without its key would otherwise fail every attempt.
func CheckTLS(t *grapnel.TLS, now time.Time) error {
	_, cert, err := identityOf(t)
	if err != nil || cert == nil {
		return err
	}
	if !now.Before(cert.Leaf.NotAfter) {
		return &TLSError{"client_cert", "ended on " + cert.Leaf.NotAfter.UTC().Format(time.DateOnly)}
	}
	return nil
}

// ClientCertUntil is the end of an endpoint's client certificate; zero: it has none.
func ClientCertUntil(t *grapnel.TLS) (until time.Time) {
	if t == nil || t.ClientCert == "" {
		return until
	}
	block, _ := pem.Decode([]byte(t.ClientCert))
	if block == nil {
		return until
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return until
	}
	return leaf.NotAfter.UTC()
}

// identityOf reads an endpoint's TLS settings: the authorities it trusts (nil: the system's), and
// its certificate (nil: none).
func identityOf(t *grapnel.TLS) (roots *x509.CertPool, cert *tls.Certificate, err error) {
	if t.CA != "" {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, nil, &TLSError{"ca", "has no certificate in PEM (-----BEGIN CERTIFICATE-----)"}
		}
	}
	key := t.ClientKey.Text
	switch {
	case t.ClientCert == "" && key == "":
		return roots, nil, nil
	case t.ClientCert == "":
		return nil, nil, &TLSError{"client_cert", "is required besides client_key"}
	case key == "":
		return nil, nil, &TLSError{"client_key", "is required besides client_cert"}
	case strings.Contains(key, "ENCRYPTED"):
		return nil, nil, &TLSError{"client_key", "is encrypted; give it without its passphrase"}
	}
	if ClientCertUntil(t).IsZero() {
		return nil, nil, &TLSError{"client_cert", "has no certificate in PEM (-----BEGIN CERTIFICATE-----)"}
	}
	pair, err := tls.X509KeyPair([]byte(t.ClientCert), []byte(key))
	if err != nil { // its text may quote the key
		return nil, nil, &TLSError{"client_key", "is not the private key of client_cert, in PEM"}
	}
	if pair.Leaf == nil {
		pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0])
	}
	return roots, &pair, err
}

// prepareTLS gives a route the endpoint's own identity. A server may let a resumed session stand
// for the certificate that began it, so sessions of such a route are resumed by no other route.
func (r *route) prepareTLS(e *grapnel.Endpoint) error {
	if e.TLS == nil {
		return nil
	}
	if r.tls == nil {
		return errors.New("the endpoint has TLS settings, and an http:// URL that cannot use them")
	}
	roots, cert, err := identityOf(e.TLS)
	if err != nil {
		return err
	}
	if roots != nil {
		r.tls.RootCAs = roots
	}
	if cert != nil {
		r.tls.Certificates = []tls.Certificate{*cert}
	}
	r.tls.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	return nil
}
