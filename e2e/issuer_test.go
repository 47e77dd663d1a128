//go:build linux && prove

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// issuerBinary builds the OpenID Connect issuer of e2e/issuer once per test run.
var issuerBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "issuer")
	return path, process.Link(path, "issuer", ".")
})

// issuerSecret is the secret of the server at the issuer; it must be in no log.
const issuerSecret = "canary of the client secret: +/%"

// staff are the people of the issuer, by the names on the buttons of its sign-in page.
const staff = `{
	"alice": {"email": "alice@corp.example", "groups": ["staff", "grapnel-admins"]},
	"dave":  {"email": "dave@corp.example", "groups": ["grapnel-dev"], "tenant": "acme"},
	"oscar": {"email": "oscar@corp.example", "groups": ["grapnel-ops"], "tenant": "acme"},
	"vera":  {"email": "vera@corp.example", "tenant": "acme"},
	"mute":  {"groups": ["grapnel-ops"]},
	"nemo":  {"email": "nemo@elsewhere.example", "groups": ["grapnel-guests"]}
}`

// staffSettings are the settings of a server on which alice is admin of all tenants, dave
// developer, oscar operator and vera viewer of acme; mute has no tenant and nemo no role.
var staffSettings = []string{
	"--oidc-client-id", "grapnel", "--oidc-name", "Corp ID", "--oidc-tenant-claim", "tenant",
	"--oidc-role", "group=grapnel-admins,tenant=*,role=admin",
	"--oidc-role", "group=grapnel-dev,role=developer",
	"--oidc-role", "group=grapnel-ops,role=operator",
	"--oidc-role", "domain=corp.example,role=viewer",
}

// issuer is a running issuer. Its sign-in page lets anybody be any of the staff, by a button.
type issuer struct {
	t   testing.TB
	url string
	end func()
}

// startIssuer starts an issuer, which ends with the test.
func startIssuer(t testing.TB) *issuer {
	t.Helper()
	path, err := issuerBinary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "-secret", issuerSecret, "-people", staff)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, end: sync.OnceFunc(func() {
		_ = in.Close() // it ends with its standard input
		time.AfterFunc(5*time.Second, cancel)
		_ = cmd.Wait()
		cancel()
	})}
	t.Cleanup(i.end)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var said struct{ Issuer string }
	if err := json.Unmarshal(line, &said); err != nil {
		t.Fatal(err)
	}
	i.url = said.Issuer
	return i
}

// tell changes the issuer.
func (i *issuer) tell(path string, form url.Values) {
	i.t.Helper()
	resp, err := http.PostForm(i.url+path, form)
	if err != nil {
		i.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		i.t.Fatalf("%s: answered %d", path, resp.StatusCode)
	}
}

// serverWithIssuer starts a server whose people sign in with the issuer. Tests with a browser can
// use it as it is: open the server's /login, press "Sign in with Corp ID", then a button with a
// name of staff.
func serverWithIssuer(t testing.TB, i *issuer, more ...string) *child {
	t.Helper()
	return serverWithSecret(t, i, issuerSecret, more...)
}

func serverWithSecret(t testing.TB, i *issuer, secret string, more ...string) *child {
	t.Helper()
	file := filepath.Join(t.TempDir(), "client.secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := program{env: []string{"GRAPNEL_OIDC_CLIENT_SECRET_FILE=" + file, "GRAPNEL_OIDC_ISSUER=" + i.url}}
	p.flag = append(append(p.flag, staffSettings...), more...)
	c := newChild(t, p, t.TempDir())
	c.start()
	c.ready(time.Minute)
	i.tell("/test/redirects", url.Values{"uri": {"http://" + c.addr + "/login/callback"}, "after": {"http://" + c.addr + "/login"}})
	return c
}

// surfer is a browser without scripts: it has cookies, and follows no redirect by itself.
type surfer struct {
	t    testing.TB
	http *http.Client
}

func newSurfer(t testing.TB) *surfer {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &surfer{t, &http.Client{Jar: jar, Transport: transport, CheckRedirect: stay, Timeout: 30 * time.Second}}
}

// ask sends a request: a form is posted. to is the absolute address of a redirect.
func (s *surfer) ask(address string, form url.Values) (status int, to, body string) {
	s.t.Helper()
	method, text := http.MethodGet, ""
	if form != nil {
		method, text = http.MethodPost, form.Encode()
	}
	rq, err := http.NewRequestWithContext(context.Background(), method, address, strings.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	if form != nil {
		rq.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		rq.Header.Set("Origin", rq.URL.Scheme+"://"+rq.URL.Host)
	}
	resp, err := s.http.Do(rq)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if at, err := resp.Location(); err == nil {
		to = at.String()
	}
	return resp.StatusCode, to, string(all)
}

// follow asks for an address that has to redirect.
func (s *surfer) follow(address string, form url.Values) string {
	s.t.Helper()
	status, to, body := s.ask(address, form)
	if to == "" {
		s.t.Fatalf("%s: answered %d without a redirect: %s", address, status, body)
	}
	return to
}

var field = regexp.MustCompile(`name="(request|token)" value="([^"]+)"`)

// toCallback signs in at the issuer and returns the address at which the browser takes the answer
// to the server.
func (s *surfer) toCallback(c *child, person, next string) string {
	s.t.Helper()
	page := s.follow("http://"+c.addr+"/login/start?"+url.Values{"next": {next}}.Encode(), nil)
	page = s.follow(page, nil)
	_, _, body := s.ask(page, nil)
	found := field.FindStringSubmatch(body)
	if found == nil {
		s.t.Fatalf("no sign-in page at %s: %s", page, body)
	}
	at, err := url.Parse(page)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.follow(s.follow(at.Scheme+"://"+at.Host+"/sign-in", url.Values{"request": {found[2]}, "person": {person}}), nil)
}

// signIn signs a person in and returns the page on which the browser arrives.
func (s *surfer) signIn(c *child, person, next string) string {
	s.t.Helper()
	return s.follow(s.toCallback(c, person, next), nil)
}

// act sends the form of an action, with the token of a page.
func (s *surfer) act(c *child, path string, form url.Values) (status int, body string) {
	s.t.Helper()
	_, _, page := s.ask("http://"+c.addr+"/", nil)
	found := field.FindStringSubmatch(page)
	if found == nil {
		s.t.Fatalf("no form on the page: %s", page)
	}
	if form == nil {
		form = url.Values{}
	}
	form.Set("token", found[2])
	status, _, body = s.ask("http://"+c.addr+path, form)
	return status, body
}
