package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// A replay continues after a restart at its stored position. The published bodies arrive in their
// order.
func TestReplayGoesOnAfterARestart(t *testing.T) { replayGoesOn(t, options(t.TempDir())) }

func replayGoesOn(t *testing.T, o Options) {
	t.Helper()
	const events, keys = 40, 4
	var mu sync.Mutex
	broken, got := true, map[string][]string{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil || broken:
			w.WriteHeader(http.StatusBadRequest)
		default:
			key := string(body[:2])
			got[key] = append(got[key], r.Header.Get("webhook-id")+" "+string(body))
		}
	}))
	defer receiver.Close()
	o.AdminKey = testKey
	s := start(t, o)
	c := s.client(t, testKey)
	ep, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL, Format: grapnel.FormatRaw,
		Policy: map[string]any{"classify": map[string]string{"4xx": "fail"}, "breaker": false}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for n := range events {
		key, data := fmt.Sprint(10+n%keys), fmt.Sprint(1000+10*n)
		data = key + data // a number that begins with its key
		p, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Key: key, Data: []byte(data)})
		if err != nil {
			t.Fatal(err)
		}
		want[key] = append(want[key], p.ID+" "+data)
	}
	poll(t, "all have failed", func() bool {
		plan, err := c.PlanReplay(t.Context(), ep.ID, client.NewReplay{})
		return err == nil && plan.Total == events && plan.Keys == keys && plan.LongestChain == events/keys
	})
	mu.Lock()
	broken = false
	mu.Unlock()
	replay, err := c.StartReplay(t.Context(), ep.ID, client.NewReplay{Rate: 40, Canary: true})
	if err != nil || replay.Total != events {
		t.Fatal(replay, err)
	}
	poll(t, "some are delivered", func() bool {
		r, err := c.Replay(t.Context(), replay.ID)
		return err == nil && r.Delivered >= 3
	})
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, o)
	c = again.client(t, testKey)
	first, err := c.Replay(t.Context(), replay.ID)
	if err != nil || first.Status != grapnel.ReplayRunning {
		t.Fatal(first, err)
	}
	poll(t, "the replay is completed", func() bool {
		r, err := c.Replay(t.Context(), replay.ID)
		return err == nil && r.Status == grapnel.ReplayCompleted && r.Made == events && r.Delivered == events
	})
	mu.Lock()
	defer mu.Unlock()
	for key := range want {
		if !slices.Equal(got[key], want[key]) {
			t.Errorf("of key %s arrived %q, not %q", key, got[key], want[key])
		}
	}
	if again, err := c.PlanReplay(
		t.Context(),
		ep.ID,
		client.NewReplay{},
	); err != nil || again.Total != 0 ||
		again.Excluded.AlreadyReplayed != events {
		t.Errorf("what is left to replay: %+v, %v", again, err)
	}
}
