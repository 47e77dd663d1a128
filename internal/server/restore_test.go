//go:build prove

package server

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// TestHoldOnPostgres: a PostgreSQL database that no server uses is held. The server that starts on
// it sends nothing before the endpoint is resumed.
func TestHoldOnPostgres(t *testing.T) {
	var mu sync.Mutex
	works, sent := false, []string{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if !works {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		sent = append(sent, string(body))
	}))
	defer receiver.Close()
	o := onPostgres(t)
	o.AdminKey = testKey
	if _, err := Hold(t.Context(), &o); grapnel.CodeOf(err) != grapnel.CodeNotFound {
		t.Errorf("an empty database: %v", err)
	}
	s := start(t, o)
	c := s.client(t, testKey)
	ep, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Key: "k", Data: json.RawMessage(`1`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	works = true
	mu.Unlock()
	found, err := Hold(t.Context(), &o)
	if err != nil || found.Held != 1 || len(found.Endpoints) != 1 || found.Endpoints[0].Pending != 3 || found.Newest.IsZero() {
		t.Fatalf("%+v, %v", found, err)
	}
	s = start(t, o)
	c = s.client(t, testKey)
	var is *client.Endpoint
	poll(t, "the server owns the endpoint", func() bool {
		if is, err = c.Endpoint(t.Context(), ep.ID); err != nil {
			t.Fatal(err)
		}
		return is.Health.State != "unknown"
	})
	time.Sleep(300 * time.Millisecond) // a server that sent would have begun
	mu.Lock()
	if len(sent) > 0 {
		t.Errorf("while it is held %v was sent", sent)
	}
	mu.Unlock()
	if is.Status != grapnel.EndpointPaused || is.DisabledReason != grapnel.HeldReason || is.Health.State != grapnel.HealthPaused {
		t.Errorf("%+v", is)
	}
	if _, err := c.ResumeEndpoint(t.Context(), ep.ID, "they are ready"); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		mu.Lock()
		n := len(sent)
		mu.Unlock()
		if n == 3 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d of 3 were sent", n)
		}
	}
}
