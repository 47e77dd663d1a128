package ingress

import "github.com/prometheus/client_golang/prometheus"

// outcome is what became of a request, for counting.
type outcome string

// The outcomes.
const (
	accepted    outcome = "accepted"
	repeated    outcome = "duplicate"
	conflicting outcome = "conflict"
	quarantined outcome = "quarantined"
	greeted     outcome = "greeted"      // a provider asked whether somebody is there
	unverified  outcome = "unverified"   // 401
	unfit       outcome = "unfit"        // its header cannot be taken
	unread      outcome = "unread"       // its body is too large, too slow or broken
	limited     outcome = "rate_limited" // 429
	busy        outcome = "busy"         // too much at once
	paused      outcome = "paused"
	unknown     outcome = "unknown" // there is no such source
	failed      outcome = "failed"  // it could not be kept, or the source cannot work
)

// metrics are the room's numbers. Labels are bounded: by the table of schemes and the list above.
type metrics struct {
	requests *prometheus.CounterVec
	more     []prometheus.Collector
}

func newMetrics(room *Room) *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_ingress_requests_total",
			Help: "Requests that came in, by the scheme of their source and what became of them."}, []string{"scheme", "outcome"}),
		more: []prometheus.Collector{
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "grapnel_ingress_busy",
				Help: "Requests that are read or committed now."}, func() float64 { return float64(room.busy.busy()) }),
		},
	}
}

// count counts a request; s is nil where there is no source.
func (m *metrics) count(s *source, as outcome) {
	scheme := ""
	if s != nil {
		scheme = s.row.Name
	}
	m.requests.WithLabelValues(scheme, string(as)).Inc()
}

// Collectors are what a registry registers.
func (room *Room) Collectors() []prometheus.Collector {
	return append([]prometheus.Collector{room.metrics.requests}, room.metrics.more...)
}
