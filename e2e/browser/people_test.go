//go:build linux

package browser

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// staff are the people of the issuer, by the names on the buttons of its sign-in page.
const staff = `{"oscar": {"email": "oscar@corp.example", "groups": ["ops"], "tenant": "acme"}, "vera": {"email": "vera@corp.example", "tenant": "acme"}}`

// startIssuer starts the certified OpenID Connect issuer of e2e/issuer, which ends with the test.
func startIssuer(t *testing.T, secret string) (address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "issuer")
	if err := process.Link(path, "../issuer", "."); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-secret", secret, "-people", staff)
	in, out := ok(cmd.StdinPipe())(t), ok(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends with its standard input
		_ = cmd.Wait()
	})
	var said struct{ Issuer string }
	if err := json.Unmarshal(ok(bufio.NewReader(out).ReadBytes('\n'))(t), &said); err != nil {
		t.Fatal(err)
	}
	return said.Issuer
}

// TestPeopleSignInWithTheirIssuer: a person signs in by two clicks, sees the name and the role, and
// has what the role has: an operator sees payloads and may pause, a viewer does neither.
func TestPeopleSignInWithTheirIssuer(t *testing.T) {
	t.Parallel()
	const secret = "secret of the client"
	issuer := startIssuer(t, secret)
	file := filepath.Join(t.TempDir(), "client.secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveWith(t, []string{"GRAPNEL_OIDC_CLIENT_SECRET_FILE=" + file}, "--oidc-issuer", issuer, "--oidc-client-id", "grapnel", "--oidc-name", "Corp ID",
		"--oidc-tenant-claim", "tenant", "--oidc-role", "group=ops,role=operator", "--oidc-role", "domain=corp.example,role=viewer")
	form := url.Values{"uri": {s.url() + "/login/callback"}, "after": {s.url() + "/login"}}
	_ = ok(http.PostForm(issuer+"/test/redirects", form))(t).Body.Close() //nolint:noctx // loopback
	acme, globex := newCustomer(t, s, "acme"), newCustomer(t, s, "globex")

	for _, person := range []struct {
		name, role string
		payload    bool
	}{{"oscar", "operator", true}, {"vera", "viewer", false}} {
		p := openTab(t, s.url())
		p.allow("another host: " + issuer)
		p.allow("status of 404.*" + issuer)
		p.visit("/events/" + acme.evt)
		p.leaves(func() { p.click("a.btn", "Sign in with Corp ID") })
		p.leaves(func() { p.click("button", person.name) })
		p.until("the person arrives where the way began", `location.pathname === %s`, "/events/"+acme.evt)
		p.click("nav summary", "More")
		p.sees(person.name)
		p.sees(person.role)
		if seen := value[bool](p, `document.documentElement.innerHTML.includes("payload of acme")`); seen != person.payload {
			t.Errorf("%s sees the payload: %v", person.name, seen)
		}
		p.visit("/endpoints/" + acme.ep)
		if may := value[bool](p, `[...document.querySelectorAll("button")].some(b => /Resume|Pause/.test(b.innerText))`); may != person.payload {
			t.Errorf("%s is offered to pause: %v", person.name, may)
		}
		p.allow("status of 404")
		p.visit("/endpoints/" + globex.ep)
		if strings.Contains(p.words(), globex.secret) {
			t.Errorf("%s sees another tenant", person.name)
		}
	}
}
