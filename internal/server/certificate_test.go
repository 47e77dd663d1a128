package server

import (
	"crypto/x509"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// TestOwnCertificate: the end of a certificate is read from a handshake, also if it is not trusted.
func TestOwnCertificate(t *testing.T) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	for name, roots := range map[string]*x509.CertPool{"trusted": trusted, "not trusted": x509.NewCertPool()} {
		if until, err := ownCertificate(at, roots)(t.Context()); err != nil || !until.Equal(s.Certificate().NotAfter) {
			t.Errorf("%s: %v, %v; it is %v", name, until, err, s.Certificate().NotAfter)
		}
	}
	s.Close()
	if until, err := ownCertificate(at, nil)(t.Context()); err == nil {
		t.Errorf("of a closed port: %v", until)
	}
	if at.Scheme = "http"; ownCertificate(at, nil) != nil || ownCertificate(nil, nil) != nil {
		t.Error("an address without TLS has a certificate")
	}
}

// TestSpaceOfADatabase: PostgreSQL's space is what the operator says, less the size.
func TestSpaceOfADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, make([]byte, 300), 0o600); err != nil {
		t.Fatal(err)
	}
	far := Place{url: "postgres://db.example/grapnel", path: path}
	if far.space(nil, 0) != nil {
		t.Error("unknown space is measured")
	}
	for limit, want := range map[int64]uint64{1000: 700, 200: 0} {
		if free, total, err := far.space(nil, limit)(t.Context()); err != nil || free != want || total != uint64(limit) {
			t.Errorf("of %d bytes %d are free, of %d, %v", limit, free, total, err)
		}
	}
	if _, total, err := (Place{path: path}).space(nil, 0)(t.Context()); err != nil || total < 300 {
		t.Errorf("the disk has %d bytes, %v", total, err)
	}
}
