package engine

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/policy"
)

// TestPresetSchedules runs every preset to its end, days of it, through the real HTTP stack in fake
// time. The times expected are the policy's own; package policy holds those against the published
// tables.
func TestPresetSchedules(t *testing.T) {
	for _, p := range policy.Presets() {
		t.Run(p.Name, func(t *testing.T) {
			days(t, func(t *testing.T, b *bench) {
				r := &receiver{then: status(http.StatusServiceUnavailable)}
				b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName = p.Name })
				start := time.Now()
				b.publish("k", 1)
				time.Sleep(200 * time.Hour)
				synctest.Wait()
				d := b.only("ep")
				plan := p.Plan(policy.Progress{Anchor: start, Seed: b.store.IDs().Seed(d.Seq)}, start, 1000)
				got := r.log()
				if len(got) != len(plan) {
					t.Fatalf("%d attempts, planned were %d", len(got), len(plan))
				}
				for i := range got {
					if late := got[i].at.Sub(plan[i].At); late < 0 || late > time.Second {
						t.Errorf("attempt %d at %v, planned for %v", i+1, got[i].at.Sub(start), plan[i].At.Sub(start))
					}
					if fmt.Sprint(i+1) != got[i].attempt {
						t.Errorf("attempt %d says it is number %s", i+1, got[i].attempt)
					}
				}
				if d.AttemptsMade != len(plan) || !d.Status.Final() {
					t.Errorf("it ended as %s after %d attempts: %s", d.Status, d.AttemptsMade, d.Reason)
				}
				if p.OnExhausted == policy.Discard && d.Status != grapnel.Discarded ||
					p.OnExhausted == policy.DeadLetter && d.Status != grapnel.Failed {
					t.Errorf("exhausted, it is %s", d.Status)
				}
			})
		})
	}
}

// TestOrder: while a key's head is retried its followers wait, and other keys flow.
func TestOrder(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var broken sync.Map
		r := &receiver{}
		r.then = func(_ int, w http.ResponseWriter, req *http.Request) {
			if _, bad := broken.Load(req.Header.Get("webhook-id")); bad {
				w.WriteHeader(500)
			}
		}
		b.endpoint("ep", r, nil)
		broken.Store("evt_1", true)
		a, c := b.publish("a", 3), b.publish("c", 3)
		time.Sleep(time.Minute)
		if got := r.ids(); !slices.Equal(slices.DeleteFunc(got, func(id string) bool { return id == a[0] }), c) {
			t.Errorf("the other key got %v, not %v", got, c)
		}
		broken.Delete("evt_1")
		time.Sleep(10 * time.Minute)
		var of []string
		for _, id := range r.ids() {
			if slices.Contains(a, id) {
				of = append(of, id)
			}
		}
		if of = slices.Compact(of); !slices.Equal(of, a) {
			t.Errorf("the key arrived as %v", of)
		}
	})
}

// TestSlowEndpointCostsOthersNothing: one endpoint that hangs on every request, with a backlog, and
// one that answers.
func TestSlowEndpointCostsOthersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, store: memory.New(), net: pipenet.New()}
		b.start(core.Options{Slots: 16})
		defer b.close()
		hang := &receiver{then: func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		quick := &receiver{}
		b.endpoint("hang", hang, func(ep *grapnel.Endpoint) { ep.MaxConcurrency = 100 })
		b.endpoint("quick", quick, nil)
		for i := range 200 {
			b.publish(fmt.Sprintf("k%d", i), 1)
			time.Sleep(50 * time.Millisecond)
		}
		for i, q := range quick.log() {
			if i > 0 && q.at.Sub(quick.log()[i-1].at) > 60*time.Millisecond {
				t.Fatalf("request %d waited %v", i, q.at.Sub(quick.log()[i-1].at))
			}
		}
		if n := len(quick.log()); n != 200 {
			t.Errorf("%d of 200 arrived", n)
		}
	})
}

// TestThrottledEndpointIsSpared: 429 with Retry-After holds all of an endpoint's deliveries until
// then, but not what a person asks for.
func TestThrottledEndpointIsSpared(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{then: func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
		}}
		b.endpoint("ep", r, nil)
		b.publish("a", 1)
		time.Sleep(time.Second)
		b.publish("b", 1)
		time.Sleep(9 * time.Minute)
		if n := len(r.log()); n != 1 {
			t.Fatalf("%d requests while it wants to be spared", n)
		}
		if h := b.health("ep"); h.State != "throttled" {
			t.Errorf("health: %+v", h)
		}
		r.answer(nil)
		if _, err := b.engine.Retry(context.Background(), store.Everyone(), b.deliveries("ep")[1].Seq, grapnel.By{}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := r.log(); len(got) != 2 || got[1].trigger != "manual" {
			t.Errorf("%d requests after a person asked for one", len(got))
		}
		time.Sleep(2 * time.Minute)
		if n := len(r.log()); n != 3 {
			t.Errorf("%d requests after the wait", n)
		}
	})
}

// TestExhaustion: a discarded delivery blocks no key; a blocked one has a reason; the last
// attempt's decision is to fail.
func TestExhaustion(t *testing.T) {
	for name, c := range map[string]struct {
		onExhausted, then string
		status            grapnel.Status
		code              grapnel.ReasonCode
		arrives           bool // the next event of the key
	}{
		"dead letter, advance": {"dead_letter", "advance", grapnel.Failed, grapnel.ReasonExhausted, true},
		"dead letter, block":   {"dead_letter", "block", grapnel.Pending, grapnel.ReasonExhausted, false},
		"discard, block":       {"discard", "block", grapnel.Discarded, grapnel.ReasonNone, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				r := &receiver{then: func(n int, w http.ResponseWriter, _ *http.Request) {
					if n < 2 {
						w.WriteHeader(500)
					}
				}}
				p := parsed(
					t,
					fmt.Sprintf(
						`{"schedule":{"mode":"since_previous","delays":["0s","1s"]},"jitter":0,"max_attempts":2,"on_exhausted":%q,"then":%q}`,
						c.onExhausted,
						c.then,
					),
				)
				b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy = "", p })
				ids := b.publish("k", 2)
				time.Sleep(time.Hour)
				d := b.deliveries("ep")[0]
				if d.Status != c.status || d.ReasonCode != c.code || d.Waiting.Blocked != (c.status == grapnel.Pending) {
					t.Errorf("it is %s (%s), blocked %v: %s", d.Status, d.ReasonCode, d.Waiting.Blocked, d.Reason)
				}
				if got := d.Attempts; got[0].Decision != policy.Retry || got[1].Decision != policy.Fail {
					t.Errorf("decisions: %s, %s", got[0].Decision, got[1].Decision)
				}
				if arrived := slices.Contains(r.ids(), ids[1]); arrived != c.arrives {
					t.Errorf("the next of its key arrived: %v", arrived)
				}
			})
		})
	}
}

// TestEventsThatCannotBeReadAreLoggedSparingly: an outage of the store with many deliveries is a
// few lines, and the next outage begins with one.
func TestEventsThatCannotBeReadAreLoggedSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		b, log := newLoggedBench(t, &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
			if method != "Events" || !away.Load() {
				return memory.Fault{}
			}
			return memory.Fault{Err: io.ErrUnexpectedEOF}
		}})
		b.endpoint("ep", &receiver{}, nil)
		for n := 1; n <= 2; n++ {
			b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
			b.publish("", 100)
			b.engine.events.age()
			b.engine.events.age()
			away.Store(true)
			b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
			time.Sleep(time.Hour)
			away.Store(false)
			time.Sleep(time.Hour)
			lines, begun := log.lines("reading an event failed"), log.lines("reading an event failed", "failures=1 ")
			if len(lines) > 20*n || len(begun) != n || len(b.deliveries("ep")) != 100*n {
				t.Errorf("%d lines, %d of a first failure", len(lines), len(begun))
			}
		}
		b.close()
		for _, d := range b.deliveries("ep") {
			if d.Status != grapnel.Delivered {
				t.Fatalf("%s is %s", d.Key, d.Status)
			}
		}
	})
}
