package alerting_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
)

// TestAChannelOfAllTenants: it gets the alerts of every tenant with the tenant's name, once each,
// also after a kill; other channels of the operator do not. Many tenants at once are one digest.
func TestAChannelOfAllTenants(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		w.channel("every", grapnel.OperatorTenant)
		plain, own := w.channel("plain", grapnel.OperatorTenant), w.channel("own", "acme")
		w.change("every", func(ep *grapnel.Endpoint) {
			ep.Channel = &grapnel.Channel{Service: "pagerduty", AllTenants: true, URL: grapnel.Secret{Text: "generic+http://every.test/"}}
		})
		broken := func(tenant string, is bool) {
			id := "ep_" + tenant
			if is {
				w.endpoint(id, nil, func(ep *grapnel.Endpoint) {
					ep.Tenant, ep.EventTypes, ep.Status, ep.DisabledReason = tenant, []string{"order.paid"}, grapnel.EndpointDisabled, "100 failed"
				})
				return
			}
			w.change(id, func(ep *grapnel.Endpoint) { ep.Status, ep.DisabledReason = grapnel.EndpointEnabled, "" })
		}
		sent := func() (all []string) {
			list, err := w.store.EventList(ctx, store.Of(grapnel.OperatorTenant), store.EventQuery{Type: grapnel.ChannelPattern, Limit: 100})
			w.must(err)
			for i := range list {
				_, made, err := w.store.Event(ctx, store.Of(grapnel.OperatorTenant), grapnel.OperatorTenant, list[i].ID)
				w.must(err)
				if len(made) != 1 || made[0].EndpointID != "every" {
					t.Errorf("an event for all tenants has %d deliveries", len(made))
				}
				all = append(all, list[i].Type)
			}
			return all
		}
		time.Sleep(5 * time.Second)
		broken("acme", true)
		broken("umbrella", true)
		time.Sleep(time.Minute)
		w.kill()
		time.Sleep(time.Minute)
		if got := sent(); len(got) != 2 {
			t.Errorf("the operator's events are %v", got)
		}
		if got := titles(own.messages()); got != "ep_acme.test: is disabled" {
			t.Errorf("the tenant's own channel got %s", got)
		}
		open := w.alerts(alerting.Query{State: alert.Firing, Tenant: "acme"})
		if len(open) != 1 || len(open[0].Messages) != 2 || open[0].Messages[0].Operator || !open[0].Messages[1].Operator {
			t.Fatalf("open are %+v", open)
		}
		for _, m := range open[0].Messages {
			if made, _, err := w.keeper.Message(ctx, store.Everyone(), &open[0], m); err != nil || len(made) != 1 ||
				made[0].EndpointID != map[bool]string{false: "own", true: "every"}[m.Operator] {
				t.Errorf("the message %+v has the deliveries %+v, %v", m, made, err)
			}
		}
		broken("acme", false)
		broken("umbrella", false)
		time.Sleep(2 * time.Minute)
		if got := sent(); len(got) != 4 {
			t.Errorf("after the end the operator's events are %v", got)
		}
		for i := range 40 {
			broken(fmt.Sprintf("tenant%d", i), true)
		}
		time.Sleep(2 * time.Minute)
		digests := 0
		for _, kind := range sent() {
			if kind == grapnel.EventAlertDigest {
				digests++
			}
		}
		if all := len(sent()); all > 4+5+2 || digests == 0 {
			t.Errorf("40 tenants at once are %d messages, of which %d digests", all-4, digests)
		}
		if got := plain.messages(); len(got) != 0 {
			t.Errorf("the channel about the server got %v", got)
		}
	})
}

// TestTheTenantInATitle: messages of a channel of all tenants say whose alert it is.
func TestTheTenantInATitle(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		w.channel("every", grapnel.OperatorTenant)
		w.change("every", func(ep *grapnel.Endpoint) {
			ep.Channel = &grapnel.Channel{Service: "generic", AllTenants: true, URL: grapnel.Secret{Text: "generic+http://every.test/"}}
		})
		w.disabled(1)
		time.Sleep(time.Minute)
		list, err := w.store.EventList(ctx, store.Of(grapnel.OperatorTenant), store.EventQuery{Type: grapnel.ChannelPattern, Limit: 10})
		w.must(err)
		if len(list) != 1 {
			t.Fatalf("%d events", len(list))
		}
		ev, made, err := w.store.Event(ctx, store.Of(grapnel.OperatorTenant), grapnel.OperatorTenant, list[0].ID)
		w.must(err)
		if text := string(ev.Data); len(made) != 1 || made[0].Status != grapnel.Delivered || !strings.Contains(text, `"title":"acme: ep_0000.test: is disabled"`) ||
			!strings.Contains(text, `"tenant":"acme"`) {
			t.Errorf("%d deliveries of %s", len(made), text)
		}
	})
}
