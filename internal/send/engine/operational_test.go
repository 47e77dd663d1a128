package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// telling is an operational event as its receiver gets it.
type telling struct {
	kind string
	id   string
	data map[string]any
}

// told returns what an endpoint was told about others, in the order of acceptance.
func (b *bench) told(endpoint string) (all []telling) {
	b.t.Helper()
	for _, d := range b.deliveries(endpoint) {
		if !grapnel.Operational(d.Type) {
			continue
		}
		ev, _, err := b.store.Event(context.Background(), store.Everyone(), "", d.EventID)
		if err != nil {
			b.t.Fatal(err)
		}
		one := telling{kind: d.Type, id: d.EventID}
		if err := json.Unmarshal(
			ev.Data,
			&one.data,
		); err != nil || ev.ContentType != grapnel.JSONType ||
			(ev.Key == "") != (d.Type == grapnel.EventDeliveryFailed) {
			b.t.Fatalf("%+v: %v", ev, err)
		}
		all = append(all, one)
	}
	return all
}

// kinds counts what an endpoint was told.
func (b *bench) kinds(endpoint string) map[string]int {
	b.t.Helper()
	counts := map[string]int{}
	for _, one := range b.told(endpoint) {
		counts[strings.TrimPrefix(one.kind, "webhook_endpoint.")]++
	}
	return counts
}

func (b *bench) knows(endpoint string, want map[string]int) {
	b.t.Helper()
	if got := b.kinds(endpoint); fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Errorf("%s was told %v, not %v", endpoint, got, want)
	}
}

// watcher makes an endpoint that wants only operational events about others.
func (b *bench) watcher(id string, change func(*grapnel.Endpoint)) *receiver {
	b.t.Helper()
	r := &receiver{}
	b.endpoint(id, r, func(ep *grapnel.Endpoint) {
		ep.EventTypes = []string{"webhook_endpoint.*"}
		if change != nil {
			change(ep)
		}
	})
	return r
}

// brief is a policy that gives up after two attempts.
func brief(t *testing.T) func(*grapnel.Endpoint) {
	p := parsed(t, `{"schedule":{"mode":"since_previous","delays":["0s","1s"]},"jitter":0,"max_attempts":2,"breaker":false}`)
	return func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy = "", p }
}

// TestADeadLetterIsTold once, to those who may hear of it and want to, with what they need to find
// it.
func TestADeadLetterIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.endpoint("ep", &receiver{then: status(http.StatusUnprocessableEntity)}, brief(t))
		wants := b.watcher("wants", nil)
		b.endpoint("takes_all", &receiver{}, nil)
		b.watcher("picky", func(ep *grapnel.Endpoint) { ep.EventTypes = []string{"order.*"} })
		b.watcher("filters", func(ep *grapnel.Endpoint) { ep.Filter = `event.data.key == "another"` })
		b.watcher("paused", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
		b.watcher("disabled", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointDisabled })
		b.watcher("foreign", func(ep *grapnel.Endpoint) { ep.Tenant = "other" })
		b.publish("inv_1", 1)
		time.Sleep(time.Hour)

		d := b.only("ep")
		if d.Status != grapnel.Failed {
			t.Fatalf("it is %s", d.Status)
		}
		got := b.told("wants")
		if len(got) != 1 || got[0].kind != grapnel.EventDeliveryFailed {
			t.Fatalf("told: %+v", got)
		}
		want := map[string]any{
			"endpoint_id": "ep",
			"tenant":      "default",
			"reason":      d.Reason,
			"delivery_id": b.store.IDs().Of(&d),
			"event_id":    "evt_1",
			"event_type":  "test.event",
			"key":         "inv_1",
			"attempts":    2.0,
			"reason_code": "exhausted",
		}
		if fmt.Sprint(got[0].data) != fmt.Sprint(want) {
			t.Errorf("it says %v, not %v", got[0].data, want)
		}
		if ids := wants.ids(); !slices.Equal(ids, []string{got[0].id}) || !grapnel.ValidID(got[0].id) {
			t.Fatalf("the receiver got %v", ids)
		}
		if late := wants.log()[0].at.Sub(d.FinishedAt); late > time.Second {
			t.Errorf("it was told %v later", late)
		}
		b.knows("takes_all", map[string]int{"delivery_failed": 1})
		for _, id := range []string{"ep", "picky", "filters", "paused", "disabled", "foreign"} {
			b.knows(id, map[string]int{})
		}
	})
}

// TestABlockedKeyIsTold: it is no dead letter yet, but needs a person.
func TestABlockedKeyIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		p := parsed(t, `{"schedule":{"mode":"since_previous","delays":["0s"]},"jitter":0,"max_attempts":1,"then":"block","breaker":false}`)
		r := &receiver{then: status(422)}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy = "", p })
		b.watcher("w", nil)
		b.publish("k", 1)
		time.Sleep(time.Minute)
		if _, err := b.engine.Retry(context.Background(), store.Everyone(), b.only("ep").Seq, grapnel.By{}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		got := b.told("w")
		if len(got) != 2 || got[0].data["blocked"] != true || got[1].data["attempts"] != 2.0 {
			t.Errorf("told: %v", got)
		}
	})
}

// TestNobodyThereMeansNoEvent: without anybody to tell nothing is stored, and nothing is read for
// it.
func TestNobodyThereMeansNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		reads := 0
		b := newBench(t, &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			if method == "Delivery" {
				reads++
			}
			return memory.Fault{}
		}})
		defer b.close()
		b.endpoint("ep", &receiver{then: status(422)}, brief(t))
		b.watcher("foreign", func(ep *grapnel.Endpoint) { ep.Tenant = "other" })
		b.publish("k", 3)
		time.Sleep(time.Minute)
		evs, err := b.store.EventList(context.Background(), store.Everyone(), store.EventQuery{Limit: 10})
		mu.Lock()
		defer mu.Unlock()
		if err != nil || len(evs) != 3 || reads != 0 {
			t.Errorf("%d events, %d reads, %v", len(evs), reads, err)
		}
	})
}

// TestTwoThatFailDoNotTalkForEver: each gets operational events about the other's dead letters and
// fails on them, which causes no further events.
func TestTwoThatFailDoNotTalkForEver(t *testing.T) {
	for name, c := range map[string]struct {
		policy func(*grapnel.Endpoint)
		told   map[string]int
	}{
		"two attempts": {brief(t), map[string]int{"delivery_failed": 5}},
		// half of five days went by without a success
		"the default policy": {nil, map[string]int{"delivery_failed": 5, "failing": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			days(t, func(t *testing.T, b *bench) {
				for _, id := range []string{"a", "b"} {
					b.endpoint(id, &receiver{then: status(500)}, c.policy)
				}
				b.publish("", 5)
				time.Sleep(200 * time.Hour) // twice as long as the default policy tries
				for _, id := range []string{"a", "b"} {
					b.knows(id, c.told)
					for _, d := range b.deliveries(id) {
						if d.Status != grapnel.Failed {
							t.Errorf("%s is %s", d.Type, d.Status)
						}
					}
				}
			})
		})
	}
}

// TestTellingSurvivesLostAnswers: commits fail before or after they happened, reads fail, the
// engine is restarted in between; every dead letter is told exactly once.
func TestTellingSurvivesLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls := map[string]int{}
		well := false
		faulty := &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			calls[method]++
			n := calls[method]
			switch {
			case well:
			case method == "Record" && n%3 == 0:
				return memory.Fault{Err: errors.New("the answer is lost"), Applied: true}
			case method == "Record" && n%3 == 1, method == "Events" && n%9 == 0:
				return memory.Fault{Err: errors.New("no")}
			}
			return memory.Fault{}
		}}
		b := newBench(t, faulty)
		defer b.close()
		b.endpoint("ep", &receiver{then: status(422)}, brief(t))
		watcher := b.watcher("w", nil)
		const n = 40
		for i := range n {
			b.publish(fmt.Sprintf("k%d", i%7), 1)
			if i%10 == 9 {
				time.Sleep(time.Second)
				b.halt()
				b.start(core.Options{})
			}
		}
		time.Sleep(time.Hour)
		mu.Lock()
		well = true // from here on for the questions of the test
		if calls["Record"] < 20 || calls["Events"] < 9 || calls["Delivery"] > 0 {
			t.Errorf("%v calls", calls)
		}
		mu.Unlock()
		b.knows("w", map[string]int{"delivery_failed": n})
		about := map[any]int{}
		for _, one := range b.told("w") {
			about[one.data["delivery_id"]]++
		}
		got := watcher.ids()
		slices.Sort(got)
		if len(about) != n || len(slices.Compact(got)) != n {
			t.Errorf("they are about %d deliveries, %d of them arrived", len(about), len(got))
		}
	})
}

// bookish counts the reads of events and deliveries.
type bookish struct {
	store.Store
	mu            sync.Mutex
	events, named int // calls of Events; events read together with others
	pages         int // calls of Events for more than one
	deliveries    int
	broken        bool
}

func (s *bookish) Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error) {
	s.mu.Lock()
	s.events++
	if len(seqs) > 1 {
		s.pages++
		s.named += len(seqs)
	}
	broken := s.broken
	s.mu.Unlock()
	if broken {
		return nil, errors.New("this row is damaged")
	}
	time.Sleep(5 * time.Millisecond) // while one read lasts, others can gather
	return s.Store.Events(ctx, seqs)
}

func (s *bookish) Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error) {
	s.mu.Lock()
	s.deliveries++
	s.mu.Unlock()
	return s.Store.Delivery(ctx, scope, seq)
}

// TestDeadLettersAreToldWithoutReading: the engine knows the event when an attempt ends, whichever
// endpoint wants the operational event.
func TestDeadLettersAreToldWithoutReading(t *testing.T) {
	for name, c := range map[string]struct {
		wants string
		told  int
	}{"something else": {"something.else", 0}, "the news": {"webhook_endpoint.*", 300}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &bookish{Store: memory.New()}
				b := newBench(t, s)
				defer b.close()
				b.endpoint("ep", &receiver{then: status(422)}, brief(t))
				b.watcher("w", func(ep *grapnel.Endpoint) { ep.EventTypes = []string{c.wants} })
				b.publish("", 300)
				// The first attempts: one that begins between an event's commit and the moment when
				// its publisher puts it into memory reads it. The second ones, half a second later,
				// make dead letters.
				time.Sleep(500 * time.Millisecond)
				s.mu.Lock()
				s.events, s.deliveries = 0, 0
				s.mu.Unlock()
				time.Sleep(time.Hour)
				s.mu.Lock()
				if s.events+s.deliveries > 0 {
					t.Errorf("%d reads of events, %d of deliveries", s.events, s.deliveries)
				}
				s.mu.Unlock()
				if got := b.kinds("w")["delivery_failed"]; got != c.told {
					t.Errorf("told of %d", got)
				}
			})
		})
	}
}

// outlives is a policy under which deliveries held behind an open circuit end after an hour.
func outlives(t *testing.T) func(*grapnel.Endpoint) {
	p := parsed(
		t,
		`{"jitter":0,"schedule":{"mode":"since_previous","delays":["0s","10m"],"tail":"repeat"},"max_age":"1h","disable":{"after":"0s","consecutive":0}}`,
	)
	return func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy, ep.MaxConcurrency = "", p, 1 }
}

// TestWhatExpiresIsNamedByThePage: of deliveries that end without an attempt after a restart, no
// event is in memory. They are read together, if anybody wants to know.
func TestWhatExpiresIsNamedByThePage(t *testing.T) {
	const n = 100
	for _, wants := range []string{"something.else", "webhook_endpoint.*"} {
		t.Run(wants, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &bookish{Store: memory.New()}
				b := newBench(t, s)
				defer b.close()
				r := &receiver{then: status(500)}
				b.endpoint("ep", r, outlives(t))
				b.watcher("w", func(ep *grapnel.Endpoint) { ep.EventTypes = []string{wants} })
				b.publish("", 10)
				time.Sleep(50 * time.Minute) // probes are rare by now
				b.publish("", n-10)
				b.halt()
				b.start(core.Options{})
				time.Sleep(3 * time.Hour)
				s.mu.Lock()
				events, named, pages, deliveries := s.events, s.named, s.pages, s.deliveries
				s.mu.Unlock()
				told := b.told("w")
				if wants == "something.else" {
					if named > 0 || deliveries > 0 || len(told) > 0 {
						t.Errorf("%d events were named, %d deliveries read, told %v", named, deliveries, told)
					}
					return
				}
				// An attempt after the restart reads its event as well, and so does a delivery that
				// ends at a moment of its own: probes decide how many do.
				if named < n/2 || pages > 4 || events-pages > len(r.log())+n-named || deliveries > 0 {
					t.Errorf("%d reads of events, %d for %d together, %d of deliveries", events, pages, named, deliveries)
				}
				about := map[any]bool{}
				for _, one := range told {
					if one.kind == grapnel.EventDeliveryFailed {
						about[one.data["event_id"]] = true
						if one.data["event_type"] != "test.event" {
							t.Errorf("%v", one.data)
						}
					}
				}
				if len(about) != n {
					t.Errorf("told of %d", len(about))
				}
			})
		})
	}
}

// TestEventsThatCannotBeReadDoNotStopOutcomes: what happened is told without naming the event.
func TestEventsThatCannotBeReadDoNotStopOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &bookish{Store: memory.New()}
		b := newBench(t, s)
		defer b.close()
		b.endpoint("ep", &receiver{then: status(500)}, outlives(t))
		b.watcher("w", nil)
		b.publish("", 30)
		time.Sleep(time.Second)
		b.halt()
		b.start(core.Options{})
		s.mu.Lock()
		s.broken = true
		s.mu.Unlock()
		time.Sleep(3 * time.Hour)
		s.mu.Lock()
		s.broken = false
		s.mu.Unlock()
		ended := 0
		for _, d := range b.deliveries("ep") {
			if d.Status == grapnel.Failed {
				ended++
			}
		}
		if told := b.kinds("w")["delivery_failed"]; ended < 20 || told < ended {
			t.Errorf("%d ended, told of %d", ended, told)
		}
	})
}

// TestTellingFollowsTheConfiguration: an endpoint that was committed behind the engine's back, just
// before a dead letter is, gets the operational event, and later events come after it.
func TestTellingFollowsTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 5
		inner := memory.New()
		var mu sync.Mutex
		var like grapnel.Endpoint
		late := most // endpoints that were made so
		b := newBench(t, &memory.Faulty{Store: inner, Injure: func(method string) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			if method == "Record" && late < most {
				late++
				ep := like
				ep.ID, ep.URL = fmt.Sprintf("late%d", late), fmt.Sprintf("http://late%d.test/", late)
				if _, err := inner.PutEndpoint(context.Background(), store.Everyone(), ep, store.With{}); err != nil {
					t.Error(err)
				}
			}
			return memory.Fault{}
		}})
		defer b.close()
		b.endpoint("ep", &receiver{then: status(422)}, brief(t))
		watcher := b.watcher("w", func(ep *grapnel.Endpoint) { like = *ep })
		receivers := map[string]*receiver{}
		for n := range most {
			id := fmt.Sprintf("late%d", n+1)
			receivers[id] = &receiver{}
			b.net.Handle(id+".test", receivers[id])
		}
		b.publish("k", 2)
		time.Sleep(500 * time.Millisecond)
		mu.Lock()
		late = 0
		mu.Unlock()
		b.publish("k", 1)
		time.Sleep(time.Minute)
		mu.Lock()
		made := late
		mu.Unlock()
		if made != most {
			t.Fatalf("%d endpoints were made behind the engine's back", made)
		}
		b.knows("w", map[string]int{"delivery_failed": 3})
		if n := len(watcher.log()); n != 3 {
			t.Errorf("%d arrived", n)
		}
		var failed []any
		for _, one := range b.told("w") {
			failed = append(failed, one.data["event_id"])
		}
		if fmt.Sprint(failed) != "[evt_1 evt_2 evt_3]" {
			t.Errorf("told in the order %v", failed)
		}
		if got := b.kinds("late1"); got["delivery_failed"] == 0 || len(receivers["late1"].log()) != got["delivery_failed"] {
			t.Errorf("the one that was there before the first dead letter was told %v and got %d", got, len(receivers["late1"].log()))
		}
	})
}
