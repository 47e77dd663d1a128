//go:build linux && prove

package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

// TestConsentThroughAKill: events for an address that has not consented wait, also while the
// process is killed. Once the address answers a challenge, all of them arrive in order, and none
// came before.
func TestConsentThroughAKill(t *testing.T) {
	beside(t, busy)
	c := newChild(t, program{flag: []string{"--consent", "required", "--bounds", "consent.every=50ms,consent.first=500ms"}}, t.TempDir())
	c.start()
	c.ready(20 * time.Second)
	verifier, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{shapeSecret}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	agrees, challenges := false, 0
	var got []float64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if _, err := verifier.Verify(r.Header, body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		var in struct {
			Type string
			Data map[string]any
		}
		_ = json.Unmarshal(body, &in)
		mu.Lock()
		defer mu.Unlock()
		switch n, is := in.Data["n"].(float64); {
		case in.Type == "webhook_endpoint.consent":
			if challenges++; agrees {
				_ = json.NewEncoder(w).Encode(map[string]any{"challenge": in.Data["challenge"]})
			}
		case !agrees || !is:
			t.Errorf("before its consent it got %s", body)
		default:
			got = append(got, n)
		}
	}))
	defer server.Close()
	see := func(what string, f func() bool) {
		eventually(t, 30*time.Second, what, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return f()
		})
	}
	var made struct{ ID, Status string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/endpoints", map[string]any{"url": server.URL, "secret": shapeSecret}, &made)
	if made.Status != "paused" {
		t.Fatalf("it is %s", made.Status)
	}
	for n := range 5 {
		c.must(http.StatusAccepted, http.MethodPost, "/v1/events", map[string]any{"type": "note", "key": "k", "data": map[string]any{"n": n}}, nil)
	}
	see("a challenge", func() bool { return challenges > 0 })
	c.kill()
	before := challenges
	c.start()
	c.ready(20 * time.Second)
	c.must(http.StatusAccepted, http.MethodPost, "/v1/events", map[string]any{"type": "note", "key": "k", "data": map[string]any{"n": 5}}, nil)
	see("a challenge after the restart", func() bool { return challenges > before })
	mu.Lock()
	agrees = true
	mu.Unlock()
	see("all events", func() bool { return len(got) == 6 })
	for i, n := range got {
		if n != float64(i) {
			t.Errorf("got %v", got)
		}
	}
}
