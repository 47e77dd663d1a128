package engine

import (
	"maps"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/grapnelhq/grapnel"
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
