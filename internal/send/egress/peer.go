package egress

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"

	"github.com/grapnelhq/grapnel"
)

// peerOf describes the receiver's end of a connection, for causes of failures: one address of
// several that fails, or a certificate that was replaced.
func peerOf(raw net.Conn, certificates []*x509.Certificate) (p grapnel.Peer) {
	if at, err := netip.ParseAddrPort(raw.RemoteAddr().String()); err == nil {
		p.Address = at.Addr().Unmap().String()
	}
	if len(certificates) > 0 {
		sum := sha256.Sum256(certificates[0].Raw)
		p.Certificate, p.CertificateUntil = hex.EncodeToString(sum[:8]), certificates[0].NotAfter.UTC()
	}
	return p
}

// refused returns the certificates that a handshake refused.
func refused(err error) []*x509.Certificate {
	if verify, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return verify.UnverifiedCertificates
	}
	return nil
}
