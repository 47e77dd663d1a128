package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"time"
)

// ownCertificate returns the function that reads the end of validity of the certificate at
// --public-url, for the rule of alerts; nil: the address has none. A proxy ends TLS there, so only
// a handshake with it shows the certificate. No request is sent. The address is the operator's own
// setting and may be a private one, so the guard of deliveries does not apply.
func ownCertificate(own *url.URL, roots *x509.CertPool) func(context.Context) (time.Time, error) {
	if own == nil || own.Scheme != "https" {
		return nil
	}
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	return func(ctx context.Context) (time.Time, error) {
		c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(own.Hostname(), cmp.Or(own.Port(), "443")))
		if err == nil {
			defer func() { _ = c.Close() }()
			if secure, is := c.(*tls.Conn); is {
				return secure.ConnectionState().PeerCertificates[0].NotAfter, nil
			}
		}
		// An expired certificate is what the rule is about, so its end counts as well.
		if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && len(unverified.UnverifiedCertificates) > 0 {
			return unverified.UnverifiedCertificates[0].NotAfter, nil
		}
		return time.Time{}, err
	}
}
