package engine

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// Metrics are the engine's own metrics. Labels are bounded: no series grows with endpoints, tenants
// or keys.
type Metrics struct {
	events         *prometheus.CounterVec
	duplicates     *prometheus.CounterVec
	deliveries     *prometheus.CounterVec
	attempts       *prometheus.CounterVec
	firsts         *prometheus.CounterVec
	seconds        prometheus.Histogram
	phases         *prometheus.HistogramVec
	lag            prometheus.Histogram
	tries          prometheus.Histogram
	success        *prometheus.HistogramVec
	letters        *prometheus.CounterVec
	alerts         *prometheus.CounterVec
	recordFailures prometheus.Counter
	damaged        prometheus.Counter
	foreign        prometheus.Counter
	shed           *prometheus.CounterVec
	waits          prometheus.Counter
	breakers       *prometheus.CounterVec
	purged         prometheus.Counter
	imbalance      prometheus.Gauge
	more           []prometheus.Collector // collectors that ask parts of the engine

	mu   sync.Mutex
	open map[string]bool // endpoints whose recorded circuit is open
	// gets what package promise counts of attempts
	promised func(promise.Indicator, bool, time.Duration)
	silent   bool         // counts no events and no attempts
	balances atomic.Int64 // looks at the balance
	unequal  atomic.Int64 // those that found deliveries missing
	// the counters that each event and each attempt move, resolved once
	byClass       map[policy.Class]prometheus.Counter // attempts by schedule
	byPhase       [5]prometheus.Observer
	byKind        map[string]prometheus.Counter // events
	byOutcome     map[grapnel.Status]prometheus.Counter
	once, retried prometheus.Observer // time to success
	first         map[bool]prometheus.Counter
}

func newMetrics(promised func(promise.Indicator, bool, time.Duration), silent bool) *Metrics {
	buckets := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 30}
	m := &Metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_events_accepted_total",
			Help: "Events that were stored, by where they came from."}, []string{"source_kind"}),
		duplicates: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_events_deduplicated_total",
			Help: "Publishes that changed nothing, by what recognized them: the event's id, the source's dedupe, or the Idempotency-Key."},
			[]string{"stage"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_deliveries_total",
			Help: "Finished deliveries, by outcome."}, []string{"outcome"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_attempts_total",
			Help: "Attempts, by result, error class and trigger. internal: the fault was the server's; the attempt is repeated and not recorded."},
			[]string{"result", "error_class", "trigger"}),
		firsts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_first_attempts_total",
			Help: "Recorded first attempts of deliveries, by result, as statistics count them: without channels and quiet queues."},
			[]string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "grapnel_attempt_duration_seconds",
			Help: "Duration of attempts, from dialling to the end of the body.", Buckets: buckets}),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "grapnel_attempt_phase_seconds",
			Help: "Duration of the parts of attempts, without parts that an attempt did not have.", Buckets: buckets}, []string{"phase"}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "grapnel_first_attempt_lag_seconds",
			Help: "From an event's acceptance to the start of its first attempt.", Buckets: buckets}),
		tries: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "grapnel_attempts_per_delivery",
			Help: "Attempts of finished deliveries that were attempted.", Buckets: []float64{1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50}}),
		success: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "grapnel_time_to_success_seconds",
			Help:    "From an event's acceptance to its delivery, by whether the delivery needed more than one attempt.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 30, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600, 72 * 3600}},
			[]string{"retried"}),
		letters: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_dead_letters_total",
			Help: "Deliveries that failed for good, by reason."}, []string{"reason"}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_alerts_sent_total",
			Help: "Attempts to send a message about an alert, by the service of the channel (endpoint: a webhook) and by result."},
			[]string{"channel", "result"}),
		recordFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_record_failures_total",
			Help: "Commits of outcomes that failed and were repeated."}),
		damaged: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_records_damaged_total",
			Help: "Outcomes that the store refused and that were recorded without their texts or as damaged."}),
		foreign: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_foreign_rows_total",
			Help: "Row ids in memory that belong to another delivery in the store: it lost transactions, or was restored, while the node ran."}),
		shed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_shed_total",
			Help: "Calls refused for overload or quota, by kind of work and by cause."}, []string{"what", "why"}),
		waits: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_publish_waits_total",
			Help: "Publishes that had to wait because deliveries got too little processor time."}),
		breakers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_breaker_transitions_total",
			Help: "Circuits of endpoints that opened and closed."}, []string{"to"}),
		purged: prometheus.NewCounter(prometheus.CounterOpts{Name: "grapnel_purged_total",
			Help: "Deliveries, and events without any, that were purged because their retention had ended."}),
		imbalance: prometheus.NewGauge(prometheus.GaugeOpts{Name: "grapnel_audit_imbalance",
			Help: "Created deliveries less pending, finished and purged ones. Anything but 0 is a defect."}),
		open:      map[string]bool{},
		promised:  promised,
		silent:    silent,
		byClass:   map[policy.Class]prometheus.Counter{},
		byKind:    map[string]prometheus.Counter{},
		byOutcome: map[grapnel.Status]prometheus.Counter{},
	}
	for _, class := range policy.Classes() {
		m.byClass[class] = m.attempts.WithLabelValues(resultOf(class), string(class), string(grapnel.TriggerSchedule))
	}
	for i, phase := range [...]string{"dns", "connect", "tls", "first_byte", "body"} {
		m.byPhase[i] = m.phases.WithLabelValues(phase)
	}
	for _, kind := range []string{fromAPI, fromSource, fromOutbox, fromServer} {
		m.byKind[kind] = m.events.WithLabelValues(kind)
	}
	for _, status := range grapnel.Statuses() {
		if status.Final() {
			m.byOutcome[status] = m.deliveries.WithLabelValues(string(status))
		}
	}
	// Series begin at 0: increase() does not see the events before the first scrape of a series.
	for _, reason := range []grapnel.ReasonCode{grapnel.ReasonExhausted, grapnel.ReasonPermanent, grapnel.ReasonRejected,
		grapnel.ReasonExpired, grapnel.ReasonEndpointGone, grapnel.ReasonDamaged} {
		m.letters.WithLabelValues(string(reason))
	}
	for _, to := range []string{toOpen, toClosed} {
		m.breakers.WithLabelValues(to)
	}
	m.first = map[bool]prometheus.Counter{true: m.firsts.WithLabelValues("success"), false: m.firsts.WithLabelValues("failure")}
	m.once, m.retried = m.success.WithLabelValues("false"), m.success.WithLabelValues("true")
	for _, stage := range []string{stageID, stageSource, stageKey} {
		m.duplicates.WithLabelValues(stage)
	}
	return m
}

// Where events come from.
const (
	fromAPI    = "api"
	fromSource = "source"
	fromOutbox = "outbox"
	fromServer = "operational"
)

func sourceKind(ev *grapnel.Event) string {
	switch {
	case ev.Source != "" && ev.Intake != nil:
		return fromSource
	case ev.Source != "":
		return fromOutbox
	case grapnel.Operational(ev.Type):
		return fromServer
	}
	return fromAPI
}

// What recognizes a repeated publish.
const (
	stageID     = "event_id"
	stageSource = "source"
	stageKey    = "idempotency_key"
)

func resultOf(class policy.Class) string {
	switch class {
	case policy.ClassNone:
		return "success"
	case policy.ClassInternal:
		return "internal"
	}
	return "failure"
}

// watch adds the collectors that ask parts of the engine.
func (m *Metrics) watch(p *pending, a *admission, shards *ownership.Shards, i *inputs) {
	m.more = []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "grapnel_pending",
			Help: "Pending deliveries."}, func() float64 { return float64(p.all()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "grapnel_commit_average_seconds",
			Help: "Duration of a commit as publishes and outcomes see it, averaged over five seconds. New work is refused above a limit of it."},
			func() float64 { return a.commit().Seconds() }),
		shards,
		states{i, prometheus.NewDesc("grapnel_breaker_state", "Endpoints, by health. open: the circuit is open; recovering: it is half open; "+
			"in all other states it is closed, or nothing is sent.", []string{"state"}, nil)},
	}
}

// Collectors returns the collectors for a registry.
func (m *Metrics) Collectors() []prometheus.Collector {
	return append(
		[]prometheus.Collector{m.events, m.duplicates, m.deliveries, m.attempts, m.firsts, m.seconds, m.phases, m.lag, m.tries, m.success,
			m.letters, m.alerts, m.recordFailures, m.damaged, m.foreign, m.shed, m.waits, m.breakers, m.purged, m.imbalance},
		m.more...)
}

func (m *Metrics) accepted(in *store.Incoming, p store.Placed) {
	switch {
	case m.silent:
	case p.Duplicate && in.Known != nil:
		m.duplicates.WithLabelValues(stageSource).Inc()
	case p.Duplicate:
		m.duplicates.WithLabelValues(stageID).Inc()
	case !p.Conflict:
		m.byKind[sourceKind(in.Event)].Inc()
		m.ended(grapnel.Dropped, len(in.Targets)-int(waits(in.Targets)))
	}
}

// ended counts deliveries that finished without an outcome: those to an endpoint that is disabled
// or deleted, and those of an emptied queue.
func (m *Metrics) ended(status grapnel.Status, n int) {
	if !m.silent {
		m.byOutcome[status].Add(float64(n))
	}
}

// attempted counts an attempt. A failed one is an exemplar of its duration, with the delivery's id:
// from a slow bucket of a graph one comes to a delivery that was slow.
func (m *Metrics) attempted(a core.Attempt, r egress.Result, delivery string) {
	if m.silent || !a.Trigger.Counts() {
		return
	}
	if c := m.byClass[r.Outcome.Class]; c != nil && a.Trigger == grapnel.TriggerSchedule {
		c.Inc()
	} else {
		m.attempts.WithLabelValues(resultOf(r.Outcome.Class), string(r.Outcome.Class), string(a.Trigger)).Inc()
	}
	if exemplar, ok := m.seconds.(prometheus.ExemplarObserver); ok && r.Outcome.Class != policy.ClassNone {
		exemplar.ObserveWithExemplar(r.Duration.Seconds(), prometheus.Labels{"delivery": delivery})
	} else {
		m.seconds.Observe(r.Duration.Seconds())
	}
	for i, took := range [...]time.Duration{r.Phases.DNS, r.Phases.Connect, r.Phases.TLS, r.Phases.FirstByte, r.Phases.Body} {
		if took > 0 {
			m.byPhase[i].Observe(took.Seconds())
		}
	}
	if a.Number == 1 {
		m.lag.Observe(r.StartedAt.Sub(core.Began(&a.Config.Policy, &a.Head)).Seconds())
	}
	m.promise(&a, &r)
}

// alerted counts an attempt to send a message about an alert.
func (m *Metrics) alerted(to *grapnel.Endpoint, r *egress.Result) {
	service := "endpoint"
	if to.Channel != nil {
		service = to.Channel.Service
	}
	m.alerts.WithLabelValues(service, resultOf(r.Outcome.Class)).Inc()
}

// promise judges a first attempt that nothing but this node held back. The time to connect is the
// receiver's and not counted; a receiver's failure is no arrival, good or bad.
func (m *Metrics) promise(a *core.Attempt, r *egress.Result) {
	if m.promised == nil || !a.Free || r.Outcome.Class == policy.ClassInternal {
		return
	}
	lag := r.StartedAt.Sub(a.ScheduledFor)
	m.promised(promise.Dispatch, lag <= promise.DispatchWithin, lag)
	if r.Outcome.Class == policy.ClassNone {
		whole := r.StartedAt.Add(r.Duration).Sub(a.ScheduledFor)
		m.promised(promise.Arrive, whole <= promise.ArriveWithin, whole)
	}
}

// balanced counts a look at the balance of deliveries.
func (m *Metrics) balanced(off int64) {
	m.imbalance.Set(float64(off))
	m.balances.Add(1)
	if off != 0 {
		m.unequal.Add(1)
	}
}

// Balances are the looks at the balance of deliveries since the start, and those that found
// deliveries missing.
func (m *Metrics) Balances() (all, unequal int64) { return m.balances.Load(), m.unequal.Load() }

func (m *Metrics) recorded(page []core.Change, results []store.Changed) {
	for i := range results {
		c := &page[i]
		if test := c.Attempt != nil && !c.Attempt.Trigger.Counts(); !results[i].Applied || m.silent || test {
			continue
		}
		if c.Attempt != nil && c.Subject.Attempts == 0 && !c.Uncounted {
			m.first[c.Status == grapnel.Delivered].Inc()
		}
		if c.Status.Final() {
			m.finished(c)
		}
	}
}

// finished counts a delivery that a change finished.
func (m *Metrics) finished(c *core.Change) {
	m.byOutcome[c.Status].Inc()
	made := c.Subject.Attempts
	if c.Attempt != nil {
		made++
	}
	if made > 0 {
		m.tries.Observe(float64(made))
	}
	switch c.Status {
	case grapnel.Delivered:
		if c.Subject.CreatedAt.IsZero() {
			return
		}
		of := m.once
		if made > 1 {
			of = m.retried
		}
		of.Observe(c.At.Sub(c.Subject.CreatedAt).Seconds())
	case grapnel.Failed:
		m.letters.WithLabelValues(string(c.ReasonCode)).Inc()
	}
}

// The states that a circuit changes to.
const (
	toOpen   = "open"
	toClosed = "closed"
)

// shifted counts a circuit that opened or closed.
func (m *Metrics) shifted(to policy.Shift) {
	switch to {
	case policy.Opened:
		m.breakers.WithLabelValues(toOpen).Inc()
	case policy.Closed:
		m.breakers.WithLabelValues(toClosed).Inc()
	}
}

// stands remembers whether an endpoint's recorded circuit is open, and returns the change.
func (m *Metrics) stands(st *store.Standing) policy.Shift {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch was, is := m.open[st.Endpoint], st.Open(); {
	case is && !was:
		m.open[st.Endpoint] = true
		return policy.Opened
	case was && !is:
		delete(m.open, st.Endpoint)
		return policy.Closed
	}
	return policy.NoShift
}

// forget drops the circuits of endpoints that are not in the configuration.
func (m *Metrics) forget(conf *configuration.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.open, func(id string, _ bool) bool { return conf.At(id) == nil })
}

func (m *Metrics) refused(what work, why cause) {
	m.shed.WithLabelValues(string(what), string(why)).Inc()
}

// states counts endpoints by state. The core is asked at each Collect.
type states struct {
	core *inputs
	desc *prometheus.Desc
}

// Describe sends the description of the metric.
func (s states) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

// Collect sends the current counts; none if the engine does not run or the core does not answer
// within statesWithin.
func (s states) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), statesWithin)
	defer cancel()
	var counts map[grapnel.HealthState]int
	if s.core.ask(ctx, func(c *core.Core, now time.Time) { counts = c.States(now) }) != nil {
		return
	}
	for _, state := range grapnel.HealthStates() {
		to <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(counts[state]), string(state))
	}
}

// statesWithin is the longest wait for the core's answer.
const statesWithin = time.Second
