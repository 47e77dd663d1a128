package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// TestHealth: health exits with 0 while the server accepts events and with 6 otherwise, and finds
// the server by --server, else by the address at which a server in this environment listens.
func TestHealth(t *testing.T) {
	p, env := serve(t)
	if got := invoke(t, map[string]string{"GRAPNEL_SERVER": p.url}, "", "health", "--jq", ".status"); got.code != 0 || got.out != "ok\n" {
		t.Errorf("a server that accepts events: %+v", got)
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, listen := range []string{"0.0.0.0:" + port, ":" + port, port, "127.0.0.1:" + port} {
		if got := invoke(t, map[string]string{"GRAPNEL_LISTEN": listen}, "", "health"); got.code != 0 {
			t.Errorf("listening at %s: %+v", listen, got)
		}
	}
	env["GRAPNEL_KEY_FILE"] = filepath.Join(t.TempDir(), "unreadable")
	if got := invoke(t, env, "", "health", "--live"); got.code != 0 {
		t.Errorf("it needs no key: %+v", got)
	}
	p.stop()
	if got := invoke(t, map[string]string{"GRAPNEL_SERVER": p.url}, "", "health"); got.code != cli.ExitUnavailable {
		t.Errorf("a server that has stopped: %+v", got)
	}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":"unavailable","detail":"the storage is full"}`))
			return
		}
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	}))
	defer refusing.Close()
	if got := invoke(t, nil, "", "health", "--server", refusing.URL); got.code != cli.ExitUnavailable || !strings.Contains(got.errs, "the storage is full") {
		t.Errorf("a server that accepts nothing: %+v", got)
	}
	if got := invoke(t, nil, "", "health", "--live", "--server", refusing.URL); got.code != 0 {
		t.Errorf("its process lives: %+v", got)
	}
}

// TestVersionNamesTheBuild: for programs, every field is there; a release sets commit and date.
func TestVersionNamesTheBuild(t *testing.T) {
	commit, date = "0123abcd", "2026-11-29T08:00:00Z"
	defer func() { commit, date = "", "" }()
	if got := invoke(t, nil, "", "version", "-o", "json", "--jq", "[.version != \"\", .commit, .date] | tostring"); got.out != `[true,"0123abcd","2026-11-29T08:00:00Z"]`+"\n" {
		t.Errorf("version -o json: %+v", got)
	}
	if got := invoke(t, nil, "", "version"); !strings.Contains(got.out, "0123abcd") || !strings.Contains(got.out, "2026-11-29") {
		t.Errorf("version: %+v", got)
	}
}
