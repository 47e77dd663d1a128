//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestServeTellsSystemd: a server says that it is ready, gives signs of life while it runs, and
// says that it stops; all to the socket that systemd names.
func TestServeTellsSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	next := func() string {
		buffer := make([]byte, 100)
		_ = socket.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := socket.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n])
	}
	p := launch(t, map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "600000"},
		"serve", "--listen", "127.0.0.1:0", "--store", "sqlite:"+filepath.Join(t.TempDir(), "grapnel.db"))
	for i, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"} {
		if got := next(); got != want {
			t.Fatalf("message %d: %q, want %q", i, got, want)
		}
	}
	if got := p.stop(); got.code != 0 {
		t.Errorf("the server: %+v", got)
	}
	got := next()
	for got == "WATCHDOG=1" {
		got = next()
	}
	if got != "STOPPING=1" {
		t.Errorf("at its end: %q", got)
	}
}

// TestCredentialsAreSecrets: a systemd credential with the name of a secret's variable sets it, if
// the variable does not.
func TestCredentialsAreSecrets(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "GRAPNEL_ADMIN_KEY"), []byte(adminKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, map[string]string{"CREDENTIALS_DIRECTORY": dir},
		"serve", "--listen", "127.0.0.1:0", "--store", "sqlite:"+filepath.Join(t.TempDir(), "grapnel.db"))
	if got := invoke(t, map[string]string{"GRAPNEL_SERVER": p.url, "GRAPNEL_KEY": adminKey}, "", "keys", "list", "-o", "name"); got.code != 0 {
		t.Errorf("the admin key of the credential opens nothing: %+v", got)
	}
}
