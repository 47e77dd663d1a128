package cells

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// known is a cell's engine, as far as it answers from memory.
type known struct {
	Engine
	keys      map[string]string // tenants by the texts of keys
	sources   map[string]string // tenants by sources
	endpoints map[string]string // tenants by endpoints
	tenancies map[string]grapnel.Tenancy
}

func (k *known) KeyByHash(hash [32]byte) (grapnel.Key, bool) {
	for text, tenant := range k.keys {
		if sha256.Sum256([]byte(text)) == hash {
			return grapnel.Key{ID: "key_" + text, Tenant: tenant}, true
		}
	}
	return grapnel.Key{}, false
}

func (k *known) Source(_ store.Scope, id string) (grapnel.Source, bool) {
	tenant, there := k.sources[id]
	return grapnel.Source{ID: id, Tenant: tenant}, there
}

func (k *known) Endpoint(_ store.Scope, id string) (grapnel.Endpoint, bool) {
	tenant, there := k.endpoints[id]
	return grapnel.Endpoint{ID: id, Tenant: tenant}, there
}

func (k *known) Tenancy(tenant string) (grapnel.Tenancy, bool) {
	t, there := k.tenancies[tenant]
	return t, there
}

func (k *known) Tenants() []string {
	var all []string
	for _, tenant := range k.keys {
		if tenant != "" {
			all = append(all, tenant)
		}
	}
	return all
}

func (k *known) Tenancies() []grapnel.Tenancy {
	var all []grapnel.Tenancy
	for tenant, t := range k.tenancies {
		t.Tenant = tenant
		all = append(all, t)
	}
	return all
}

// is is where a tenant is.
func is(state grapnel.TenancyState, other string) grapnel.Tenancy {
	return grapnel.Tenancy{State: state, Other: other, Move: "mov_1"}
}

// of makes a Directory of cells called home, west and east, one per engine.
func of(engines ...*known) *Directory {
	o := Options{}
	for i, e := range engines {
		o.Cells = append(o.Cells, Cell{Name: []string{"home", "west", "east"}[i], Engine: e})
	}
	return New(o)
}

func token(h http.Header) (string, bool) {
	text, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return text, ok
}

// named is the cell that an error says a tenant is in; empty: it says nothing of the kind.
func named(err error) string {
	var e *grapnel.Error
	if !errors.As(err, &e) || e.Code != grapnel.CodeMoved {
		return ""
	}
	return e.Cell
}

// faces answer with their cell's name and the request: 200 for a path that begins with it, 404 for
// a path with 404 in it; for a tenant in the query, the cell that the Directory says.
func faces(r *Directory) []http.Handler {
	all := make([]http.Handler, len(r.cells))
	for i, c := range r.cells {
		all[i] = http.HandlerFunc(func(w http.ResponseWriter, rq *http.Request) {
			w.Header().Set("X-Face", c.Name)
			body, err := io.ReadAll(rq.Body)
			tenant := rq.URL.Query().Get("tenant")
			switch away := r.Away(c.Name, tenant); {
			case err != nil:
				w.WriteHeader(http.StatusBadRequest)
			case tenant != "" && away != nil:
				w.Header().Set(Header, named(away))
				w.WriteHeader(http.StatusMisdirectedRequest)
			case (strings.HasPrefix(rq.URL.Path, "/only/") || strings.HasPrefix(rq.URL.Path, linkPath)) && path.Base(rq.URL.Path) != c.Name:
				w.Header().Set("X-None", c.Name)
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = fmt.Fprintf(w, "%s: %s", c.Name, body)
		})
	}
	return all
}

func TestRequestsFindTheirCell(t *testing.T) {
	r := of(
		&known{keys: map[string]string{"admin": "", "a": "acme", "m": "moving", "g": "going"},
			sources: map[string]string{"src_a": "acme", "src_m": "moving"},
			tenancies: map[string]grapnel.Tenancy{"initech": is("gone", "west"), "moving": is("sealed", "west"), "far": is("gone", "mars"),
				"going": is("gone", "west"),
				"back":  is("here", "west"), "lost": is("gone", "west"), "twice": is("gone", "west")}},
		&known{keys: map[string]string{"old": "", "i": "initech", "m": "moving", "g": "going"},
			sources: map[string]string{"src_i": "initech", "src_m": "moving"}, endpoints: map[string]string{"ep_i": "initech"},
			tenancies: map[string]grapnel.Tenancy{"initech": is("here", "home"), "moving": is("arrived", "home"), "going": is("arrived",
				"home"), "back": is("gone", "home"),
				"lost": is("gone", "home"), "twice": is("gone", "east")}},
		&known{keys: map[string]string{"e": "eastern"}, tenancies: map[string]grapnel.Tenancy{"eastern": is("here", "home"),
			"twice": is("here", "west")}},
	)
	handler := r.Route(Routing{Faces: faces(r), Token: token, MaxBody: 1 << 10})
	long := strings.Repeat("x", 2<<10)
	for _, c := range []struct {
		what, key, named, method, target, body string
		status                                 int
		face                                   string
	}{
		{"a webhook, by its source", "", "", "POST", "/in/src_i", "1", 200, "west"},
		{"a source that nobody has", "", "", "POST", "/in/src_x", "1", 200, "home"},
		{"a source that two know while its tenant moves", "", "", "POST", "/in/src_m", "1", 200, "home"},
		{"a webhook with a key that means nothing here", "a", "", "POST", "/in/src_i", "1", 200, "west"},
		{"no key", "", "", "GET", "/livez", "", 200, "home"},
		{"no key, and a cell", "", "west", "GET", "/livez", "", 200, "home"},
		{"a key that nobody knows", "nobody's", "west", "GET", "/", "", 200, "home"},
		{"a tenant's key at home", "a", "", "GET", "/", "", 200, "home"},
		{"a tenant's key in another cell", "i", "", "GET", "/", "", 200, "west"},
		{"a tenant's key that two know while it moves", "m", "", "GET", "/", "", 200, "home"},
		{"a tenant's key that two know when the first has let go", "g", "", "GET", "/", "", 200, "west"},
		{"a tenant's key asks nowhere else", "i", "", "GET", "/only/home", "", 404, "west"},
		{"a tenant's key names no cell", "i", "home", "GET", "/", "", 200, "west"},
		{"a key that opens another cell, and not this server", "old", "", "GET", "/", "", 200, "home"},
		{"admin", "admin", "", "POST", "/", "1", 200, "home"},
		{"admin names a cell", "admin", "east", "POST", "/", "1", 200, "east"},
		{"admin names home, and is not sent on", "admin", "home", "GET", "/only/west", "", 404, "home"},
		{"admin names no cell that there is", "admin", "mars", "GET", "/only/west", "", 404, "home"},
		{"admin asks for a tenant at home", "admin", "", "GET", "/?tenant=acme", "", 200, "home"},
		{"admin asks for a tenant elsewhere", "admin", "", "POST", "/?tenant=initech", "the body", 200, "west"},
		{"admin asks for a tenant that has moved twice", "admin", "", "POST", "/?tenant=twice", "the body", 200, "east"},
		{"admin asks for a tenant that came back", "admin", "", "GET", "/?tenant=back", "", 200, "home"},
		{"admin asks for a tenant that is not served here", "admin", "", "GET", "/?tenant=far", "", 421, "home"},
		{"admin asks for a tenant that two send away", "admin", "", "GET", "/?tenant=lost", "", 421, "west"},
		{"admin asks for what another cell has", "admin", "", "GET", "/only/east", "", 200, "east"},
		{"admin changes what another cell has", "admin", "", "PATCH", "/only/west", "the body", 200, "west"},
		{"admin asks for a list about an endpoint elsewhere", "admin", "", "GET", "/?endpoint=ep_i&status=failed", "", 200, "west"},
		{"admin asks for what is below an endpoint elsewhere", "admin", "", "GET", "/v1/endpoints/ep_i/deliveries", "", 200, "west"},
		{"admin asks for a list about a source elsewhere", "admin", "", "GET", "/?source=src_i", "", 200, "west"},
		{"admin asks for a list about an endpoint that nobody has", "admin", "", "GET", "/?endpoint=ep_x", "", 200, "home"},
		{"admin asks for what nobody has", "admin", "", "GET", "/only/mars", "", 404, "home"},
		{"a link whose alert another cell has", "", "", "GET", linkPath + "west", "", 200, "west"},
		{"a link that acknowledges in another cell", "", "", "POST", linkPath + "east", "{}", 200, "east"},
		{"a link that is none", "", "", "GET", linkPath + "mars", "", 404, "home"},
		{"a body that is too long to be kept", "admin", "", "PATCH", "/only/west", long, 404, "home"},
		{"a body that is too long, and right where it came", "admin", "", "PATCH", "/only/home", long, 200, "home"},
	} {
		t.Run(c.what, func(t *testing.T) {
			rq := httptest.NewRequest(c.method, c.target, iotest.OneByteReader(strings.NewReader(c.body)))
			if c.body == "" {
				rq.Body = http.NoBody
			}
			if c.key != "" {
				rq.Header.Set("Authorization", "Bearer "+c.key)
			}
			if c.named != "" {
				rq.Header.Set(Header, c.named)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, rq)
			if got := w.Header().Get("X-Face"); w.Code != c.status || got != c.face || w.Body.String() != c.face+": "+c.body {
				t.Errorf("%s answers %d %q, want %s with %d", got, w.Code, w.Body, c.face, c.status)
			}
			if none := w.Header().Get("X-None"); none != "" && none != c.face {
				t.Errorf("the answer has something of what %s said", none)
			}
		})
	}
}

// A request that a tenant leaves behind while a cell is asked follows it, whether the cell was
// asked for what it has or after home.
func TestARequestFollowsItsTenant(t *testing.T) {
	for _, target := range []string{"/v1/queues/jobs/next", "/v1/endpoints/ep_1"} {
		r := of(&known{keys: map[string]string{"admin": ""}}, &known{endpoints: map[string]string{"ep_1": "acme"}})
		moved := false
		handler := r.Route(Routing{Token: token, MaxBody: 1, Faces: []http.Handler{
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(map[bool]int{false: http.StatusNotFound, true: http.StatusOK}[moved])
			}),
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				moved = true
				w.Header().Set(Header, "home")
				w.WriteHeader(http.StatusMisdirectedRequest)
			}),
		}})
		rq := httptest.NewRequest(http.MethodGet, target, nil)
		rq.Header.Set("Authorization", "Bearer admin")
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, rq); w.Code != http.StatusOK {
			t.Errorf("%s: answered %d", target, w.Code)
		}
	}
}

// A streamed answer is passed on while it is written, once it is known to be the final one.
func TestAnswersAreStreamed(t *testing.T) {
	r := of(&known{keys: map[string]string{"admin": ""}}, &known{})
	told, proceed := make(chan struct{}), make(chan struct{})
	stream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		close(told)
		<-proceed
		_, _ = io.WriteString(w, "end")
	})
	s := httptest.NewServer(r.Route(Routing{Faces: []http.Handler{stream, http.NotFoundHandler()}, Token: token, MaxBody: 1}))
	defer s.Close()
	rq, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	rq.Header.Set("Authorization", "Bearer admin")
	resp, err := s.Client().Do(rq) // returns with the header
	if err != nil {
		t.Fatal(err)
	}
	<-told
	close(proceed)
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.Body.Close() != nil || string(text) != "end" || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("got %q, %v, %v", text, resp.Header, err)
	}
}

// A pass goes to the cell of its tenant; one of all tenants may be anywhere, as a key of all is.
func TestPassesFindTheirCell(t *testing.T) {
	r := of(&known{tenancies: map[string]grapnel.Tenancy{"initech": is("gone", "west")}},
		&known{tenancies: map[string]grapnel.Tenancy{"initech": is("here", "home")}})
	tenants := map[string]string{"of acme": "acme", "of initech": "initech", "of all": ""}
	handler := r.Route(Routing{Faces: faces(r), Token: token, MaxBody: 1 << 10, Pass: func(token string) (string, bool) {
		tenant, valid := tenants[token]
		return tenant, valid
	}})
	for _, c := range []struct{ pass, target, face string }{
		{"of acme", "/", "home"}, {"of initech", "/", "west"}, {"of all", "/", "home"}, {"of all", "/only/west", "west"}, {"of acme", "/only/west", "home"},
		{"none", "/only/west", "home"},
	} {
		rq := httptest.NewRequest(http.MethodGet, c.target, nil)
		rq.Header.Set("Authorization", "Bearer "+c.pass)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, rq)
		if got := w.Header().Get("X-Face"); got != c.face {
			t.Errorf("%+v: answered by %s", c, got)
		}
	}
}

func TestWhereTenantsAre(t *testing.T) {
	home := map[string]grapnel.Tenancy{"closing": is("closing", "west"), "sealed": is("sealed", "west"), "copied": is("sealed",
		"west"), "gone": is("gone", "west"),
		"moved": is("gone", "west"), "back": is("here", "west"), "far": is("gone", "mars"), "again": is("gone",
			"west"), "farther": is("gone", "west")}
	west := map[string]grapnel.Tenancy{"copied": is("arrived", "home"), "gone": is("arrived", "home"), "moved": is("here", "home"),
		"back": is("gone", "home"), "again": is("closing", "home"),
		"farther": {State: "gone", Other: "mars", Move: "mov_1", Since: time.Unix(1, 0)}}
	r := of(&known{tenancies: home, keys: map[string]string{"k": "acme"}}, &known{tenancies: west})
	want := map[string]grapnel.Residence{
		"acme":    {Cell: "home", State: "here"},
		"nobody":  {Cell: "home", State: "here"},
		"closing": {Cell: "home", State: "closing", To: "west"},
		"sealed":  {Cell: "home", State: "sealed", To: "west"},
		"copied":  {Cell: "home", State: "arrived", To: "west"},
		"gone":    {Cell: "west", State: "arrived", From: "home"},
		"moved":   {Cell: "west", State: "here", From: "home"},
		"back":    {Cell: "home", State: "here", From: "west"},
		"far":     {Cell: "mars", State: "gone", From: "home"},
		"again":   {Cell: "west", State: "closing", To: "home"},
		"farther": {Cell: "mars", State: "gone", From: "west", Since: time.Unix(1, 0)},
	}
	for tenant, w := range want {
		w.Tenant = tenant
		if tenant != "acme" && tenant != "nobody" {
			w.Move = "mov_1"
		}
		if got := r.Where(tenant); got != w {
			t.Errorf("%s: %+v, want %+v", tenant, got, w)
		}
	}
	all, err := r.List(t.Context())
	if err != nil || len(all) != len(want)-1 {
		t.Fatalf("%d are listed, %v", len(all), err)
	}
	for i, one := range all {
		if i > 0 && all[i-1].Tenant >= one.Tenant {
			t.Errorf("%s comes after %s", one.Tenant, all[i-1].Tenant)
		}
	}
}

// At most one cell says that a tenant is not in another one, except while it is on its way: then
// both keep quiet, and their stores refuse.
func TestAway(t *testing.T) {
	r := of(&known{tenancies: map[string]grapnel.Tenancy{"moved": is("gone", "west"), "on-its-way": is("sealed", "west")}},
		&known{tenancies: map[string]grapnel.Tenancy{"moved": is("here", "home"), "on-its-way": is("arrived", "home")}})
	for _, c := range []struct{ cell, tenant, to string }{
		{"home", "acme", ""}, {"west", "acme", "home"}, {"home", "moved", "west"}, {"west", "moved", ""}, {"home", "on-its-way",
			""}, {"west", "on-its-way", ""},
		{"home", "", ""}, {"west", "", "home"},
	} {
		if to := named(r.Away(c.cell, c.tenant)); to != c.to {
			t.Errorf("%s says that %q is in %q, want %q", c.cell, c.tenant, to, c.to)
		}
	}
}
