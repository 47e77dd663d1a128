//go:build prove

package egress

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// realProxy starts a proxy with a config, and stops it when the test ends. make needs installs it.
func realProxy(t *testing.T, name, config string) (address string, stop func()) {
	t.Helper()
	binary, err := exec.LookPath(name)
	if err != nil {
		binary = "/usr/sbin/" + name
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(address)
	dir := t.TempDir()
	path := filepath.Join(dir, "config")
	if err := os.WriteFile(path, []byte(strings.NewReplacer("PORT", port, "DIR", dir).Replace(config)), 0o600); err != nil {
		t.Fatal(err)
	}
	args := map[string][]string{"tinyproxy": {"-d", "-c", path}, "squid": {"-n", "grapnel" + port, "-N", "-f", path}}[name]
	cmd := exec.Command(binary, args...) //nolint:gosec // a test's own
	if err := cmd.Start(); err != nil {
		t.Fatal(name, " is missing; make needs installs it: ", err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // Squid then removes its shared memory
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	for range 200 {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return address, stop
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal(name, " does not listen")
	return "", nil
}

const (
	tinyproxyConfig = "Port PORT\nListen 127.0.0.1\nTimeout 20\nMaxClients 20\nBasicAuth me s3cret\n"
	squidConfig     = "http_port 127.0.0.1:PORT\nacl me src 127.0.0.0/8\nhttp_access allow me\ncache deny all\naccess_log none\n" +
		"cache_log /dev/null\npid_filename DIR/pid\ncoredump_dir DIR\nshutdown_lifetime 0 seconds\npinger_enable off\nnetdb_filename none\n"
)

// TestRealProxies: deliveries with a client certificate go through tinyproxy and Squid, over
// connections that are used again. A receiver that is away is the receiver's failure where the
// proxy says so; a wrong password and a proxy that has gone are the proxy's.
func TestRealProxies(t *testing.T) {
	a := newAuthority(t)
	for _, c := range []struct {
		name, config, user string
		away               policy.Class
	}{
		{"tinyproxy", tinyproxyConfig, "me:s3cret@", policy.ClassProxy},
		{"squid", squidConfig, "", policy.ClassConnect},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, stop := realProxy(t, c.name, c.config)
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = fmt.Fprint(w, r.Method, " ", r.TLS.PeerCertificates[0].Subject.CommonName)
			}))
			srv.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(t, "hooks.example", day(-1), day(1))}, ClientCAs: a.pool,
				ClientAuth: tls.RequireAndVerifyClientCert}
			srv.StartTLS()
			defer srv.Close()
			_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
			through := func(user string) *Sender {
				at, err := ParseProxy("http://" + user + address)
				if err != nil {
					t.Fatal(err)
				}
				return sender(t, Options{Allow: loopback(), Resolver: here{}, RootCAs: a.pool, Proxy: at})
			}
			s := through(c.user)
			defer s.Close()
			e := endpoint("https://hooks.example:" + port + "/")
			e.Method, e.TLS = http.MethodPatch, identity(t, a, "acme")
			for n := range 3 {
				if r := send(s, delivery(e)); string(r.Body) != "PATCH acme" || r.Phases.Reused != (n > 0) {
					t.Fatalf("%d: %+v %q %s", n, r.Outcome, r.Body, r.Error)
				}
			}
			if c.user != "" {
				if r := send(through("me:wrong@"), delivery(e)); r.Outcome.Class != policy.ClassProxy || !strings.Contains(r.Error, "40") {
					t.Errorf("a wrong password: %+v %s", r.Outcome, r.Error)
				}
			}
			away := endpoint("https://hooks.example:" + closedPort(t) + "/")
			away.ID = "ep_away"
			if r := send(s, delivery(away)); r.Outcome.Class != c.away {
				t.Errorf("a receiver that is away: %+v %s", r.Outcome, r.Error)
			}
			stop()
			gone := endpoint(e.URL)
			gone.ID, gone.TLS = "ep_gone", &grapnel.TLS{CA: a.text()}
			if r := send(s, delivery(gone)); r.Outcome.Class != policy.ClassProxy {
				t.Errorf("a proxy that has gone: %+v %s", r.Outcome, r.Error)
			}
		})
	}
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
