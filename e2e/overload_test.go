//go:build linux && prove

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// A tenant may have a limited number of pending deliveries. Beyond it publishes are answered with
// 429 and Retry-After, singly and in batches, also after a kill. Another tenant is unaffected. No
// accepted event is lost, no refused one arrives, and below the limit everything is accepted again.
func TestTenantQuota(t *testing.T) {
	beside(t, busy)
	const quota, publishers = 200, 8
	c := newChild(t, program{flag: []string{"--max-pending", strconv.Itoa(quota)}}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	full, other := newSite(), newSite()
	door := newDoor(t, "127.0.12.1", full)
	door.shut()
	id, _ := c.endpoint("http://"+door.addr+"/", map[string]any{"policy": map[string]any{"jitter": 0, "max_attempts": 9,
		"schedule": map[string]any{"mode": "since_previous", "delays": []string{"0s", "1h"}, "tail": "repeat"},
		"breaker":  map[string]any{"failures": 3, "ratio": 1, "window": "30s", "probe": "1h", "probe_max": "1h"}}})
	c.endpoint("http://"+newDoor(t, "127.0.12.2", other).addr+"/", map[string]any{"tenant": "other"})

	event := func(tenant string, publisher, n int) newEvent {
		return newEvent{ID: fmt.Sprintf("q-%s%d-%d", tenant, publisher, n), Type: "note.added", Key: fmt.Sprintf("%s%d", tenant, publisher),
			Data: json.RawMessage(`{}`), Tenant: tenant}
	}
	// publish says whether the event was accepted. Any answer but 202 and a proper refusal fails the
	// test.
	publish := func(e newEvent) bool {
		status, body, header, err := c.as(t.Context(), adminKey, http.MethodPost, "/v1/events", e.encode())
		if err == nil && status == http.StatusAccepted {
			return true
		}
		var problem struct{ Code string }
		seconds, absent := strconv.Atoi(header.Get("Retry-After"))
		if err != nil || status != http.StatusTooManyRequests || json.Unmarshal(body, &problem) != nil || problem.Code != "quota" ||
			absent != nil || seconds < 1 {
			t.Errorf("beyond the quota publishing was answered %d, %v, Retry-After %q: %s", status, err, header.Get("Retry-After"), body)
		}
		return false
	}
	var mu sync.Mutex
	accepted := map[string]bool{}
	storm := func() (taken, refused int) {
		var wg sync.WaitGroup
		first := len(accepted) + 1
		for p := range publishers {
			wg.Go(func() {
				for n, no := first, 0; no < 5; n++ {
					e := event("default", p, n)
					yes := publish(e)
					mu.Lock()
					if yes {
						taken++
						accepted[e.ID] = true
					} else {
						no++
						refused++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return taken, refused
	}
	taken, refused := storm()
	if taken != quota || refused != 5*publishers {
		t.Errorf("%d of a quota of %d were accepted, %d refused", taken, quota, refused)
	}
	if status, body, header, err := c.as(t.Context(), adminKey, http.MethodPost, "/v1/events/batch",
		fmt.Appendf(nil, `{"events":[%s,%s]}`, event("default", 0, 9001).encode(), event("default", 0, 9002).encode())); err != nil ||
		status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("a batch beyond the quota was answered %d, %v: %s", status, err, body)
	}
	c.kill()
	c.start()
	c.ready(30 * time.Second)
	if taken, _ := storm(); taken != 0 {
		t.Errorf("after a kill %d events were accepted beyond the quota", taken)
	}
	const others = 50
	for n := range others {
		if !publish(event("other", 0, n+1)) {
			t.Error("another tenant's event was refused")
		}
	}
	eventually(t, 10*time.Second, "the other tenant's events have arrived", func() bool { return other.taken() == others })

	door.open()
	eventually(t, 10*time.Second, "its breaker is open", func() bool { return c.health(id).State == "open" })
	c.must(http.StatusOK, http.MethodPost, "/v1/endpoints/"+id+"/probe", map[string]any{"reason": "it is back"}, nil)
	eventually(t, 30*time.Second, "what was accepted has arrived", func() bool { return full.taken() == len(accepted) })
	eventually(t, 10*time.Second, "events are accepted again", func() bool { return publish(event("default", 0, 9999)) })
	accepted[event("default", 0, 9999).ID] = true
	eventually(t, 10*time.Second, "it has arrived", func() bool { return full.taken() == len(accepted) })
	for _, v := range full.seen(0) {
		if !accepted[v.event] {
			t.Errorf("%s was refused, and arrived", v.event)
		}
	}
	eventually(t, 10*time.Second, "as many deliveries are on record as events were accepted", func() bool {
		return len(c.rows(url.Values{"endpoint": {id}, "status": {string(grapnel.Delivered)}})) == len(accepted)
	})
	t.Logf("a quota of %d: %d accepted, %d refused, all accepted ones arrived", quota, len(accepted), refused)
}
