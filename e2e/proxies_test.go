//go:build linux && prove

package e2e

import (
	"cmp"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/e2e/process"
)

// proxies run the configurations of docs/scale.md: what goes around the block of the page, and the
// command that reads the file.
var proxies = map[string]struct {
	before, after string
	run           []string
}{
	"nginx": {"daemon off; master_process off; pid DIR/pid; error_log stderr; events {} http { access_log off; " +
		"client_body_temp_path DIR/b; proxy_temp_path DIR/p; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;\n",
		"}\n", []string{"nginx", "-p", "DIR", "-e", "stderr", "-c", "FILE"}},
	"haproxy": {"", "", []string{"haproxy", "-db", "-f", "FILE"}},
}

// block is the text of a page's block of code in a language, without the second node of each
// installation.
func block(t *testing.T, page, language string) string {
	t.Helper()
	m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("docs/scale.md has no block of %s", language)
	}
	return regexp.MustCompile(`server (?:\S+ )?10\.\d\.0\.12:8420(?:;| check)`).ReplaceAllString(m[1], "")
}

// TestProxiesFindTheInstallation: behind one address, a request reaches the installation that its
// key names, and without a key the one that its host names.
func TestProxiesFindTheInstallation(t *testing.T) {
	page, err := os.ReadFile("../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	servers, keys, source := map[string]*process.Server{}, map[string]string{}, ""
	for _, name := range []string{"eu1", "us1"} {
		dir := t.TempDir()
		admin := "grp_" + name + "_0123456789012345678901234567890123456789012"
		s, err := process.Serve(t.Context(), program, admin, dir, "--name", name, "--store", "sqlite:"+filepath.Join(dir, "g.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		servers[name] = s
		c, err := client.New(client.Options{Server: s.URL(), Key: admin})
		if err != nil {
			t.Fatal(err)
		}
		in, err := c.CreateSource(t.Context(), client.NewSource{Name: "in", Tenant: name, Verify: client.NewVerify{Scheme: "none"}})
		if err != nil {
			t.Fatal(err)
		}
		source = in.ID // of us1, the last one
		if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: "http://127.0.0.1:9/", Tenant: name}); err != nil {
			t.Fatal(err)
		}
		key, err := c.CreateKey(t.Context(), client.NewKey{Name: "publisher", Scopes: []grapnel.Scope{grapnel.ScopeRead}, Tenant: name})
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = key.Secret
	}
	for name, proxy := range proxies {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			addr, err := process.UnusedAddress()
			if err != nil {
				t.Fatal(err)
			}
			text := strings.NewReplacer("10.1.0.11:8420", servers["eu1"].Addr, "10.2.0.11:8420", servers["us1"].Addr,
				"listen 8080", "listen "+addr, "bind :8080", "bind "+addr).Replace(block(t, string(page), name))
			file := filepath.Join(dir, "proxy.conf")
			fill := strings.NewReplacer("DIR", dir, "FILE", file)
			if err := os.WriteFile(file, []byte(fill.Replace(proxy.before)+text+proxy.after), 0o600); err != nil {
				t.Fatal(err)
			}
			args := make([]string, len(proxy.run))
			for i, arg := range proxy.run {
				args[i] = fill.Replace(arg)
			}
			path, err := exec.LookPath(args[0])
			if err != nil {
				path = "/usr/sbin/" + args[0] // where Debian has them; the path of a user without root rights lacks it
			}
			cmd := exec.Command(path, args[1:]...)
			var said strings.Builder
			cmd.Stdout, cmd.Stderr = &said, &said
			p, err := process.Start(cmd)
			if err != nil {
				t.Fatalf("make needs installs %s: %v", name, err)
			}
			defer p.Kill()
			ask := func(method, path, host, key string) (int, string) {
				rq, _ := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, strings.NewReader(`{"through":"`+name+`"}`))
				rq.Host = cmp.Or(host, rq.Host)
				if key != "" {
					rq.Header.Set("Authorization", "Bearer "+key)
				}
				resp, err := http.DefaultClient.Do(rq)
				if err != nil {
					return 0, err.Error()
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				return resp.StatusCode, string(body)
			}
			if err := process.Until(t.Context(), 20*time.Second, func() (bool, error) {
				status, _ := ask("GET", "/livez", "", "")
				return status == 200, nil
			}); err != nil {
				t.Fatalf("%v\n%s", err, &said)
			}
			for installation, key := range keys {
				if status, body := ask("GET", "/v1/endpoints", "", key); status != 200 || !strings.Contains(body, `"tenant":"`+installation+`"`) {
					t.Errorf("the key of %s: %d %s", installation, status, body)
				}
			}
			for host, want := range map[string]int{"us1.hooks.example.com": 202, "eu1.hooks.example.com": 404, "": 404} {
				if status, body := ask("POST", "/in/"+source, host, ""); status != want {
					t.Errorf("a webhook for us1 at host %q: %d %s", host, status, body)
				}
			}
			if status, _ := ask("POST", "/peer", "", ""); status != 404 {
				t.Errorf("/peer: %d", status)
			}
		})
	}
}
