package engine

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestStatusIsTold: being disabled and being enabled again are told once each, other changes are
// not.
func TestStatusIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		set := func(s grapnel.EndpointStatus, reason string) func(*grapnel.Endpoint) {
			return func(ep *grapnel.Endpoint) { ep.Status, ep.DisabledReason = s, reason }
		}
		b.endpoint("ep", &receiver{}, set(grapnel.EndpointDisabled, "made so"))
		b.watcher("w", nil)
		b.update("ep", set(grapnel.EndpointDisabled, "for another reason"))
		b.knows("w", map[string]int{})
		b.update("ep", set(grapnel.EndpointPaused, ""))
		b.knows("w", map[string]int{"enabled": 1})
		b.update("ep", set(grapnel.EndpointEnabled, ""))
		b.update("ep", set(grapnel.EndpointPaused, ""))
		b.knows("w", map[string]int{"enabled": 1})
		b.update("ep", set(grapnel.EndpointDisabled, "it is of no use"))
		ep, _ := b.engine.Endpoint(store.Everyone(), "ep")
		ep.Status = grapnel.EndpointEnabled
		if _, err := b.engine.PutEndpoint(context.Background(), store.Everyone(), ep, store.With{Audit: &grapnel.AuditEntry{
			At: time.Now(), Tenant: "default", Actor: "key_1", Verb: grapnel.VerbEnable, Endpoint: "ep", Reason: "repaired"}}); err != nil {
			t.Fatal(err)
		}
		if err := b.engine.DeleteEndpoint(context.Background(), store.Everyone(), "ep", grapnel.By{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		b.knows("w", map[string]int{"enabled": 2, "disabled": 1})
		got := b.told("w")
		if got[1].data["reason"] != "it is of no use" || got[1].data["endpoint_id"] != "ep" ||
			!strings.Contains(got[2].data["reason"].(string), "repaired") {
			t.Errorf("told: %v", got)
		}
		b.knows("ep", map[string]int{})
	})
}

// TestStatusIsToldAboutTheConfigurationThatIsThere: one that was committed behind the engine's back
// is found, and the change is made all the same.
func TestStatusIsToldAboutTheConfigurationThatIsThere(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.endpoint("ep", &receiver{}, nil)
		var like grapnel.Endpoint
		b.watcher("w", func(ep *grapnel.Endpoint) { like = *ep })
		like.ID, like.URL = "late", "http://late.test/"
		late := &receiver{}
		b.net.Handle("late.test", late)
		if _, err := b.store.PutEndpoint(context.Background(), store.Everyone(), like, store.With{}); err != nil {
			t.Fatal(err)
		}
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointDisabled })
		time.Sleep(time.Second)
		b.knows("w", map[string]int{"disabled": 1})
		b.knows("late", map[string]int{"disabled": 1})
		if len(late.log()) != 1 {
			t.Errorf("the new one got %d", len(late.log()))
		}
		b.exact("afterwards")
	})
}

// TestDisablingIsToldOnce although its answers are lost, it is refused, and the configuration
// changes behind the engine's back; and Grapnel itself is on record for it.
func TestDisablingIsToldOnce(t *testing.T) {
	for name, disturb := range map[string]func(b *bench, l *losing){
		"undisturbed":        func(*bench, *losing) {},
		"the answer is lost": func(_ *bench, l *losing) { l.set(true, false) },
		"refused at first": func(_ *bench, l *losing) {
			l.set(false, true)
			time.AfterFunc(20*time.Second, func() { l.set(true, false) })
		},
		"stale": func(b *bench, l *losing) {
			ep, _ := b.engine.Endpoint(store.Everyone(), "w")
			ep.Description = "changed by somebody else"
			if _, err := l.Store.PutEndpoint(context.Background(), store.Everyone(), ep, store.With{}); err != nil {
				b.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			losingBubble(t, func(t *testing.T, b *bench, l *losing) {
				r := &receiver{then: status(http.StatusGone)}
				b.endpoint("ep", r, nil)
				watcher := b.watcher("w", nil)
				disturb(b, l)
				b.publish("", 3)
				time.Sleep(5 * time.Minute)
				ep, _ := b.engine.Endpoint(store.Everyone(), "ep")
				if ep.Status != grapnel.EndpointDisabled {
					t.Fatalf("it is %s", ep.Status)
				}
				told := b.kinds("w")
				if told["disabled"] != 1 || len(watcher.log()) != told["disabled"]+told["delivery_failed"] {
					t.Errorf("told %v, of which %d arrived", told, len(watcher.log()))
				}
				entries, err := b.store.AuditList(context.Background(), store.Everyone(), store.AuditQuery{Endpoint: "ep", Limit: 10})
				if err != nil || len(entries) != 1 || entries[0].Actor != grapnel.ActorItself || entries[0].Verb != grapnel.VerbDisable ||
					entries[0].Reason != ep.DisabledReason {
					t.Errorf("on record: %+v, %v", entries, err)
				}
			})
		})
	}
}

// TestADisablingThatARestartInterruptedIsCarriedOut: the outcome that led to it is on record, the
// disabling is not yet; after the restart it is, and it is told once.
func TestADisablingThatARestartInterruptedIsCarriedOut(t *testing.T) {
	losingBubble(t, func(t *testing.T, b *bench, l *losing) {
		r := &receiver{then: status(http.StatusGone)}
		b.endpoint("ep", r, nil)
		b.watcher("w", nil)
		l.set(false, true)
		b.publish("", 1)
		time.Sleep(10 * time.Second)
		b.knows("w", map[string]int{"delivery_failed": 1})
		b.halt()
		l.set(false, false)
		b.start(core.Options{})
		time.Sleep(10 * time.Second)
		if ep, _ := b.engine.Endpoint(store.Everyone(), "ep"); ep.Status != grapnel.EndpointDisabled || len(r.log()) != 1 {
			t.Errorf("it is %s and got %d requests", ep.Status, len(r.log()))
		}
		b.knows("w", map[string]int{"delivery_failed": 1, "disabled": 1})
	})
}

// TestOneAnswerDropsNothing: under a policy that drops pending deliveries, a single 410 ends its
// own delivery and disables. The others are held, through a restart, and so is a new one; they
// arrive once the endpoint is enabled. Refusals in a row drop, as the policy says.
func TestOneAnswerDropsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		restart bool
		gone    bool
		want    map[grapnel.Status]int
	}{
		"one 410":                     {gone: true, want: map[grapnel.Status]int{grapnel.Failed: 1, grapnel.Pending: 20}},
		"one 410 and a restart":       {gone: true, restart: true, want: map[grapnel.Status]int{grapnel.Failed: 1, grapnel.Pending: 20}},
		"a hundred refusals in a row": {want: map[grapnel.Status]int{grapnel.Dropped: 101}},
	} {
		t.Run(name, func(t *testing.T) {
			losingBubble(t, func(t *testing.T, b *bench, l *losing) {
				r := &receiver{then: status(http.StatusNotFound)}
				p, _ := policy.Preset("paylera")
				p.Classify = map[string]policy.Decision{"410": policy.DisableEndpoint}
				b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy = "", p })
				for i := range 19 {
					b.publish(fmt.Sprint("k", i), 1)
				}
				time.Sleep(time.Second)
				if c.gone {
					r.answer(status(http.StatusGone))
					if c.restart {
						l.set(false, true)
					}
					b.publish("gone", 1)
				} else {
					b.publish("", 81)
				}
				time.Sleep(time.Second)
				if c.restart {
					b.halt()
					l.set(false, false)
					b.start(core.Options{})
				}
				time.Sleep(time.Minute)
				b.publish("late", 1)
				time.Sleep(time.Minute)
				got := map[grapnel.Status]int{}
				for _, d := range b.deliveries("ep") {
					got[d.Status]++
					if d.Status == grapnel.Failed && d.ReasonCode != grapnel.ReasonPermanent {
						t.Errorf("the refused one is %s: %s", d.ReasonCode, d.Reason)
					}
				}
				ep, _ := b.engine.Endpoint(store.Everyone(), "ep")
				if !maps.Equal(got, c.want) || ep.Status != grapnel.EndpointDisabled {
					t.Fatalf("it is %s (%s), with %v, want %v", ep.Status, ep.DisabledReason, got, c.want)
				}
				if !c.gone {
					return
				}
				r.answer(status(http.StatusOK))
				b.update("ep", func(ep *grapnel.Endpoint) { ep.Status, ep.DisabledByAnswer = grapnel.EndpointEnabled, false })
				time.Sleep(50 * time.Hour)
				for _, d := range b.deliveries("ep") {
					if d.Status != grapnel.Delivered && d.ReasonCode != grapnel.ReasonPermanent {
						t.Errorf("%d is %s: %s", d.Seq, d.Status, d.Reason)
					}
				}
			})
		})
	}
}

// TestWarningsAreTold: on the way to being disabled at half and shortly before the end, and when it
// is over.
func TestWarningsAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		p := parsed(
			t,
			`{"schedule":{"mode":"since_previous","delays":["0s"]},"jitter":0,"max_attempts":1,"disable":{"consecutive":10},"breaker":false}`,
		)
		r := &receiver{then: status(404)}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy = "", p })
		b.watcher("w", func(ep *grapnel.Endpoint) {
			ep.EventTypes = []string{grapnel.EventEndpointFailing, grapnel.EventEndpointRecovered, grapnel.EventEndpointDisabled}
		})
		b.publish("", 9)
		time.Sleep(time.Minute)
		r.answer(nil)
		b.publish("", 1)
		time.Sleep(time.Minute)
		var got []string
		for _, one := range b.told("w") {
			got = append(got, fmt.Sprint(one.kind, one.data["percent"]))
		}
		if want := "[webhook_endpoint.failing50 webhook_endpoint.failing90 webhook_endpoint.recovered<nil>]"; fmt.Sprint(got) != want {
			t.Errorf("told %v", got)
		}
	})
}
