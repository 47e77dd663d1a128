//go:build linux && prove

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// TestNothingIsRetained: an event type retains none, and the server is killed again and again while
// its events are delivered to two endpoints, one of which refuses them at first. What the events
// contain stays as long as a delivery needs it, and then no file has a byte of it. An event of
// another type stays whole.
func TestNothingIsRetained(t *testing.T) {
	beside(t, light)
	const events = 60
	d := newDice(t)
	var healed atomic.Bool
	whole := atomic.Int64{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/late" && !healed.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case err == nil && len(body) > 20:
			whole.Add(1)
		}
		_, _ = w.Write(body) // an answer repeats the data, and is captured
	}))
	t.Cleanup(receiver.Close)
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	p := &purged{t: t, child: c, marks: map[string]bool{}}
	soon := map[string]any{"policy": map[string]any{"max_attempts": 1000, "schedule": map[string]any{"mode": "since_previous",
		"delays": []string{"0s", "1s"}, "tail": "repeat"}}}
	c.endpoint(receiver.URL+"/now", nil)
	c.endpoint(receiver.URL+"/late", soon)
	c.must(http.StatusCreated, http.MethodPost, "/v1/event-types", map[string]any{"name": "secret.told", "retain": "none"}, nil)
	publish := func(id, kind string) {
		e := newEvent{ID: id, Type: kind, Key: "k" + id[len(id)-1:], Data: json.RawMessage(fmt.Sprintf(`{"mark":"%s"}`, mark(id)))}
		p.marks[mark(id)] = true
		eventually(t, time.Minute, "the event is accepted", func() bool {
			_, refused := c.publish(t.Context(), e)
			return refused == ""
		})
	}
	publish("other", "secret.kept")
	for i := range events {
		publish(fmt.Sprint("none-", i), "secret.told")
		if i%12 == 11 {
			c.kill()
			c.start()
			c.ready(30 * time.Second)
		}
	}
	if found := p.inFiles(); len(found) != events+1 {
		t.Fatalf("%d of %d events are in the files while one endpoint refuses them", len(found), events+1)
	}
	healed.Store(true)
	erased := func() (n int) {
		type event struct {
			Type     string
			ErasedAt *time.Time `json:"erased_at"`
		}
		for _, e := range pages[event](c, "/v1/events", url.Values{"type": {"secret.told"}}, events) {
			if e.ErasedAt != nil {
				n++
			}
		}
		return n
	}
	for range 6 {
		pause(t.Context(), d.between(0, 2*time.Second))
		c.kill()
		c.start()
		c.ready(30 * time.Second)
		t.Logf("after a kill %d of %d events are erased", erased(), events)
	}
	eventually(t, 2*time.Minute, "all are erased", func() bool { return erased() == events })
	eventually(t, time.Minute, "no byte is left", func() bool { return len(p.inFiles()) == 1 })
	if !p.inFiles()[mark("other")] || whole.Load() < 2*events+2 {
		t.Errorf("the files have %v; %d whole requests arrived", p.inFiles(), whole.Load())
	}
	if off := c.metric("grapnel_audit_imbalance"); off != 0 {
		t.Errorf("the books are off by %v", off)
	}
}
