package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/egress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// Metrics are the engine's own numbers. Labels are bounded: nothing here grows with endpoints, tenants or keys.
type Metrics struct {
	events         prometheus.Counter
	duplicates     prometheus.Counter
	deliveries     *prometheus.CounterVec
	attempts       *prometheus.CounterVec
	seconds        prometheus.Histogram
	lag            prometheus.Histogram
	recordFailures prometheus.Counter

	byClass map[policy.Class]prometheus.Counter // of scheduled attempts, the hot path's short cut into attempts
}

func newMetrics() *Metrics {
	buckets := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 30}
	m := &Metrics{
		events: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_events_accepted_total",
			Help: "Events that were made durable."}),
		duplicates: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_events_deduplicated_total",
			Help: "Events published again under an id that exists."}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_deliveries_total",
			Help: "Deliveries that ended, by how."}, []string{"outcome"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_attempts_total",
			Help: "Attempts, by what they met and what started them."}, []string{"error_class", "trigger"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "grapnel_attempt_duration_seconds",
			Help: "How long attempts took, from dialling to the end of the body.", Buckets: buckets}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "grapnel_first_attempt_lag_seconds",
			Help: "From an event's acceptance to the start of its first attempt.", Buckets: buckets}),
		recordFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_record_failures_total",
			Help: "Commits of outcomes that failed and were repeated."}),
		byClass: map[policy.Class]prometheus.Counter{},
	}
	for _, class := range policy.Classes() {
		m.byClass[class] = m.attempts.WithLabelValues(string(class), string(grapnel.TriggerSchedule))
	}
	return m
}

// Collectors are what a registry registers.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.events, m.duplicates, m.deliveries, m.attempts, m.seconds, m.lag, m.recordFailures}
}

// Metrics returns the engine's numbers.
func (e *Engine) Metrics() *Metrics { return e.metrics }

func (m *Metrics) accepted(p store.Placed) {
	switch {
	case p.Duplicate:
		m.duplicates.Inc()
	case !p.Conflict:
		m.events.Inc()
	}
}

func (m *Metrics) attempted(a core.Attempt, r egress.Result) {
	if c := m.byClass[r.Outcome.Class]; c != nil && a.Trigger == grapnel.TriggerSchedule {
		c.Inc()
	} else {
		m.attempts.WithLabelValues(string(r.Outcome.Class), string(a.Trigger)).Inc()
	}
	m.seconds.Observe(r.Duration.Seconds())
	if a.Number == 1 {
		m.lag.Observe(r.StartedAt.Sub(a.Head.Anchor).Seconds())
	}
}

func (m *Metrics) recorded(page []core.Change, results []store.Changed) {
	for i := range results {
		if results[i].Applied && page[i].Status.Final() {
			m.deliveries.WithLabelValues(string(page[i].Status)).Inc()
		}
	}
}
