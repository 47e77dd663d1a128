package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/face/api"
	"github.com/grapnelhq/grapnel/internal/send/egress"
)

// registry has the server's own metrics for /metrics; measure adds the others.
func (s *Server) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(sendingNumbers(s.sender)...)
	r.MustRegister(callerNumbers(s.gate)...)
	r.MustRegister(s.published.seconds, s.rejected.calls, s.promises.judged.events)
	r.MustRegister(backupNumbers(s.backups)...)
	if s.alarms != nil {
		r.MustRegister(s.alarms)
	}
	r.MustRegister(s.traces.Collectors()...)
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "grapnel_build_info", Help: "Always 1; the version is in the label.",
		ConstLabels: prometheus.Labels{"version": grapnel.Version},
	}, func() float64 { return 1 }))
	return r
}

func newPublished() published {
	p := published{prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "grapnel_ingest_duration_seconds",
		Help:    "From the body of a publish to its answer. bad: the server failed, or took more than a second for a good answer.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10}}, []string{"result"})}
	p.seconds.WithLabelValues("good")
	p.seconds.WithLabelValues("bad")
	return p
}

func (p published) observe(good bool, took time.Duration) {
	result := "good"
	if !good {
		result = "bad"
	}
	p.seconds.WithLabelValues(result).Observe(took.Seconds())
}

func newJudged() judged {
	j := judged{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_promise_events_total",
		Help: "Events that the promises are about, by promise and by whether it was kept."}, []string{"promise", "result"}),
		map[promise.Indicator]map[bool]prometheus.Counter{}}
	for _, o := range promise.Objectives() {
		for _, i := range o.Of {
			j.of[i] = map[bool]prometheus.Counter{true: j.events.WithLabelValues(o.Name, "good"), false: j.events.WithLabelValues(o.Name, "bad")}
		}
	}
	return j
}

// count counts an event; one that no promise is about is left out.
func (j judged) count(i promise.Indicator, good bool) {
	if c := j.of[i][good]; c != nil {
		c.Inc()
	}
}

func newRejected() rejected {
	r := rejected{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_ingest_rejected_total",
		Help: "Publishes with a valid key, and requests to sources, that were refused; by the code of the refusal."}, []string{"reason"})}
	for _, code := range []grapnel.Code{grapnel.CodeInvalid, grapnel.CodeOverloaded, grapnel.CodeStorageFull} {
		r.calls.WithLabelValues(string(code))
	}
	return r
}

// count counts a refusal; an empty code is none.
func (r rejected) count(code string) {
	if code != "" {
		r.calls.WithLabelValues(code).Inc()
	}
}

// measure registers the metrics of the parts.
func (l *life) measure(r prometheus.Registerer) {
	r.MustRegister(l.engine.Metrics().Collectors()...)
	r.MustRegister(l.queues.Collectors()...)
	r.MustRegister(l.ingress.Collectors()...)
	r.MustRegister(l.replays.Metrics(), l.relays.Metrics())
	r.MustRegister(l.numbers...)
	r.MustRegister(l.backlog)
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "grapnel_store_full", Help: "1 while new events are refused because the store has no room, or the disk is nearly full.",
	}, l.full))
}

// number is a counter that a package maintains itself.
type number[T any] struct {
	name, help string
	gauge      bool // it can go down
	value      func(T) float64
}

// numbers makes metrics of the values that stats returns.
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

// callerNumbers are the metrics of the gate.
func callerNumbers(gate *api.Gate) []prometheus.Collector {
	return numbers(gate.Stats, []number[api.Stats]{
		{"grapnel_api_unauthenticated_total", "Requests without a valid API key.", false,
			func(s api.Stats) float64 { return float64(s.Unauthenticated) }},
		{"grapnel_api_forbidden_total", "Requests whose API key lacks the scope.", false,
			func(s api.Stats) float64 { return float64(s.Forbidden) }},
		{"grapnel_api_slowed_total", "Requests refused without checking their keys, because too many wrong ones came from their address.", false,
			func(s api.Stats) float64 { return float64(s.Slowed) }},
		{"grapnel_api_body_bytes", "Memory used by bodies of requests in progress.", true,
			func(s api.Stats) float64 { return float64(s.BodyBytes) }},
	})
}

// sendingNumbers are the metrics of egress. Reused connections divided by attempts is the hit rate.
func sendingNumbers(sender *egress.Sender) []prometheus.Collector {
	return numbers(sender.Stats, []number[egress.Stats]{
		{"grapnel_egress_requests_reused_total", "Attempts over a reused connection.", false,
			func(s egress.Stats) float64 { return float64(s.Reused) }},
		{"grapnel_egress_requests_fresh_total", "Attempts over a new connection.", false,
			func(s egress.Stats) float64 { return float64(s.Fresh) }},
		{"grapnel_egress_requests_written_total", "Requests whose first byte was written to the network.", false,
			func(s egress.Stats) float64 { return float64(s.Written) }},
		{"grapnel_egress_batches_total", "Requests with several events.", false,
			func(s egress.Stats) float64 { return float64(s.Batches) }},
		{"grapnel_egress_batches_divided_total", "Requests with several events that failed, so that each event was then sent alone.", false,
			func(s egress.Stats) float64 { return float64(s.Divided) }},
		{"grapnel_egress_blocked_total", "Attempts refused because their address is not allowed.", false,
			func(s egress.Stats) float64 { return float64(s.Blocked) }},
		{"grapnel_egress_unsendable_total", "Attempts for which the endpoint's transform gave no body.", false,
			func(s egress.Stats) float64 { return float64(s.Unsendable) }},
		{"grapnel_egress_deferred_total", "Attempts postponed because their tenant's transforms have used up their share.", false,
			func(s egress.Stats) float64 { return float64(s.Deferred) }},
		{"grapnel_egress_in_flight", "Attempts in flight.", true,
			func(s egress.Stats) float64 { return float64(s.InFlight) }},
		{"grapnel_egress_connections", "Open connections to receivers.", true,
			func(s egress.Stats) float64 { return float64(s.Open) }},
	})
}

// backupNumbers are the metrics of scheduled backups. A server without them has them too, as zeros.
func backupNumbers(b *backups) []prometheus.Collector {
	type counts struct {
		failed       int
		newest       time.Time
		bytes        int64
		good, broken int
	}
	read := func() counts {
		b.mu.Lock()
		defer b.mu.Unlock()
		return counts{b.failed, b.newest, b.bytes, b.done[true], b.done[false]}
	}
	return numbers(read, []number[counts]{
		{"grapnel_backups_made_total", "Scheduled backups that were completed.", false, func(c counts) float64 { return float64(c.good) }},
		{"grapnel_backups_failed_total", "Scheduled backups that failed.", false, func(c counts) float64 { return float64(c.broken) }},
		{"grapnel_backup_failures", "Scheduled backups that have failed since the last complete one.", true,
			func(c counts) float64 { return float64(c.failed) }},
		{"grapnel_backup_bytes", "Size of the last backup that this process made.", true, func(c counts) float64 { return float64(c.bytes) }},
		{"grapnel_backup_newest_timestamp_seconds", "When the newest complete scheduled backup was begun; 0: there is none.", true,
			func(c counts) float64 {
				if c.newest.IsZero() {
					return 0
				}
				return float64(c.newest.Unix())
			}},
	})
}
