//go:build linux && prove

package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// told is a message of an alert, as a channel of the service "generic" gets it.
type told struct {
	AlertID string `json:"alert_id"`
	Rule    string `json:"rule"`
	State   string `json:"state"`
	EventID string `json:"event_id"`
}

// chat is a service that channels lead to. While it is down it answers 503.
type chat struct {
	down atomic.Bool
	hits atomic.Int64
	mu   sync.Mutex
	got  map[told]int
}

func (c *chat) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.hits.Add(1)
	body, err := io.ReadAll(r.Body)
	var m told
	if err != nil || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if c.down.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got[m]++
}

// transitions are the messages about a rule, each once.
func (c *chat) transitions(rule string) (states []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for m := range c.got {
		if m.Rule == rule {
			states = append(states, m.State)
		}
	}
	return states
}

// TestAlertsThroughKills: an endpoint is disabled while its channel is down, and the server is
// killed when the alert fires and while its message is repeated. Once the channel is up it is told
// of two transitions: the alert fired, and it is resolved.
func TestAlertsThroughKills(t *testing.T) {
	beside(t, light)
	const rule = "endpoint_disabled"
	kills := 1 // the pauses between repetitions grow
	if soak() {
		kills = 3
	}
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	service := &chat{got: map[told]int{}}
	service.down.Store(true)
	var channel struct{ ID string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/channels",
		map[string]any{"url": "generic://" + newDoor(t, "127.0.14.1", service).addr + "/alerts?disabletls=yes"}, &channel)
	s := newSite()
	s.turn(way{status: http.StatusNotFound})
	id, _ := c.endpoint("http://"+newDoor(t, "127.0.14.2", s).addr+"/", map[string]any{"policy": payleraLike(1, "hold")})
	c.must(http.StatusAccepted, http.MethodPost, "/v1/events", newEvent{ID: "e-1", Type: "order.placed", Data: json.RawMessage(`1`)}.encode(),
		nil)

	firing := func() bool {
		var list struct {
			Data []struct {
				Rule    string
				Subject struct{ ID string }
			}
		}
		status, body, err := c.call(t.Context(), http.MethodGet, "/v1/alerts?"+url.Values{"state": {"firing"}}.Encode(), nil)
		if err != nil || status != http.StatusOK || json.Unmarshal(body, &list) != nil {
			return false
		}
		for _, a := range list.Data {
			if a.Rule == rule && a.Subject.ID == id {
				return true
			}
		}
		return false
	}
	eventually(t, 60*time.Second, "the alert fires", firing)
	for range kills {
		c.kill()
		c.start()
		c.ready(30 * time.Second)
		before := service.hits.Load()
		eventually(t, 90*time.Second, "the message is tried again after a kill", func() bool { return service.hits.Load() > before })
	}
	if !firing() {
		t.Error("the alert does not fire after the kills")
	}
	service.down.Store(false)
	eventually(t, 3*time.Minute, "the channel is told", func() bool { return len(service.transitions(rule)) > 0 })
	c.kill()
	c.start()
	c.ready(30 * time.Second)
	c.must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+id, map[string]any{"status": "enabled"}, nil)
	eventually(t, 3*time.Minute, "the channel is told of both transitions", func() bool { return len(service.transitions(rule)) > 1 })
	if states := service.transitions(rule); len(states) != 2 || states[0] == states[1] {
		t.Errorf("the channel was told %v", states)
	}
	t.Logf("%d requests to the channel", service.hits.Load())
}
