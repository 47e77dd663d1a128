package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel/internal/cli"
)

func TestCellsAsSettings(t *testing.T) {
	west, east := cli.NamedStore{Name: "west", Store: "postgres://a:b@h1,h2/db?x=1,2"}, cli.NamedStore{Name: "east", Store: "sqlite:/data/east.db"}
	for _, tc := range []struct {
		texts []string
		want  cli.Stores
		wrong bool
	}{
		{[]string{"west=postgres://a:b@h1,h2/db?x=1,2", "east=sqlite:/data/east.db"}, cli.Stores{west, east}, false},
		{[]string{"west=postgres://a:b@h1,h2/db?x=1,2,east=sqlite:/data/east.db"}, cli.Stores{west, east}, false}, // a list of the config file
		{[]string{" west=postgres://a:b@h1,h2/db?x=1,2  east=sqlite:/data/east.db\n"}, cli.Stores{west, east}, false},
		{[]string{"=sqlite:x"}, cli.Stores{{Name: "", Store: "sqlite:x"}}, false}, // for the server to refuse
		{[]string{"postgres://a:hunter2@h/db"}, cli.Stores{{}}, true},
		{[]string{"west=/data/west.db"}, cli.Stores{{}}, true},
		{[]string{"west"}, cli.Stores{{}}, true},
	} {
		var got cli.Stores
		for _, text := range tc.texts {
			if err := got.Set(text); err != nil {
				t.Errorf("%q is refused: %v", text, err)
			}
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%q: %s", tc.texts, d)
		}
		if err := got.Check(); (err != nil) != tc.wrong {
			t.Errorf("%q: %v", tc.texts, err)
		}
		if s := got.String(); strings.Contains(s, ":") {
			t.Errorf("%q is shown as %q", tc.texts, s)
		}
	}
}

// A password is shown nowhere, whatever is wrong with a cell.
func TestCellThatIsWrong(t *testing.T) {
	for _, tc := range []struct{ cell, want string }{
		{"postgres://a:hunter2@h/db", "NAME=STORE"},
		{"We st=postgres://a:hunter2@h/db", "NAME=STORE"},
		{"West=postgres://a:hunter2@h/db", "is not a name"},
		{"home=postgres://a:hunter2@h/db", "home is the cell of --store"},
		{"west=postgres://a:hunter2@h:port/db", "west"},
	} {
		for _, env := range []bool{false, true} {
			args, variables := []string{"serve", "--listen", "127.0.0.1:0", "--store", "sqlite:" + t.TempDir() + "/g.db"}, map[string]string{}
			if env {
				variables["GRAPNEL_CELL"] = tc.cell
			} else {
				args = append(args, "--cell", tc.cell)
			}
			got := invoke(t, variables, "", args...)
			if got.code != 2 || !strings.Contains(got.errs, tc.want) || strings.Contains(got.errs+got.out, "hunter2") {
				t.Errorf("%q as variable %v: %+v", tc.cell, env, got)
			}
		}
	}
}

func tenantIn(cell, state, more string) string {
	return fmt.Sprintf(`{"tenant":"acme","cell":%q,"state":%q,"move":"mov_1","since":"2026-01-02T03:04:05.000000Z"%s}`, cell, state, more)
}

func TestTenantsCommands(t *testing.T) {
	f := newFake(t, always(200, tenantIn("home", "sealed", `,"to":"west","from":null,"rows":1200,"trouble":"the disk is full"`)))
	got := invoke(t, f.env(), "", "tenants", "get", "acme")
	want := "tenant       acme\ncell         home\nstate        sealed\nto           west\nsince        2026-01-02T03:04:05.000000Z\nrows copied  1200\n" +
		"trouble      the disk is full\nmove         mov_1\n"
	if got.code != 0 || got.out != want {
		t.Errorf("%+v", got)
	}
	for _, tc := range []struct {
		args []string
		want request
	}{
		{[]string{"tenants", "list"}, request{"GET", "/v1/tenants?limit=50", "", "grp_env"}},
		{[]string{"tenants", "move", "acme", "--to", "west", "--reason", "it is large", "--yes"},
			request{"POST", "/v1/tenants/acme/move", `{"reason":"it is large","to":"west"}`, "grp_env"}},
		{[]string{"tenants", "stay", "acme", "--reason", "not today"},
			request{"DELETE", "/v1/tenants/acme/move?reason=not+today", "", "grp_env"}},
	} {
		f := newFake(t, always(200, `{"data":[]}`))
		if got := invoke(t, f.env(), "", tc.args...); got.code != 0 {
			t.Errorf("%v: %+v", tc.args, got)
		}
		if d := cmp.Diff([]request{tc.want}, f.seen); d != "" {
			t.Error(d)
		}
	}
	for args, want := range map[string]string{"tenants move acme": "needs --to", "tenants move acme --to west": "--yes"} {
		f := newFake(t, always(200, `{}`))
		if got := invoke(t, f.env(), "", strings.Fields(args)...); got.code != 2 || !strings.Contains(got.errs, want) || len(f.seen) > 0 {
			t.Errorf("%s: %+v, asked %v", args, got, f.seen)
		}
	}
}

// Waiting ends when the tenant is there, or when it has stayed; a server that is away meanwhile is
// waited for.
func TestTenantsMoveWaits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		end, cell string
		code      int
	}{{tenantIn("west", "here", ""), "west", 0}, {tenantIn("home", "here", ""), "home", 1}} {
		n := 0
		f := newFake(t, func(*http.Request) (int, string) {
			switch n++; n {
			case 1:
				return http.StatusAccepted, tenantIn("home", "closing", `,"to":"west"`)
			case 2, 3, 4: // the client tries each call three times
				return http.StatusServiceUnavailable, `{"code":"unavailable","detail":"later"}`
			case 5:
				return http.StatusOK, tenantIn("home", "sealed", `,"to":"west","rows":7`)
			}
			return http.StatusOK, tc.end
		})
		got := invoke(t, f.env(), "", "tenants", "move", "acme", "--to", "west", "--wait", "--yes", "--jq", ".cell")
		if got.code != tc.code || tc.code == 0 && got.out != "west\n" || tc.code != 0 && !strings.Contains(got.errs, "cancelled") {
			t.Errorf("ends in %s: %+v", tc.cell, got)
		}
	}
}

// What a server does not serve is elsewhere, and the command says so.
func TestTenantThatIsElsewhere(t *testing.T) {
	f := newFake(t, always(421,
		`{"code":"moved","status":421,"title":"The tenant is in another cell","detail":"Tenant acme is in cell mars."}`))
	got := invoke(t, f.env(), "", "send", "a.b", "-d", "1")
	if got.code != 3 || !strings.Contains(got.errs, "cell mars") || !strings.Contains(got.errs, "--server") {
		t.Errorf("%+v", got)
	}
}

// The flag says which cell is to answer.
func TestCellIsNamed(t *testing.T) {
	named := ""
	f := newFake(t, func(r *http.Request) (int, string) {
		named = r.Header.Get("Grapnel-Cell")
		return http.StatusOK, `{"data":[]}`
	})
	for _, cell := range []string{"", "west"} {
		if got := invoke(t, f.env(), "", "endpoints", "list", "--cell", cell); got.code != 0 || named != cell {
			t.Errorf("named %q, want %q: %+v", named, cell, got)
		}
	}
}

// The whole of it by commands: a server of two databases, a tenant that is moved, and found where
// it is.
func TestTenantsAgainstTheServer(t *testing.T) {
	db := postgres(t)
	urls := map[string]string{}
	for _, name := range []string{"home", "west"} {
		url, err := db.Create(t.Context(), "cell_"+name)
		if err != nil {
			t.Fatal(err)
		}
		urls[name] = url
	}
	t.Chdir(t.TempDir()) // where the admin key goes
	p := launch(t, map[string]string{"GRAPNEL_ADMIN_KEY": adminKey, "GRAPNEL_STORE": urls["home"], "GRAPNEL_CELL": "west=" + urls["west"],
		"GRAPNEL_EGRESS_ALLOW": "127.0.0.0/8"},
		"serve", "--listen", "127.0.0.1:0")
	env := map[string]string{"GRAPNEL_SERVER": p.url, "GRAPNEL_KEY": adminKey}
	call := func(args ...string) string {
		t.Helper()
		got := invoke(t, env, "", args...)
		if got.code != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
		return strings.TrimSpace(got.out)
	}
	endpoint := call("endpoints", "create", "http://127.0.0.1:9/", "--tenant", "acme", "-o", "name")
	call("endpoints", "pause", endpoint)
	event := call("send", "a.b", "-d", "1", "--tenant", "acme", "-o", "name")

	if got := call("tenants", "move", "acme", "--to", "west", "--wait", "--yes", "--jq", ".cell, .state, .from"); got != "west\nhere\nhome" {
		t.Errorf("it is in %q", got)
	}
	if got := call("tenants", "list", "--jq", ".data[] | .tenant, .cell"); got != "acme\nwest" {
		t.Errorf("listed as %q", got)
	}
	if got := call("endpoints", "list", "--cell", "west", "-o", "name"); got != endpoint {
		t.Errorf("in west there is %q", got)
	}
	if got := call("endpoints", "list", "--cell", "home", "-o", "name") + call("endpoints", "list", "-o", "name"); got != "" {
		t.Errorf("at home there is %q", got)
	}
	if got := call("deliveries", "list", "--endpoint", endpoint, "--jq", ".data[] | .event_id, .status"); got != event+"\nheld" {
		t.Errorf("its deliveries are %q", got)
	}
	if got := call("events", "show", event, "--jq", ".tenant"); got != "acme" {
		t.Errorf("its event is %q", got)
	}
	if home, west := call("cluster", "status", "-o", "name"), call("cluster", "status", "--cell", "west", "-o", "name"); home != west || home == "" {
		t.Errorf("the nodes are %q and %q", home, west)
	}
	if got := call("audit", "--tenant", "acme", "--jq", ".data[] | select(.verb == \"move\").reason"); got != "came from cell home to cell west\nto cell west" {
		t.Errorf("the audit says %q", got)
	}
	for args, code := range map[string]int{"tenants cancel-move acme": 5, "tenants stay acme": 5, "tenants move acme --to west --yes": 5, "tenants move acme --to mars --yes": 2, "endpoints list --cell mars": 2} {
		if got := invoke(t, env, "", strings.Fields(args)...); got.code != code {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := p.stop(); got.code != 0 {
		t.Errorf("%+v", got)
	}
}
