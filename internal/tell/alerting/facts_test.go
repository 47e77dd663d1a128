package alerting_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
	"github.com/grapnelhq/grapnel/policy"
)

// silentSource makes a source whose last event came 25 hours ago.
func (w *world) silentSource() {
	w.source()
	time.Sleep(25 * time.Hour)
}

// source makes a source with one event.
func (w *world) source() {
	w.every = 30 * time.Second // a day of rounds every ten seconds takes seconds of a processor
	w.kill()
	_, err := w.engine.PutSource(ctx, store.Everyone(), grapnel.Source{ID: "src_1", Tenant: "acme", Name: "shop", CreatedAt: time.Now(),
		UpdatedAt: time.Now()}, store.With{})
	w.must(err)
	_, err = w.engine.Publish(ctx, []store.Incoming{{Event: &grapnel.Event{ID: "evt_1", Tenant: "acme", Source: "src_1", Type: "a.b",
		Data: []byte(`{}`), ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}}}, nil)
	w.must(err)
}

// TestASourceAfterALongStop: a source was not silent while the server did not run. It has time to
// receive something after the start.
func TestASourceAfterALongStop(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		w.source()
		w.end()
		time.Sleep(25 * time.Hour)
		w.start()
		time.Sleep(20 * time.Minute)
		if all := w.alerts(alerting.Query{Rule: alert.SourceSilent}); len(all) != 0 {
			t.Errorf("the alerts are %+v", all)
		}
		time.Sleep(20 * time.Minute)
		if all := w.alerts(alerting.Query{Rule: alert.SourceSilent}); len(all) != 1 {
			t.Errorf("after a while the alerts are %+v", all)
		}
	})
}

// TestAFirstReadingThatFails: a node that begins to evaluate while facts cannot be read resolves no
// alert for want of them.
func TestAFirstReadingThatFails(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		w.silentSource()
		w.kill()
		w.mortal.away.Store(true)
		time.Sleep(75 * time.Second) // the first reading, and a round after it
		w.mortal.away.Store(false)
		time.Sleep(5 * time.Minute)
		if all := w.alerts(alerting.Query{Rule: alert.SourceSilent}); len(all) != 1 || all[0].State != alert.Firing {
			t.Errorf("the alerts are %+v", all)
		}
	})
}

// TestOwnersThatDoNotAnswer: an alert about deliveries that wait stays while nothing is known of
// the health of their endpoint.
func TestOwnersThatDoNotAnswer(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		w.endpoint("slow", &receiver{}, func(ep *grapnel.Endpoint) { ep.RateLimit = &grapnel.RateLimit{PerSecond: 0.001, Burst: 1} })
		for i := range 3 {
			w.publish(fmt.Sprintf("evt_%d", i), "order.paid")
		}
		firing := func() (n int) {
			return len(w.alerts(alerting.Query{Rule: alert.BacklogAge, State: alert.Firing, Tenant: "acme"}))
		}
		time.Sleep(5 * time.Minute)
		if firing() != 1 {
			t.Fatalf("the alerts are %+v", w.alerts(alerting.Query{}))
		}
		w.deaf.Store(true)
		time.Sleep(5 * time.Minute)
		if firing() != 1 {
			t.Errorf("the alerts are %+v", w.alerts(alerting.Query{}))
		}
	})
}

// TestEndpointsThatTakeNothing: however many paused endpoints have due deliveries, those that wait
// at others are found.
func TestEndpointsThatTakeNothing(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		w.late = 1
		w.kill()
		w.endpoint("paused", nil, func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
		w.publish("evt_0", "order.paid")
		w.endpoint("slow", &receiver{}, func(ep *grapnel.Endpoint) { ep.RateLimit = &grapnel.RateLimit{PerSecond: 0.001, Burst: 1} })
		for i := range 3 {
			w.publish(fmt.Sprintf("evt_%d", i+1), "order.paid")
		}
		time.Sleep(5 * time.Minute)
		if all := w.alerts(alerting.Query{Rule: alert.BacklogAge, Tenant: "acme"}); len(all) != 1 {
			t.Errorf("the alerts are %+v", all)
		}
	})
}

// TestMoreLateEndpointsThanAreRead: an alert about a queue whose due messages are not read any more
// stays.
func TestMoreLateEndpointsThanAreRead(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		w.late = 1
		w.kill()
		queue := func(id string, status grapnel.EndpointStatus) {
			w.endpoint(id, nil, func(ep *grapnel.Endpoint) { ep.URL, ep.Queue, ep.Status = "", &grapnel.Queue{Name: id}, status })
		}
		queue("older", grapnel.EndpointPaused)
		w.publish("evt_0", "order.paid")
		time.Sleep(time.Second)
		queue("newer", grapnel.EndpointEnabled)
		w.publish("evt_1", "order.paid")
		time.Sleep(10 * time.Minute)
		firing := func() []alert.Alert {
			return w.alerts(alerting.Query{Rule: alert.ConsumerGone, State: alert.Firing,
				About: func(s *alert.Subject) bool { return s.ID == "newer" }})
		}
		if len(firing()) != 1 {
			t.Fatalf("the alerts are %+v", w.alerts(alerting.Query{}))
		}
		w.change("older", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
		time.Sleep(10 * time.Minute)
		if len(firing()) != 1 {
			t.Errorf("the alerts are %+v", w.alerts(alerting.Query{}))
		}
	})
}

// TestConsumersComeBackAfterAStart: the server was off for longer than messages may wait without a
// consumer. Consumers need some time to come back; if they do, no alert fires.
func TestConsumersComeBackAfterAStart(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		w.endpoint("queue", nil, func(ep *grapnel.Endpoint) { ep.URL, ep.Queue = "", &grapnel.Queue{Name: "queue"} })
		w.publish("evt_0", "order.paid")
		w.publish("evt_1", "order.paid")
		w.end()
		time.Sleep(20 * time.Minute)
		w.start()
		time.Sleep(40 * time.Second)
		_, err := w.store.Claim(ctx, store.Claim{Queue: "queue", Now: time.Now(), Wants: []store.Want{{Token: "lse_1", For: time.Hour}}})
		w.must(err)
		time.Sleep(30 * time.Minute)
		if all := w.alerts(alerting.Query{}); len(all) != 0 {
			t.Errorf("the alerts are %+v", all)
		}
	})
}

// TestABaselineOfAClockAhead: dead letters are compared with those of the time before now, although
// the clock was ahead and found no hours before it.
func TestABaselineOfAClockAhead(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		w.mortal.fails.Store(10)
		time.Sleep(2 * time.Minute)
		w.ahead.Store(int64(365 * 24 * time.Hour))
		time.Sleep(2 * time.Hour)
		w.ahead.Store(0)
		time.Sleep(5 * time.Minute)
		if all := w.alerts(alerting.Query{Rule: alert.DeadLetters, State: alert.Firing}); len(all) > 0 {
			t.Errorf("the alerts are %+v", all)
		}
	})
}

// TestFactsThatARestartForgets: an alert stays after a restart if the event or the attempt with its
// facts was purged, and ends once its rule is off.
func TestFactsThatARestartForgets(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		w.silentSource()
		w.endpoint("safe", nil, func(ep *grapnel.Endpoint) { ep.URL = "https://safe.test/" })
		w.mortal.until.Store(time.Now().Add(10 * 24 * time.Hour).Unix())
		time.Sleep(5 * time.Minute)
		w.kill()
		w.mortal.empty.Store(true)
		time.Sleep(5 * time.Minute)
		for _, rule := range []string{alert.SourceSilent, alert.Certificate} {
			if all := w.alerts(alerting.Query{Rule: rule}); len(all) != 1 || all[0].State != alert.Firing {
				t.Errorf("the alerts of %s are %+v", rule, all)
			}
			_, err := w.keeper.SetRule(ctx, store.Everyone(), "acme", rule, grapnel.By{Actor: "key_1"},
				func(alerting.Rule) (alert.Setting, error) { return alert.Setting{Enabled: new(bool)}, nil })
			w.must(err)
		}
		time.Sleep(5 * time.Minute)
		if all := w.alerts(alerting.Query{State: alert.Firing}); len(all) != 0 {
			t.Errorf("with both rules off the alerts are %+v", all)
		}
	})
}

// An outage of the store is a few lines in the log for each reading, not one for each round.
func TestAnOutageLogsFewLines(t *testing.T) {
	var logged strings.Builder
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: memory.New(), net: pipenet.New(), log: &logged}
		w.start()
		time.Sleep(time.Minute)
		for _, away := range []*atomic.Bool{&w.mortal.lost, &w.mortal.dark, &w.mortal.lost, &w.mortal.dark} {
			away.Store(true)
			time.Sleep(time.Hour)
			away.Store(false)
			time.Sleep(10 * time.Minute)
		}
		w.end()
		w.net.Close()
	})
	for _, what := range []string{"counting pending deliveries for alert rules failed", "evaluating alert rules failed"} {
		all, first := strings.Count(logged.String(), what), strings.Count(logged.String(), what+`; retrying" failures=1 `)
		if first != 2 || all > 20 {
			t.Errorf("%s: %d lines, %d of a first failure", what, all, first)
		}
	}
}

// TestIdleIsNotFailing: an endpoint that is idle after failures in a row is not reported for being
// idle, also after a restart. One with a planned attempt is, however rarely it is attempted.
func TestIdleIsNotFailing(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		chat := w.channel("chat", "acme")
		var status atomic.Int64
		answer := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(int(status.Load())) })
		set := func(ep *grapnel.Endpoint) {
			ep.EventTypes = []string{"order.paid"}
			ep.Policy.Classify = map[string]policy.Decision{"400": policy.Fail}
		}
		w.endpoint("shop", answer, set)
		status.Store(200)
		for i := range 20 {
			w.publish(fmt.Sprintf("evt_good%d", i), "order.paid")
		}
		time.Sleep(time.Second)
		status.Store(400)
		for i := range 9 { // fewer than the rule of dead letters has as its threshold
			w.publish(fmt.Sprintf("evt_bad%d", i), "order.paid")
		}
		quiet := func(when string) {
			t.Helper()
			time.Sleep(time.Hour)
			if got := endpointsFailing(chat); got != "" {
				t.Errorf("%s the channel got %s", when, got)
			}
		}
		quiet("after an idle hour")
		w.kill()
		quiet("after a restart and another hour")
		status.Store(503)
		w.publish("evt_last", "order.paid") // its second attempt is planned, and no other
		time.Sleep(3 * time.Minute)
		if got := endpointsFailing(chat); got != "shop.test: no attempt succeeds" {
			t.Errorf("with an attempt planned the channel got %q", got)
		}
	})
}

// endpointsFailing are the titles that the rule endpoint_failing made.
func endpointsFailing(r *receiver) string {
	var of []message
	for _, m := range r.messages() {
		if m.data.Rule == alert.EndpointFailing {
			of = append(of, m)
		}
	}
	return titles(of)
}
