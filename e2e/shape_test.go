//go:build linux && prove

package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

// TestShapesThroughAKill: while its receiver is down an endpoint's transform is changed, and the
// process is killed. Events accepted before the change are sent in the old shape, later ones in the
// new shape, and each body is signed as it is sent.
func TestShapesThroughAKill(t *testing.T) {
	beside(t, busy)
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(20 * time.Second)
	var mu sync.Mutex
	got, away := map[string][]string{}, true
	verifier, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{shapeSecret}})
	if err != nil {
		t.Fatal(err)
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = verifier.Verify(r.Header, body)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("a request cannot be verified: %v", err)
		}
		id := r.Header.Get("webhook-id")
		got[id] = append(got[id], string(body))
		if away {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(receiver.Close)
	attempts := func(id string) int {
		mu.Lock()
		defer mu.Unlock()
		return len(got[id])
	}
	var made struct{ ID string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/endpoints", map[string]any{
		"url": receiver.URL, "secret": shapeSecret, "transform": `{old: .id, n: .data.n}`,
		"policy": map[string]any{"schedule": map[string]any{"delays": []string{"0s", "300ms"}, "tail": "repeat"}, "max_attempts": 1000,
			"breaker": false, "jitter": 0},
	}, &made)
	send := func(id string) {
		t.Helper()
		c.must(http.StatusAccepted, http.MethodPost, "/v1/events", newEvent{ID: id, Type: "a.b", Data: []byte(`{"n": 1.50}`)}.encode(), nil)
	}
	send("before")
	eventually(t, 20*time.Second, "it was attempted", func() bool { return attempts("before") > 0 })
	c.must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+made.ID, map[string]any{"transform": `{new: .id, n: .data.n}`}, nil)
	send("after")
	eventually(t, 20*time.Second, "both were attempted since", func() bool { return attempts("before") > 2 && attempts("after") > 0 })
	c.kill()
	c.start()
	c.ready(20 * time.Second)
	c.must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+made.ID, map[string]any{"transform": nil, "format": "raw"}, nil)
	send("last")
	mu.Lock()
	away = false
	mu.Unlock()
	first := c.delivered(t, made.ID, 3)
	c.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+first["before"]+"/retry", nil, nil)
	c.delivered(t, made.ID, 4)
	mu.Lock()
	defer mu.Unlock()
	for id, want := range map[string]string{"before": `{"n":1.50,"old":"before"}`, "after": `{"n":1.50,"new":"after"}`,
		"last": `{"n": 1.50}`} {
		if is := slices.Compact(slices.Clone(got[id])); len(is) != 1 || is[0] != want {
			t.Errorf("%s was sent as %s, want %s", id, strings.Join(is, " and "), want)
		}
	}
}

// shapeSecret signs the requests to the test. It is made up.
const shapeSecret = sign.SymmetricPrefix + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
