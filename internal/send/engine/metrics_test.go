package engine

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/policy"
)

// gathered returns the metrics of one name, by the value of their only label.
func gathered(t *testing.T, e *Engine, name string) map[string]*dto.Metric {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(e.Metrics().Collectors()...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*dto.Metric{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			label := ""
			if len(m.Label) > 0 {
				label = m.Label[0].GetValue()
			}
			found[label] = m
		}
	}
	return found
}

// What the metrics say of finished deliveries is what the store has of them.
func TestMetricsOfFinishedDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(*Options) {})
		defer b.close()
		// The first attempt of every third request fails for now, of every seventh for good.
		r := &receiver{then: func(n int, w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Header.Get("grapnel-attempt") == "1" && n%7 == 6:
				w.WriteHeader(http.StatusUnprocessableEntity)
			case r.Header.Get("grapnel-attempt") == "1" && n%3 == 2:
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}}
		p, _ := policy.Preset("standard")
		p.Classify = map[string]policy.Decision{"422": policy.Fail}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy = "", p })
		b.publish("", 60)
		time.Sleep(24 * time.Hour)

		success, tries, letters := map[string]uint64{}, uint64(0), map[string]float64{}
		sum := 0.0
		for _, d := range b.deliveries("ep") {
			switch d.Status {
			case grapnel.Delivered:
				success[strconv.FormatBool(d.AttemptsMade > 1)]++
			case grapnel.Failed:
				letters[string(d.ReasonCode)]++
			}
			tries++
			sum += float64(d.AttemptsMade)
		}
		if success["true"] == 0 || success["false"] == 0 || letters["permanent"] == 0 {
			t.Fatalf("the receiver made no such deliveries: %v %v", success, letters)
		}
		got := map[string]uint64{}
		for label, m := range gathered(t, b.engine, "grapnel_time_to_success_seconds") {
			got[label] = m.GetHistogram().GetSampleCount()
		}
		if !maps.Equal(got, success) {
			t.Errorf("time to success has %v, the store %v", got, success)
		}
		dead := map[string]float64{}
		for label, m := range gathered(t, b.engine, "grapnel_dead_letters_total") {
			dead[label] = m.GetCounter().GetValue()
		}
		for _, reason := range []grapnel.ReasonCode{grapnel.ReasonExhausted, grapnel.ReasonRejected, grapnel.ReasonExpired,
			grapnel.ReasonEndpointGone, grapnel.ReasonDamaged} {
			letters[string(reason)] += 0 // of these the receiver made none
		}
		if !maps.Equal(dead, letters) {
			t.Errorf("dead letters are %v, in the store %v", dead, letters)
		}
		h := gathered(t, b.engine, "grapnel_attempts_per_delivery")[""].GetHistogram()
		if h.GetSampleCount() != tries || h.GetSampleSum() != sum {
			t.Errorf("attempts per delivery: %d deliveries with %v attempts; in the store %d with %v",
				h.GetSampleCount(), h.GetSampleSum(), tries, sum)
		}
		// A failed attempt leads to its delivery.
		exemplars := 0
		for _, bucket := range gathered(t, b.engine, "grapnel_attempt_duration_seconds")[""].GetHistogram().GetBucket() {
			for _, l := range bucket.GetExemplar().GetLabel() {
				if l.GetName() == "delivery" && l.GetValue() != "" {
					exemplars++
				}
			}
		}
		if exemplars == 0 {
			t.Error("no failed attempt is an exemplar")
		}
	})
}

// counters are the values of a counter, by the values of its labels.
func counters(t *testing.T, e *Engine, name string) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(e.Metrics().Collectors()...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() != name || m.GetCounter().GetValue() == 0 {
				continue
			}
			var values []string
			for _, l := range m.Label {
				values = append(values, l.GetValue())
			}
			all[strings.Join(values, " ")] = m.GetCounter().GetValue()
		}
	}
	return all
}

// TestMetricsOfEventsAndAttempts: events count by where they came from, repetitions by what
// recognized them, attempts by result.
func TestMetricsOfEventsAndAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(*Options) {})
		defer b.close()
		r := &receiver{then: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}}
		b.endpoint("ep", r, func(*grapnel.Endpoint) {})
		publish := func(id string, change func(*store.Incoming), once *store.Once) {
			now := time.Now()
			in := store.Incoming{Event: &grapnel.Event{ID: id, Tenant: "default", Type: "a.b", Data: []byte("1"),
				OccurredAt: now, AcceptedAt: now}}
			change(&in)
			if _, err := b.engine.Publish(t.Context(), []store.Incoming{in}, once); err != nil {
				t.Fatal(err)
			}
		}
		api := func(*store.Incoming) {}
		outbox := func(in *store.Incoming) { in.Event.Source = "src_outbox" }
		source := func(in *store.Incoming) {
			in.Event.Source, in.Event.Intake = "src_1", &grapnel.Intake{Source: "src_1", At: in.Event.AcceptedAt}
			in.Known = &store.Known{Source: "src_1", By: []byte("k"), Until: in.Event.AcceptedAt.Add(time.Hour)}
		}
		publish("evt_1", api, nil)
		publish("evt_1", api, nil)
		publish("evt_2", outbox, nil)
		publish("evt_3", source, nil)
		publish("evt_4", source, nil)
		once := &store.Once{Key: "key/1", Expires: time.Now().Add(time.Hour), Now: time.Now(),
			Answer: func(any) store.Answer { return store.Answer{} }}
		publish("evt_5", api, once)
		publish("evt_6", api, once)
		time.Sleep(time.Hour)
		for name, want := range map[string]map[string]float64{
			"grapnel_events_accepted_total":     {"api": 2, "outbox": 1, "source": 1},
			"grapnel_events_deduplicated_total": {"event_id": 1, "source": 1, "idempotency_key": 1},
			"grapnel_attempts_total":            {"none success schedule": 4, "status_5xx failure schedule": 1},
		} {
			if got := counters(t, b.engine, name); !maps.Equal(got, want) {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}

// TestMetricsOfDeliveriesThatNoAttemptFinished: those to a disabled endpoint, to a deleted one and
// in an emptied queue count in grapnel_deliveries_total as they do in the store's totals.
func TestMetricsOfDeliveriesThatNoAttemptFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), func(*Options) {})
		defer b.close()
		b.endpoint("drops", &receiver{}, nil)
		b.endpoint("gone", &receiver{}, func(ep *grapnel.Endpoint) {
			ep.EventTypes, ep.Status = []string{"test.event"}, grapnel.EndpointPaused
		})
		b.endpoint("queue", &receiver{}, func(ep *grapnel.Endpoint) {
			ep.EventTypes, ep.URL, ep.Queue = []string{"test.event"}, "", &grapnel.Queue{Name: "q", Lease: time.Minute}
		})
		b.publish("", 3)
		time.Sleep(time.Minute)
		b.update("drops", func(ep *grapnel.Endpoint) {
			ep.PolicyName = ""
			ep.Policy.Disable.Pending, ep.Status, ep.DisabledReason = policy.PendingDrop, grapnel.EndpointDisabled, "it is of no use"
		})
		b.publish("", 2)
		if n, err := b.engine.Empty(t.Context(), store.Everyone(), "queue", grapnel.By{}); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		if err := b.engine.DeleteEndpoint(t.Context(), store.Everyone(), "gone", grapnel.By{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		list, err := b.store.Totals(t.Context(), store.Everyone(), store.TotalsQuery{})
		if err != nil {
			t.Fatal(err)
		}
		var sum grapnel.Totals
		for i := range list {
			sum.Add(&list[i].Totals)
		}
		if sum.Delivered != 3 || sum.Dropped != 7 || sum.Discarded != 5 {
			t.Fatalf("the store has %d, %d and %d", sum.Delivered, sum.Dropped, sum.Discarded)
		}
		want := map[string]float64{"delivered": 3, "dropped": 7, "discarded": 5}
		if got := counters(t, b.engine, "grapnel_deliveries_total"); !maps.Equal(got, want) {
			t.Errorf("the metric has %v, want %v", got, want)
		}
	})
}
