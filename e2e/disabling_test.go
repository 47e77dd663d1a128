//go:build linux && prove

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// patient is an endpoint that can be told to refuse its deliveries. Two other endpoints of its
// tenant get operational events about it: one subscribes to them, one takes every event.
type patient struct {
	t       *testing.T
	child   *child
	id      string
	answer  atomic.Int64 // status of its answers from now on
	site    *site
	watcher *site // subscribes to operational events about endpoints
	all     *site // has no filter
	sent    int
}

func newPatient(t *testing.T, network string, policy map[string]any) *patient {
	t.Helper()
	p := &patient{t: t, child: newChild(t, program{}, t.TempDir()), site: newSite(), watcher: newSite(), all: newSite()}
	p.child.start()
	p.child.ready(30 * time.Second)
	p.site.keeps, p.watcher.keeps, p.all.keeps = true, true, true
	p.answer.Store(http.StatusOK)
	p.site.pick = func(*visit) (way, bool) { return way{status: int(p.answer.Load())}, true }
	address := func(host int, s *site) string {
		return "http://" + newDoor(t, fmt.Sprintf("%s.%d", network, host), s).addr + "/"
	}
	p.id, _ = p.child.endpoint(address(1, p.site), map[string]any{"policy": policy})
	p.child.endpoint(address(2, p.watcher), map[string]any{"event_types": []string{"webhook_endpoint.*"}})
	p.child.endpoint(address(3, p.all), nil)
	return p
}

// payleraLike disables as the preset paylera does, after fewer deliveries. Second attempts come too
// late for a test, so only first ones are examined.
func payleraLike(consecutive int, pending string) map[string]any {
	return map[string]any{"timeout": "10s", "jitter": 0, "max_attempts": 9,
		"schedule": map[string]any{"mode": "since_previous", "delays": []string{"0s", "10m", "30m", "2h", "6h", "12h", "24h", "24h", "24h"},
			"tail": "stop"},
		"classify": map[string]string{"400": "fail"},
		"disable":  map[string]any{"consecutive": consecutive, "of": "status_4xx", "after": "0s", "pending": pending}}
}

// send publishes n events, each with a key of its own.
func (p *patient) send(n int) {
	p.t.Helper()
	for range n {
		p.sent++
		p.publish(fmt.Sprintf("e-k%d-1", p.sent), fmt.Sprintf("k%d", p.sent))
	}
}

func (p *patient) publish(id, key string) {
	p.t.Helper()
	e := newEvent{ID: id, Type: "order.placed", Key: key, Data: json.RawMessage(`{}`)}
	p.child.must(http.StatusAccepted, http.MethodPost, "/v1/events", e.encode(), nil)
}

// attempted waits until every event sent so far has been attempted.
func (p *patient) attempted() {
	p.t.Helper()
	eventually(p.t, 20*time.Second, "every event has been attempted", func() bool {
		for _, r := range p.rows("") {
			if r.Attempts == 0 && !r.Status.Final() {
				return false
			}
		}
		return true
	})
}

func (p *patient) rows(status string) []row {
	p.t.Helper()
	q := url.Values{"endpoint": {p.id}}
	if status != "" {
		q.Set("status", status)
	}
	return p.child.rows(q)
}

func (p *patient) status() string {
	p.t.Helper()
	var ep struct{ Status string }
	p.child.must(http.StatusOK, http.MethodGet, "/v1/endpoints/"+p.id, nil, &ep)
	return ep.Status
}

func (p *patient) becomes(status string) {
	p.t.Helper()
	eventually(p.t, 10*time.Second, "the endpoint is "+status, func() bool { return p.status() == status })
}

func (p *patient) enable() {
	p.t.Helper()
	p.child.must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+p.id, map[string]any{"status": "enabled"}, nil)
}

func (p *patient) kill() {
	p.t.Helper()
	p.child.kill()
	p.child.start()
	p.child.ready(30 * time.Second)
}

// news counts the distinct operational events of each type that a site got about endpoints.
func (p *patient) news(s *site) map[string]int {
	p.t.Helper()
	told := map[string]map[string]bool{}
	for _, v := range s.seen(0) {
		var e struct {
			ID, Type string
			Data     struct {
				EndpointID string `json:"endpoint_id"`
				Tenant     string `json:"tenant"`
				Reason     string `json:"reason"`
			}
		}
		if err := json.Unmarshal(v.body, &e); err != nil {
			p.t.Errorf("a body cannot be read: %v", err)
		}
		if !grapnel.Operational(e.Type) {
			continue
		}
		if e.Data.EndpointID != p.id || e.Data.Tenant != "default" || e.Data.Reason == "" && e.Type != grapnel.EventEndpointEnabled {
			p.t.Errorf("the news say little: %s", v.body)
		}
		name := strings.TrimPrefix(e.Type, "webhook_endpoint.")
		if told[name] == nil {
			told[name] = map[string]bool{}
		}
		told[name][e.ID] = true
	}
	counts := map[string]int{}
	for name, ids := range told {
		counts[name] = len(ids)
	}
	return counts
}

// told checks the operational events so far: each exactly once at each of the other two endpoints,
// and none at the endpoint that it is about.
func (p *patient) told(want map[string]int) {
	p.t.Helper()
	same := func(s *site) bool { return fmt.Sprint(p.news(s)) == fmt.Sprint(want) }
	if !poll(p.t.Context(), 10*time.Second, 50*time.Millisecond, func() bool { return same(p.watcher) && same(p.all) }) {
		p.t.Errorf("the others were told %v and %v; it should be %v", p.news(p.watcher), p.news(p.all), want)
	}
	if about := p.news(p.site); len(about) > 0 {
		p.t.Errorf("the endpoint was told about itself: %v", about)
	}
}

// The count towards disabling is exact, survives kills, and is reset by a single success. Pending
// deliveries are dropped on record. The tenant's other endpoints are notified once of every change.
func TestDisablingCountsThroughKills(t *testing.T) {
	beside(t, busy)
	const most = 20
	p := newPatient(t, "127.0.7", payleraLike(most, "drop"))
	defer func() {
		for _, r := range p.rows("") {
			if t.Failed() {
				t.Logf("%s of %s: %s after %d attempts", r.ID, r.EventID, r.Status, r.Attempts)
			}
		}
	}()
	p.send(1)
	p.attempted()

	p.answer.Store(http.StatusNotFound)
	for n := range most - 1 {
		p.send(1)
		if n%5 == 2 { // about when the outcome and its operational event are recorded
			before := len(p.site.seen(0))
			poll(t.Context(), time.Second, time.Millisecond, func() bool { return len(p.site.seen(0)) > before })
			pause(t.Context(), time.Duration(n%4)*time.Millisecond)
			p.kill()
		}
	}
	p.attempted()
	if status := p.status(); status != "enabled" {
		t.Fatalf("after %d failures in a row it is %s", most-1, status)
	}
	p.told(map[string]int{"failing": 2})
	// An operator's retry does not add to the count, whatever its outcome.
	head := p.rows("pending")[0]
	p.child.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+head.ID+"/retry", nil, nil)
	eventually(t, 10*time.Second, "the retry was made", func() bool { return len(of(p.site.seen(0), head.EventID)) > 1 })
	// A single success resets the count.
	p.answer.Store(http.StatusOK)
	p.send(1)
	p.attempted()
	p.answer.Store(http.StatusNotFound)
	p.told(map[string]int{"failing": 2, "recovered": 1})
	p.send(most - 1)
	p.attempted()
	if status := p.status(); status != "enabled" {
		t.Fatalf("%d failures, a success and %d failures: it is %s", most-1, most-1, status)
	}
	p.kill()
	p.send(1)
	p.becomes("disabled")
	p.told(map[string]int{"failing": 4, "recovered": 1, "disabled": 1})
	eventually(t, 10*time.Second, "what waited is dropped", func() bool { return len(p.rows("pending"))+len(p.rows("held")) == 0 })
	p.kill()
	p.send(3)
	// The success made due what waited: on a busy machine some of it came before the answers were
	// 404 again.
	eventually(t, 10*time.Second, "all else is on record as dropped", func() bool {
		dropped := len(p.rows("dropped"))
		return dropped+len(p.rows("delivered")) == p.sent && dropped >= most+3
	})

	arrived := len(p.site.seen(0))
	p.answer.Store(http.StatusOK)
	p.enable()
	p.told(map[string]int{"failing": 4, "recovered": 1, "disabled": 1, "enabled": 1})
	p.send(1)
	eventually(t, 10*time.Second, "it gets what is new", func() bool { return len(p.site.seen(0)) > arrived })
	p.answer.Store(http.StatusNotFound)
	p.send(most - 1)
	p.attempted()
	p.kill()
	if status := p.status(); status != "enabled" {
		t.Errorf("after being enabled again and %d failures it is %s", most-1, status)
	}
	if n := len(p.site.seen(0)) - arrived; n > most+5 {
		t.Errorf("after being enabled it got %d requests for %d events: what was dropped came as well", n, most)
	}
	p.audited(map[string]int{"create": 3, "retry": 1, "disable": 1, "enable": 1})
}

// audited counts the audit's entries by verb. The server's own actions are in it under its own
// name.
func (p *patient) audited(want map[string]int) {
	p.t.Helper()
	got := map[string]int{}
	for _, e := range p.child.audit(nil) {
		if strings.HasPrefix(e.EndpointID, "key_") {
			continue // the key that the server created at its first start
		}
		got[e.Verb]++
		if by := e.Actor == grapnel.ActorItself; by != (e.Verb == "disable") {
			p.t.Errorf("%s was done by %s", e.Verb, e.Actor)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.t.Errorf("the audit has %v; it should be %v", got, want)
	}
}

// An endpoint whose policy holds gets the events published while it was disabled, in order, once it
// is enabled again. A delivery that failed before is attempted when it is due. No attempt is made
// in between, not even after a kill.
func TestDisabledHoldsAndDrainsInOrder(t *testing.T) {
	beside(t, light)
	p := newPatient(t, "127.0.8", payleraLike(5, "hold"))
	p.answer.Store(http.StatusNotFound)
	p.send(5)
	p.becomes("disabled")
	const keys, each = 20, 5
	if err := p.child.publishMany(t.Context(), numbered("held", "h", keys, 1, each)); err != nil {
		t.Fatal(err)
	}
	arrived := len(p.site.seen(0))
	p.kill()
	pause(t.Context(), time.Second)
	if n := len(p.site.seen(0)); n != arrived {
		t.Errorf("%d requests came although it is disabled", n-arrived)
	}
	eventually(t, 10*time.Second, "all of it is held", func() bool { return len(p.rows("held")) == 5+keys*each })
	p.answer.Store(http.StatusOK)
	p.enable()
	eventually(t, 30*time.Second, "what was held is delivered", func() bool { return len(p.rows("delivered")) == keys*each })
	for _, wrong := range p.site.disorder(1) {
		t.Error(wrong)
	}
	eventually(t, 10*time.Second, "what failed before waits for its own time", func() bool { return len(p.rows("pending")) == 5 })
	p.told(map[string]int{"failing": 1, "disabled": 1, "enabled": 1}) // of five, four are less than 90 %
}

// A 410 disables at once, and there is one operational event per dead letter.
func TestGoneDisablesAtOnce(t *testing.T) {
	beside(t, light)
	p := newPatient(t, "127.0.9", payleraLike(100, "hold"))
	p.answer.Store(http.StatusBadRequest) // this policy takes it for permanent
	p.send(3)
	eventually(t, 10*time.Second, "they have failed", func() bool { return len(p.rows("failed")) == 3 })
	p.told(map[string]int{"delivery_failed": 3})
	p.answer.Store(http.StatusGone)
	p.send(1)
	p.becomes("disabled")
	p.told(map[string]int{"delivery_failed": 4, "disabled": 1})
	p.audited(map[string]int{"create": 3, "disable": 1})
}
