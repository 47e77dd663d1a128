package server

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/egress"
)

// metrics is what /metrics serves, from a registry of this server's own.
func (s *Server) metrics(more ...prometheus.Collector) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(s.engine.Metrics().Collectors()...)
	r.MustRegister(s.queues.Collectors()...)
	r.MustRegister(s.ingress.Collectors()...)
	r.MustRegister(s.replays.Metrics(), s.relays.Metrics())
	r.MustRegister(sendingNumbers(s.sender)...)
	r.MustRegister(more...)
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "grapnel_build_info", Help: "Always 1; the version is in the label.",
		ConstLabels: prometheus.Labels{"version": grapnel.Version},
	}, func() float64 { return 1 }))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// number is one of the numbers that a room counts for itself.
type number[T any] struct {
	name, help string
	gauge      bool // it can go down
	value      func(T) float64
}

// numbers makes metrics of what stats returns.
func numbers[T any](stats func() T, all []number[T]) []prometheus.Collector {
	collectors := make([]prometheus.Collector, len(all))
	for i, n := range all {
		value := func() float64 { return n.value(stats()) }
		if n.gauge {
			collectors[i] = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: n.name, Help: n.help}, value)
		} else {
			collectors[i] = prometheus.NewCounterFunc(prometheus.CounterOpts{Name: n.name, Help: n.help}, value)
		}
	}
	return collectors
}

// sendingNumbers are those of egress: connections kept alive against attempts made is the hit rate.
func sendingNumbers(sender *egress.Sender) []prometheus.Collector {
	return numbers(sender.Stats, []number[egress.Stats]{
		{"grapnel_egress_requests_reused_total", "Attempts that went over a connection kept alive.", false,
			func(s egress.Stats) float64 { return float64(s.Reused) }},
		{"grapnel_egress_requests_fresh_total", "Attempts that went over a new connection.", false,
			func(s egress.Stats) float64 { return float64(s.Fresh) }},
		{"grapnel_egress_requests_written_total", "Requests of which something was written to the network.", false,
			func(s egress.Stats) float64 { return float64(s.Written) }},
		{"grapnel_egress_blocked_total", "Attempts refused because of where they would have gone.", false,
			func(s egress.Stats) float64 { return float64(s.Blocked) }},
		{"grapnel_egress_in_flight", "Attempts on their way.", true,
			func(s egress.Stats) float64 { return float64(s.InFlight) }},
		{"grapnel_egress_connections", "Open connections to receivers.", true,
			func(s egress.Stats) float64 { return float64(s.Open) }},
	})
}
