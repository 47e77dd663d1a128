package queue

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
)

// metrics are the room's numbers. Nothing here grows with queues or consumers.
type metrics struct {
	leases   prometheus.Counter
	settled  *prometheus.CounterVec
	over     prometheus.Counter
	stale    prometheus.Counter
	returned prometheus.Counter
	lag      prometheus.Histogram
	waits    prometheus.Collector
	waiting  atomic.Int64
}

func newMetrics(r *Room) *metrics {
	m := &metrics{
		leases: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_leases_granted_total",
			Help: "Leases granted to consumers of queues."}),
		settled: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_leases_settled_total",
			Help: "Leases settled by their consumers, by what they said."}, []string{"outcome"}),
		over: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_leases_over_total",
			Help: "Leases that ran out before anything was said of them."}),
		stale: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_leases_stale_total",
			Help: "Attempts to settle a lease that was over, settled, or never granted."}),
		returned: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_leases_returned_total",
			Help: "Leases given back because who asked had left before they came."}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "grapnel_lease_lag_seconds",
			Help:    "From when a delivery of a queue was due to when somebody had its lease.",
			Buckets: []float64{.001, .005, .01, .02, .05, .1, .5, 1, 5, 30, 300, 3600}}),
	}
	m.waits = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "grapnel_consumers_waiting",
		Help: "Consumers that wait for something to be due."}, func() float64 { return float64(r.metrics.waiting.Load()) })
	for _, v := range []Verdict{Ack, Nack, Reject} {
		m.settled.WithLabelValues(string(v))
	}
	return m
}

func (m *metrics) claimed(leases []grapnel.Lease) {
	m.leases.Add(float64(len(leases)))
	for i := range leases {
		m.lag.Observe(max(leases[i].GrantedAt.Sub(leases[i].Scheduled).Seconds(), 0))
	}
}

// Collectors are what a registry registers.
func (r *Room) Collectors() []prometheus.Collector {
	m := r.metrics
	return []prometheus.Collector{m.leases, m.settled, m.over, m.stale, m.returned, m.lag, m.waits}
}
