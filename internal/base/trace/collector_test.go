package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// written puts PEM blocks into a file of the test.
func written(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestACollectorWithItsOwnAuthority: a collector whose certificate only its own authority signed,
// and which asks for a client's certificate, gets compressed spans if the variables name the files.
func TestACollectorWithItsOwnAuthority(t *testing.T) {
	var spans, unnamed atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := gzip.NewReader(r.Body)
		if err != nil || r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("the body is not compressed: %v", err)
			return
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		if len(r.TLS.PeerCertificates) == 0 {
			unnamed.Add(1)
		}
		spans.Add(int64(bytes.Count(text, []byte(`"parentSpanId"`))))
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused handshakes
	server.StartTLS()
	t.Cleanup(server.Close)
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	roots, own := written(t, "roots.pem", "CERTIFICATE", server.Certificate().Raw), written(t, "key.pem", "PRIVATE KEY", key)
	base := "OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL + " OTEL_EXPORTER_OTLP_PROTOCOL=http/json OTEL_EXPORTER_OTLP_COMPRESSION=gzip "
	const names = "OTEL_EXPORTER_OTLP_"
	client := names + "TRACES_CLIENT_CERTIFICATE=" + roots + " " + names + "TRACES_CLIENT_KEY=" + own
	for _, c := range []struct {
		variables string
		exported  int64
	}{{names + "CERTIFICATE=" + roots + " " + client, 1}, {client, 0}, {names + "CERTIFICATE=" + roots, 0}} {
		s, err := fromVariables(base + c.variables)
		if err != nil {
			t.Fatal(err)
		}
		tr := New(Options{Settings: s})
		tr.Record(span())
		ended, end := context.WithCancel(t.Context())
		end()
		tr.Run(ended)
		if got := counts(tr); got != [3]int64{c.exported, 0, 1 - c.exported} {
			t.Errorf("%s: exported, dropped, failed: %v", c.variables, got)
		}
	}
	if spans.Load() != 1 || unnamed.Load() != 0 {
		t.Errorf("the collector got %d spans, %d requests without a certificate", spans.Load(), unnamed.Load())
	}
	for variables, name := range map[string]string{
		names + "CERTIFICATE=" + own:                                              names + "CERTIFICATE",
		names + "TRACES_CERTIFICATE=/hunter2":                                     names + "TRACES_CERTIFICATE",
		names + "CLIENT_CERTIFICATE=" + roots:                                     names + "CLIENT_CERTIFICATE",
		names + "CLIENT_KEY=" + own:                                               names + "CLIENT_CERTIFICATE",
		names + "CLIENT_CERTIFICATE=" + own + " " + names + "CLIENT_KEY=/hunter2": names + "CLIENT_CERTIFICATE",
		names + "COMPRESSION=hunter2":                                             names + "COMPRESSION",
	} {
		_, err := fromVariables(base + variables)
		if grapnel.CodeOf(err) != grapnel.CodeInvalid || !strings.Contains(err.Error(), name+":") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", variables, err)
		}
	}
}
