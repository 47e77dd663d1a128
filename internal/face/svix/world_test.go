package svix_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/server"
)

// all is a server that serves the API of Svix, and a receiver.
var all struct {
	admin    client.Options
	receiver receiver
}

// receiver notes requests by path. It refuses those to a path that begins with /refuses, until it
// is repaired.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	repaired bool
	got      map[string][]request
}

type request struct {
	http.Header
	body []byte
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, rq *http.Request) {
	body, _ := io.ReadAll(rq.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[rq.URL.Path] = append(r.got[rq.URL.Path], request{rq.Header, body})
	if strings.HasPrefix(rq.URL.Path, "/refuses") && !r.repaired {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "no such thing")
	}
}

func (r *receiver) repair(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.repaired = is
}

func (r *receiver) at(path string) []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[path])
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		stop, err := serve()
		if err != nil {
			fmt.Fprintln(os.Stderr, "the server of the tests:", err)
			return 1
		}
		defer stop()
		return m.Run()
	}())
}

func serve() (stop func(), err error) {
	all.receiver.got = map[string][]request{}
	all.receiver.Server = httptest.NewServer(&all.receiver)
	dir, err := os.MkdirTemp("", "grapnel-svix-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := server.Open(ctx, server.Options{Listen: "127.0.0.1:0", Store: "sqlite:" + filepath.Join(dir, "data", "grapnel.db"),
		SvixAPI: true, EgressAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		cancel()
		return nil, err
	}
	accepts, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func() { close(accepts) }) }()
	<-accepts
	key, err := os.ReadFile(s.AdminKey().Path)
	all.admin = client.Options{Server: s.URL(), Key: strings.TrimSpace(string(key))}
	return func() {
		cancel()
		<-ended
		all.receiver.Close()
		_ = os.RemoveAll(dir)
	}, err
}

// caller sends requests with one key.
type caller struct {
	*testing.T
	key string
}

func asAdmin(t *testing.T) caller { return caller{t, all.admin.Key} }

// bound is a caller whose key is bound to a tenant.
func bound(t *testing.T, tenant string, scopes ...grapnel.Scope) caller {
	t.Helper()
	c, err := client.New(all.admin)
	if err != nil {
		t.Fatal(err)
	}
	key, err := c.CreateKey(t.Context(), client.NewKey{Name: t.Name(), Tenant: tenant, Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return caller{t, key.Secret}
}

// ask sends a request, and returns the status, the header and the answer.
func (c caller) ask(method, path, body string, headers ...string) (int, http.Header, []byte) {
	c.Helper()
	rq, err := http.NewRequestWithContext(c.Context(), method, all.admin.Server+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	if c.key != "" {
		rq.Header.Set("Authorization", "Bearer "+c.key)
	}
	for i := 0; i < len(headers); i += 2 {
		rq.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(rq)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode, resp.Header, text
}

type object = map[string]any

// must fails unless a request is answered with a status, and returns the answer.
func (c caller) must(status int, method, path, body string, headers ...string) object {
	c.Helper()
	is, _, text := c.ask(method, "/api/v1"+path, body, headers...)
	if is != status {
		c.Fatalf("%s %s %s: answered %d %s, want %d", method, path, body, is, text, status)
	}
	var out object
	if len(text) > 0 {
		if err := json.Unmarshal(text, &out); err != nil {
			c.Fatalf("%s %s: answered %s", method, path, text)
		}
	}
	return out
}

// app makes an application with a uid.
func (c caller) app(uid string) string {
	c.Helper()
	return c.must(201, "POST", "/app", `{"name":"App `+uid+`","uid":"`+uid+`"}`)["id"].(string)
}

// eventually waits until something holds. Its limit only ends a test that hangs.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		if holds() {
			return
		}
		<-tick.C
	}
	t.Fatal("it did not happen: " + what)
}

func data(o object) []any { return o["data"].([]any) }

func ids(o object) (all []string) {
	for _, one := range data(o) {
		all = append(all, one.(object)["id"].(string))
	}
	return all
}
