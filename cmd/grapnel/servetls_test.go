package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// TestAPrivateAuthority: a command verifies a server by the authorities in --ca, and by no others.
func TestAPrivateAuthority(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"status":"ok"}`)) }))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := invoke(t, map[string]string{"GRAPNEL_CA": file}, "", "health", "--server", s.URL); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := invoke(t, nil, "", "health", "--server", s.URL); got.code != cli.ExitUnavailable || !strings.Contains(got.errs, "certificate") {
		t.Errorf("without --ca: %+v", got)
	}
	store := "sqlite:" + filepath.Join(t.TempDir(), "grapnel.db")
	for _, ca := range []string{file, ""} {
		got := invoke(t, map[string]string{"GRAPNEL_CA": ca}, "", "doctor", "--server", s.URL, "--store", store,
			"--jq", `[.skipped[]|select(.why == "no server answers")]|length`)
		if sees := strings.TrimSpace(got.out) == "0"; sees != (ca != "") {
			t.Errorf("doctor, with the authority in %q: %+v", ca, got)
		}
	}
	for _, wrong := range []string{"servetls_test.go", "none"} {
		if got := invoke(t, nil, "", "health", "--server", s.URL, "--ca", wrong); got.code != cli.ExitUsage || !strings.Contains(got.errs, "--ca") {
			t.Errorf("%s: %+v", wrong, got)
		}
	}
}

// TestSettingsOfTLSAreRefused: settings that contradict each other are named before anything is
// made.
func TestSettingsOfTLSAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--tls-cert a": "both or neither",
		"--tls-acme a.example.com --tls-cert a --tls-key b":      "one of them",
		"--tls-acme localhost":                                   "name of a host",
		"--tls-acme *.example.com":                               "name of a host",
		"--tls-acme-email a@example.com":                         "need --tls-acme",
		"--tls-acme a.example.com --tls-acme-directory http://a": "https:// URL",
		"--http-redirect :80":                                    "needs --tls-cert",
		"--tls-cert none --tls-key none":                         "--tls-cert, --tls-key",
	} {
		at := []string{"serve", "--listen", "127.0.0.1:0", "--store", "sqlite:" + filepath.Join(t.TempDir(), "x.db")}
		if got := invoke(t, nil, "", append(at, strings.Fields(args)...)...); got.code != cli.ExitUsage || !strings.Contains(got.errs, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
