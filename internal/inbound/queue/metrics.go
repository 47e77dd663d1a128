package queue

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
)

func newMetrics() *metrics {
	m := &metrics{
		leases: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_leases_granted_total",
			Help: "Leases granted to consumers of queues."}),
		settled: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_queue_settled_total",
			Help: "Leases that ended, by queue and by the consumer's answer; expire: there was none in time. Queues beyond a number are other."},
			[]string{"queue", "action"}),
		held: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "grapnel_lease_held_seconds",
			Help:    "Time from a lease to its consumer's answer. Expired leases are not in it.",
			Buckets: []float64{.005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600, 6 * 3600}}),
		stale: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_leases_stale_total",
			Help: "Attempts to settle a lease that had expired, was settled, or was never granted."}),
		returned: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_leases_returned_total",
			Help: "Leases returned because their consumers disconnected before they got them."}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "grapnel_lease_lag_seconds",
			Help:    "Time between a delivery of a queue becoming due and its lease.",
			Buckets: []float64{.001, .005, .01, .02, .05, .1, .5, 1, 5, 30, 300, 3600}}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "grapnel_consumers_waiting",
			Help: "Consumers that wait for a due delivery."}),
	}
	m.begin(OtherQueues)
	return m
}

// begin makes the series of a queue, so that its first settlement is an increase.
func (m *metrics) begin(queue string) {
	for _, v := range []Verdict{Ack, Nack, Reject, expire} {
		m.settled.WithLabelValues(queue, string(v))
	}
}

// forget drops the series of a label that no queue has any more.
func (m *metrics) forget(queue string) {
	m.settled.DeletePartialMatch(prometheus.Labels{"queue": queue})
}

// expire stands among the verdicts for a lease that ended without one.
const expire Verdict = "expire"

func (m *metrics) claimed(leases []grapnel.Lease) {
	m.leases.Add(float64(len(leases)))
	for i := range leases {
		m.lag.Observe(max(leases[i].GrantedAt.Sub(leases[i].Scheduled).Seconds(), 0))
	}
}

// Collectors are the metrics to register.
func (r *Broker) Collectors() []prometheus.Collector {
	m := r.metrics
	return []prometheus.Collector{m.leases, m.settled, m.held, m.stale, m.returned, m.lag, m.waiting}
}

// OtherQueues labels the metrics of all queues that have no label of their own.
const OtherQueues = "other"
