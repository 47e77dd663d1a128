package ingress

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

// outcome is the result of a request, for counting.
type outcome string

// The outcomes.
const (
	accepted    outcome = "accepted"
	repeated    outcome = "duplicate"
	conflicting outcome = "conflict"
	quarantined outcome = "quarantined"
	greeted     outcome = "greeted"      // a provider checked the endpoint
	unverified  outcome = "unverified"   // 401
	unfit       outcome = "unfit"        // its header cannot be taken
	looping     outcome = "looping"      // it has come through too many servers like this one
	unread      outcome = "unread"       // its body is too large, too slow or broken
	limited     outcome = "rate_limited" // 429
	busy        outcome = "busy"         // too much at once
	paused      outcome = "paused"
	unknown     outcome = "unknown" // no such source
	// it could not be stored, or the source's settings are invalid
	failed outcome = "failed"
)

func newMetrics(recv *Receiver) *metrics {
	m := &metrics{
		signatures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_signature_failures_total",
			Help: "Requests to sources that could not be verified, by the first fault."}, []string{"reason"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_ingress_requests_total",
			Help: "Requests that came in, by the scheme of their source and by outcome."}, []string{"scheme", "outcome"}),
		busy: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "grapnel_ingress_busy",
			Help: "Requests that are read or committed now."}, func() float64 { return float64(recv.busy.busy()) }),
	}
	for _, reason := range []scheme.Reason{scheme.Missing, scheme.Malformed, scheme.TooOldOrNew, scheme.ExpiredSecret, scheme.Mismatch} {
		m.signatures.WithLabelValues(string(reason))
	}
	return m
}

// count counts a request; s is nil if the source does not exist.
func (m *metrics) count(s *source, as outcome) {
	scheme := ""
	if s != nil {
		scheme = s.how.Name
	}
	m.requests.WithLabelValues(scheme, string(as)).Inc()
}

// Collectors returns the collectors for a registry.
func (recv *Receiver) Collectors() []prometheus.Collector {
	return []prometheus.Collector{recv.metrics.requests, recv.metrics.signatures, recv.metrics.busy}
}
