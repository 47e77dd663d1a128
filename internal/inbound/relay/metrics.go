package relay

import "github.com/prometheus/client_golang/prometheus"

func newEvents() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_outbox_events_total",
		Help: "Events read from outboxes and brokers, by outcome."}, []string{"outcome"})
}

// Metrics are the runner's metrics, as prometheus collects them. There is one lag for each source
// with an outbox.
type Metrics struct {
	runner    *Runner
	lag, well *prometheus.Desc
}

// Metrics returns the runner's numbers.
func (r *Runner) Metrics() Metrics {
	return Metrics{
		runner: r,
		lag: prometheus.NewDesc("grapnel_outbox_lag_seconds",
			"Age of the oldest event in a source's outbox or broker; an upper bound while it cannot be read.", []string{"source"}, nil),
		well: prometheus.NewDesc("grapnel_outbox_up", "1 if a source's outbox or broker can be read and its events can be stored.",
			[]string{"source"}, nil),
	}
}

// Describe sends the descriptions of the metrics.
func (m Metrics) Describe(to chan<- *prometheus.Desc) {
	m.runner.events.Describe(to)
	to <- m.lag
	to <- m.well
}

// Collect gives the numbers of now.
func (m Metrics) Collect(to chan<- prometheus.Metric) {
	m.runner.events.Collect(to)
	m.runner.mu.Lock()
	defer m.runner.mu.Unlock()
	for id, c := range m.runner.couriers {
		s := c.status()
		well := 0.0
		if s.State == Relaying || s.State == Standby {
			well = 1
		}
		to <- prometheus.MustNewConstMetric(m.well, prometheus.GaugeValue, well, id)
		// A courier that stands by, or never connected, does not know the lag.
		if !s.SeenAt.IsZero() && s.State != Standby {
			to <- prometheus.MustNewConstMetric(m.lag, prometheus.GaugeValue, s.Lag.Seconds(), id)
		}
	}
}
