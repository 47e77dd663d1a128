//go:build prove

package server

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// onPostgres are the options of a server with its data in a PostgreSQL of this test.
func onPostgres(t *testing.T) Options {
	t.Helper()
	o, _ := behindProxy(t)
	return o
}

// behindProxy also returns the proxy between the two.
func behindProxy(t *testing.T) (Options, *pgtest.Proxy) {
	t.Helper()
	db := databases(t, "grapnel")
	t.Chdir(t.TempDir()) // the admin key is written here
	o := options("")
	proxy, err := db.NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	o.Store = proxy.URL("grapnel")
	return o, proxy
}

// TestPostgresAway cuts a server off from its database: publishing is answered 503 meanwhile, and
// events published before and after arrive.
func TestPostgresAway(t *testing.T) {
	got := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("webhook-id") }))
	defer receiver.Close()
	o, proxy := behindProxy(t)
	o.AdminKey = testKey
	s := start(t, o)
	c := s.client(t, testKey)
	defer http.DefaultClient.CloseIdleConnections()
	if bytes := (member{running: s}).measured(t, "grapnel_store_bytes"); bytes < 1<<20 {
		t.Errorf("the database has %v bytes", bytes)
	}
	ready := func(want int) func() bool {
		return func() bool { status, _ := page(t, s, "/readyz"); return status == want }
	}
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL}); err != nil {
		t.Fatal(err)
	}
	e := client.NewEvent{Type: "a.b", Key: "k", Data: []byte("{}")}
	first, err := c.Publish(t.Context(), e)
	if err != nil || first.ID != <-got {
		t.Fatal(first, err)
	}
	poll(t, "it is ready", ready(http.StatusOK))
	proxy.Cut(true)
	poll(t, "/readyz answers 503 sooner than a lease ends, with nothing published", ready(http.StatusServiceUnavailable))
	var refused *client.Error
	if _, err := c.Publish(t.Context(), e); !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable {
		t.Errorf("without its database: %v", err)
	}
	proxy.Cut(false)
	poll(t, "it is ready again", ready(http.StatusOK))
	var second *client.Published
	poll(t, "publishing works again", func() bool {
		second, err = c.Publish(t.Context(), e)
		return err == nil
	})
	if id := <-got; id != second.ID {
		t.Errorf("%s arrived, not %s", id, second.ID)
	}
}

// TestPostgresThroughAPooler: the URL does not say that PgBouncer gives each transaction another
// connection. Every call works as without it, and the log has no error.
func TestPostgresThroughAPooler(t *testing.T) {
	const senders, each = 8, 25
	var mu sync.Mutex
	got := map[string]bool{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.Header.Get("webhook-id")] = true
	}))
	defer receiver.Close()
	db := databases(t, "grapnel")
	t.Chdir(t.TempDir())
	pooler, err := db.NewPooler(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pooler.Close(); err != nil {
			t.Error(err)
		}
	})
	o := options("")
	o.Store, o.AdminKey = pooler.URL("grapnel"), testKey
	o.MasterKey, _ = masterFile(t, "a")
	var logged bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if found, err := Migrate(t.Context(), &o); err != nil || len(found.Steps) == 0 {
		t.Fatalf("migrate: %+v, %v", found, err)
	}
	if found, err := Schema(t.Context(), &o); err != nil || len(found.Steps) != 0 {
		t.Fatalf("migrate status: %+v, %v", found, err)
	}
	s := start(t, o)
	c := s.client(t, testKey)
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for sender := range senders {
		all.Go(func() {
			for range each {
				e := client.NewEvent{Type: "a.b", Key: string(rune('a' + sender)), Data: []byte("{}")}
				published, err := c.Publish(t.Context(), e)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := c.Event(t.Context(), published.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	poll(t, "every event is delivered and recorded", func() bool {
		mu.Lock()
		arrived := len(got)
		mu.Unlock()
		n, err := c.Stats(t.Context(), client.StatsFilter{})
		if err != nil {
			t.Error(err)
			return true
		}
		return arrived == senders*each && n.Totals.Delivered == senders*each
	})
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if logged.Len() > 0 {
		t.Errorf("logged %s", logged.String())
	}
}

// TestPostgresStartsLater starts a server before its database takes connections.
func TestPostgresStartsLater(t *testing.T) {
	o, proxy := behindProxy(t)
	proxy.Cut(true)
	seen := make(chan struct{})
	var once sync.Once
	o.Log = slog.New(slog.NewTextHandler(writer(func(line []byte) {
		if bytes.Contains(line, []byte("database not usable yet")) {
			once.Do(func() { close(seen) })
		}
	}), nil))
	go func() {
		<-seen
		proxy.Cut(false)
	}()
	start(t, o)
	<-seen
}

// writer is a function that takes lines.
type writer func([]byte)

func (w writer) Write(line []byte) (int, error) {
	w(line)
	return len(line), nil
}

func TestPostgresKeepsEverything(t *testing.T) { replayGoesOn(t, onPostgres(t)) }

func TestPostgresMakesAKey(t *testing.T) {
	first := start(t, onPostgres(t))
	notice := first.AdminKey()
	if !notice.Made || notice.Path != filepath.Join("grapnel-data", "admin.key") {
		t.Errorf("the notice is %+v", notice)
	}
	text, err := os.ReadFile(notice.Path)
	if err != nil {
		t.Fatal(err)
	}
	if !opens(t, first, string(text[:len(text)-1])) {
		t.Error("the key in the file should open the server")
	}
}
