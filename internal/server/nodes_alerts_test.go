//go:build prove

package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
)

// chat is a receiver of alerts that counts messages of each alert, repetitions of one event once.
type chat struct {
	mu   sync.Mutex
	seen map[string]bool
	told map[string]int // by alert and type
}

func newChat(t *testing.T) (*chat, string) {
	c := &chat{seen: map[string]bool{}, told: map[string]int{}}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return c, s.URL
}

func (c *chat) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := r.Header.Get("webhook-id"); !c.seen[id] {
		c.seen[id] = true
		c.told[gjson.GetBytes(body, "data.alert_id").String()+" "+gjson.GetBytes(body, "type").String()]++
	}
}

// count is the number of transitions of a type that were told, and of those that were told twice.
func (c *chat) count(kind string) (once, twice int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, n := range c.told {
		switch {
		case key[len(key)-len(kind):] != kind:
		case n == 1:
			once++
		default:
			twice++
		}
	}
	return once, twice
}

const broken = 6 // endpoints that Grapnel disables in the tests of alerts

// disable makes endpoints look as if Grapnel had disabled them, or enabled again.
func (m member) disable(t *testing.T, ids []string, off bool) {
	t.Helper()
	e := m.life.engine
	for _, id := range ids {
		poll(t, "changing an endpoint", func() bool {
			ep, ok := e.Endpoint(store.Everyone(), id)
			ep.Status, ep.DisabledReason = grapnel.EndpointEnabled, ""
			if off {
				ep.Status, ep.DisabledReason = grapnel.EndpointDisabled, "100 deliveries in a row failed"
			}
			_, err := e.PutEndpoint(t.Context(), store.Everyone(), ep, store.With{})
			return ok && err == nil
		})
	}
}

// nearby bounds let alerts fire again at once, and each have a message of its own.
func nearby(every time.Duration) func(*Options) {
	return func(o *Options) {
		o.Bounds.Alerting.Every, o.Bounds.Alerting.Slow = every, every
		o.Bounds.Alerting.Rules = alert.Bounds{Again: time.Nanosecond, Burst: 10_000}
	}
}

// alarmed starts two nodes, a channel of tenant acme, and endpoints that can be disabled.
func alarmed(t *testing.T, every time.Duration) (nodes []member, c *chat, ids []string) {
	t.Helper()
	nodes, _ = members(t, 2, nearby(every))
	poll(t, "two nodes divide the shards", func() bool { return settled(nodes[0].status(t), 2) })
	c, url := newChat(t)
	add := func(e client.NewEndpoint) string {
		e.Tenant = "acme"
		ep, err := nodes[0].CreateEndpoint(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		return ep.ID
	}
	add(client.NewEndpoint{URL: url, EventTypes: []string{grapnel.ChannelPattern}})
	for i := range broken {
		ids = append(ids, add(client.NewEndpoint{URL: fmt.Sprintf("http://127.0.0.1:9/%d", i), EventTypes: []string{"never"}}))
	}
	return nodes, c, ids
}

// told waits until the channel has all transitions, and checks that it has none twice.
func told(t *testing.T, c *chat, fired, resolved int) {
	t.Helper()
	poll(t, fmt.Sprintf("%d alerts that fired and %d that were resolved are told", fired, resolved), func() bool {
		f, again := c.count(grapnel.EventAlertFired)
		r, more := c.count(grapnel.EventAlertResolved)
		if again+more > 0 || f > fired || r > resolved {
			t.Fatalf("%d fired, %d resolved; %d of them more than once", f, r, again+more)
		}
		return f == fired && r == resolved
	})
}

// leads is an engine whose node believes that it evaluates for all.
type leads struct{ *engine.Engine }

func (leads) Leads() bool { return true }

// TestTwoNodesTellEachTransitionOnce: two nodes that evaluate at the same moments commit each
// transition once, with one message.
func TestTwoNodesTellEachTransitionOnce(t *testing.T) {
	nodes, c, ids := alarmed(t, time.Hour) // the nodes' own keepers are quiet
	o := &nodes[0].options
	var both []*alerting.Keeper
	for _, n := range nodes {
		is := n.life
		both = append(both, alerting.New(alerting.Options{Bounds: o.Bounds.Alerting, Engine: leads{is.engine}, Store: is.store, Log: n.log}))
	}
	evaluate := func() {
		var at sync.WaitGroup
		for _, k := range both {
			at.Go(func() {
				for range 3 {
					_ = k.Evaluate(t.Context()) // a conflict is found again by the next round
				}
			})
		}
		at.Wait()
	}
	const rounds = 8
	for i := range rounds {
		nodes[i%2].disable(t, ids, true)
		evaluate()
		nodes[(i+1)%2].disable(t, ids, false)
		evaluate()
	}
	told(t, c, rounds*broken, rounds*broken)
	list, _, err := both[0].List(t.Context(), store.Everyone(), alerting.Query{Limit: 1000})
	if err != nil || len(list) != rounds*broken || slices.ContainsFunc(list, func(a alert.Alert) bool { return len(a.Messages) != 2 }) {
		t.Errorf("%d alerts are stored, %v: %.2000v", len(list), err, list)
	}
}

// TestAlertsOutliveTheirNode: the node that evaluates loses the database in the middle. The other
// one evaluates from then on, and each transition is told once, also after the first is back.
func TestAlertsOutliveTheirNode(t *testing.T) {
	nodes, c, ids := alarmed(t, 20*time.Millisecond)
	first := slices.IndexFunc(nodes, func(m member) bool { return m.life.engine.Leads() })
	if first < 0 {
		t.Fatal("no node leads")
	}
	led, other := nodes[first], nodes[1-first]
	led.disable(t, ids, true)
	told(t, c, broken, 0)
	led.disable(t, ids[:3], false) // it may be told of some of these before the cut
	led.proxy.Cut(true)
	poll(t, "the other node leads", func() bool { return other.life.engine.Leads() && !led.life.engine.Leads() })
	other.disable(t, ids[3:], false)
	told(t, c, broken, broken)
	other.disable(t, ids, true)
	told(t, c, 2*broken, broken)
	led.proxy.Cut(false)
	poll(t, "the first node is back", func() bool { return settled(other.status(t), 2) })
	led.disable(t, ids, false)
	told(t, c, 2*broken, 2*broken)
}

// TestIssuesOfTwoNodes: failures of endpoints that different nodes own, and of those that another
// node has taken over, add up.
func TestIssuesOfTwoNodes(t *testing.T) {
	nodes, _ := members(t, 2, patient)
	poll(t, "two nodes divide the shards", func() bool { return settled(nodes[0].status(t), 2) })
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) }))
	defer refusing.Close()
	const endpoints, each = 8, 5
	for i := range endpoints {
		if _, err := nodes[i%2].CreateEndpoint(t.Context(), client.NewEndpoint{URL: fmt.Sprintf("%s/%d", refusing.URL, i),
			Policy: json.RawMessage(`{"classify":{"4xx":"fail"},"breaker":false}`)}); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(at member) {
		t.Helper()
		for range each {
			if _, err := at.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte("1")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	counted := func(at member, failures int64) {
		t.Helper()
		poll(t, fmt.Sprintf("%d failures are counted", failures), func() bool {
			list, err := at.Issues(t.Context(), client.IssueFilter{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			sum, of := int64(0), map[string]bool{}
			for _, i := range list.Data {
				sum += i.Failures
				of[i.EndpointID] = true
			}
			if sum > failures || len(list.Data) > endpoints {
				t.Fatalf("%d failures in %d issues", sum, len(list.Data))
			}
			return sum == failures && len(of) == endpoints
		})
	}
	publish(nodes[0])
	publish(nodes[1])
	counted(nodes[0], 2*each*endpoints)
	if err := nodes[1].stop(); err != nil { // which stores its counts
		t.Fatal(err)
	}
	publish(nodes[0])
	counted(nodes[0], 3*each*endpoints)
}
