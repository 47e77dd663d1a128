package embed_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver of the program's own database

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/embed"
	"github.com/grapnelhq/grapnel/internal/server"
)

// receiver counts what arrives, by its data.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	came map[string]int
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{came: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		var envelope struct{ Data json.RawMessage }
		body, _ := io.ReadAll(q.Body)
		_ = json.Unmarshal(body, &envelope)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.came[string(envelope.Data)]++
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) all() (bodies []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for body := range r.came {
		bodies = append(bodies, body)
	}
	slices.Sort(bodies)
	return bodies
}

// until waits for something that has to happen.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("it did not happen: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// codeOf is the code of an answer of the API.
func codeOf(err error) grapnel.Code {
	if refused, is := errors.AsType[*client.Error](err); is {
		return grapnel.Code(refused.Code)
	}
	return ""
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func open(t *testing.T, o embed.Options) *embed.Grapnel {
	t.Helper()
	o.EgressAllow = loopback
	g, err := embed.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func endpoint(t *testing.T, c *client.Client, url string) string {
	t.Helper()
	ep, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: url, EventTypes: []string{"order.*"}})
	if err != nil {
		t.Fatal(err)
	}
	return ep.ID
}

// TestAPartOfAProgram: a program publishes by a call, serves the API and the dashboard below a path
// of its own, and afterwards a server goes on with its store.
func TestAPartOfAProgram(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "grapnel.db")
	r := newReceiver(t)
	g := open(t, embed.Options{Store: store, PublicURL: "https://shop.example/webhooks"})
	ep := endpoint(t, g.Client(), r.URL)
	id, err := g.Publish(t.Context(), embed.Event{Type: "order.paid", Key: "order_1", Data: []byte(`{"n":1}`)})
	if err != nil || !strings.HasPrefix(id, "evt_") {
		t.Fatalf("%q, %v", id, err)
	}
	until(t, "the event arrives", func() bool { return slices.Equal(r.all(), []string{`{"n":1}`}) })
	if _, err := g.Publish(t.Context(), embed.Event{Type: "not a type", Data: []byte(`{}`)}); codeOf(err) != grapnel.CodeInvalid {
		t.Errorf("an event without a type: %v", err)
	}
	if err := g.PublishTx(t.Context(), nil, embed.Event{}); !errors.Is(err, embed.ErrNoOutbox) {
		t.Errorf("without an outbox: %v", err)
	}

	mux := http.NewServeMux()
	mux.Handle("/webhooks/", g.Handler())
	shop := httptest.NewServer(mux)
	defer shop.Close()
	shop.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for path, want := range map[string]string{"/webhooks/v1/events": "401 ", "/webhooks/": "303 https://shop.example/webhooks/login",
		"/webhooks/readyz": "200 ", "/v1/events": "404 "} {
		resp, err := shop.Client().Get(shop.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Location")); !strings.HasPrefix(want, got) && !strings.HasSuffix(want, strings.TrimPrefix(got, "303 ")) {
			t.Errorf("%s was answered %s, want %s", path, got, want)
		}
	}

	for range 2 {
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Publish(t.Context(), embed.Event{Type: "order.paid", Data: []byte(`{}`)}); codeOf(err) != grapnel.CodeUnavailable {
		t.Errorf("after the end: %v", err)
	}
	moved(t, store, ep)
}

// moved opens a server on the store and looks for the endpoint.
func moved(t *testing.T, store, ep string) {
	t.Helper()
	s, err := server.Open(t.Context(), server.Options{Store: store, Listen: "127.0.0.1:0", AdminKey: "grp_after-it-moved-out"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx, func() {}); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer end()
	c, err := client.New(client.Options{Server: s.URL(), Key: "grp_after-it-moved-out"})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := c.Endpoint(t.Context(), ep); err != nil || found.ID != ep {
		t.Errorf("%v, %v", found, err)
	}
}

// TestTransactions: an event is delivered if and only if the program's transaction commits, in the
// order of the commits, with its bytes as they were.
func TestTransactions(t *testing.T) {
	dir := t.TempDir()
	own, err := sql.Open("sqlite", filepath.Join(dir, "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	if _, err := own.ExecContext(t.Context(), "PRAGMA journal_mode=WAL; CREATE TABLE orders (id TEXT)"); err != nil {
		t.Fatal(err)
	}
	transactions(t, embed.Options{Store: "sqlite:" + filepath.Join(dir, "grapnel.db"), Outbox: "sqlite:" + filepath.Join(dir, "shop.db")}, own, "?")
}

func transactions(t *testing.T, o embed.Options, own *sql.DB, mark string) {
	t.Helper()
	r := newReceiver(t)
	g := open(t, o)
	endpoint(t, g.Client(), r.URL)
	var want []string
	for n := range 10 {
		tx, err := own.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{ "n":%d.0 }`, n)
		_, err = tx.ExecContext(t.Context(), "INSERT INTO orders VALUES ("+mark+")", fmt.Sprint(n))
		err = errors.Join(err, g.PublishTx(t.Context(), tx, embed.Event{Type: "order.paid", Key: "k", Data: []byte(body),
			Metadata: map[string]string{"a": "b"}}))
		if err != nil {
			t.Fatal(err)
		}
		if n%3 == 0 {
			err = tx.Rollback()
		} else if err = tx.Commit(); err == nil {
			want = append(want, body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all arrive", func() bool { return len(r.all()) >= len(want) })
	if got := r.all(); !slices.Equal(got, want) {
		t.Errorf("%q arrived, want %q", got, want)
	}
	tx, err := own.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, wrong := range []embed.Event{{Type: "order.paid", Data: []byte(`{}`), Tenant: "other"}, {Type: "order.paid", Data: []byte(`{}`), AggregateType: "order", AggregateID: "1"}} {
		if err := g.PublishTx(t.Context(), tx, wrong); grapnel.CodeOf(err) != grapnel.CodeInvalid {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	if err := g.PublishTx(t.Context(), tx, embed.Event{Type: "order.paid", Data: []byte(`not JSON`)}); err == nil {
		t.Error("what is not JSON was taken")
	}
}

// TestBadOptions: each fault is named, and nothing runs after it.
func TestBadOptions(t *testing.T) {
	dir := t.TempDir()
	for want, o := range map[string]embed.Options{
		"--store":   {Store: "mysql:x"},
		"PublicURL": {Store: "sqlite:" + filepath.Join(dir, "a.db"), PublicURL: "shop"},
		"Outbox":    {Store: "sqlite:" + filepath.Join(dir, "b.db"), Outbox: "sqlite:relative.db"},
		"absent.db": {Store: "sqlite:" + filepath.Join(dir, "c.db"), Outbox: "sqlite:" + filepath.Join(dir, "absent.db")},
	} {
		if _, err := embed.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want something about %s", o, err, want)
		}
	}
}
