package server

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/inbound/queue"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
)

// BacklogBounds limit the work of counting for /metrics.
type BacklogBounds struct {
	Every  time.Duration `bound:"10s" tiny:"1ms"` // least time between two counts
	Within time.Duration `bound:"3s"`             // longest wait for one
	Stale  time.Duration `bound:"5m"`             // for how long the last count stands in for those that fail
}

// backlog has the metrics of pending deliveries and of the store's size. All scrapes within
// BacklogBounds.Every share one count, which reads no more rows than GET /v1/overview does.
type backlog struct {
	bounds BacklogBounds
	limit  int64
	store  backlogs
	held   func() []string          // endpoints whose deliveries are held
	labels func() map[string]string // of queues, by id
	size   func(context.Context) (int64, error)
	now    func() time.Time
	log    *slog.Logger

	mu       sync.Mutex
	asked    time.Time // when it was counted last, well or not
	counted  time.Time // when it was counted well
	counts   backlogCounts
	failing  bool
	describe [len(backlogMetrics)]*prometheus.Desc
}

// backlogs is the part of a store that counts.
type backlogs interface {
	Backlogs(ctx context.Context, scope store.Scope, tenant string, now time.Time, limit int64) ([]store.Backlog, error)
}

// backlogCounts are the sums over all endpoints.
type backlogCounts struct {
	states  map[string]int64
	blocked int64
	leased  map[string]int64 // by label of the queue
	dead    int64
	oldest  time.Time // zero: nothing is pending
	bytes   int64     // negative: unknown
}

// backlogMetrics are the names and texts of the metrics, in the order of describe.
var backlogMetrics = [...]struct{ name, help, label string }{
	{"grapnel_backlog", "Pending deliveries, by state. waiting: behind another one of their key; uncounted: in one of the other states, " +
		"beyond the number that is counted. The sum is exact.", "state"},
	{"grapnel_oldest_undelivered_age_seconds", "Age of the oldest pending delivery that may be attempted or is held; 0: there is none.", ""},
	{"grapnel_dead_letters", "Dead letters, up to the number that is counted.", ""},
	{"grapnel_ordering_blocked_keys", "Ordering keys that a failed delivery blocks.", ""},
	{"grapnel_queue_leases", "Leases that consumers hold, by queue, expired ones included until they are recorded. Queues beyond a number are other.", "queue"},
	{"grapnel_store_bytes", "Size of the database, with its log.", ""},
}

func newBacklog(b Bounds, from backlogs, held func() []string, labels func() map[string]string,
	size func(context.Context) (int64, error), now func() time.Time, log *slog.Logger) *backlog {
	m := &backlog{bounds: bounds.Fill(b.Backlog), limit: bounds.Fill(b.API).Counted, store: from, held: held, labels: labels, size: size,
		now: now, log: log}
	for i, is := range backlogMetrics {
		var labels []string
		if is.label != "" {
			labels = []string{is.label}
		}
		m.describe[i] = prometheus.NewDesc(is.name, is.help, labels, nil)
	}
	return m
}

// Describe sends the descriptions of the metrics.
func (m *backlog) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range m.describe {
		to <- desc
	}
}

// Collect sends the last count, or a new one if that is too old. Without a count there are no
// series: a 0 would be a claim.
func (m *backlog) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if m.asked.IsZero() || now.Sub(m.asked) >= m.bounds.Every || now.Before(m.asked) {
		m.count(now)
	}
	if m.counted.IsZero() || now.Sub(m.counted) > m.bounds.Stale {
		return
	}
	gauge := func(metric int, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(m.describe[metric], prometheus.GaugeValue, v, labels...)
	}
	for state, n := range m.counts.states {
		gauge(0, float64(n), state)
	}
	age := 0.0
	if !m.counts.oldest.IsZero() {
		age = max(now.Sub(m.counts.oldest).Seconds(), 0)
	}
	gauge(1, age)
	gauge(2, float64(m.counts.dead))
	gauge(3, float64(m.counts.blocked))
	for queue, n := range m.counts.leased {
		gauge(4, float64(n), queue)
	}
	if m.counts.bytes >= 0 {
		gauge(5, float64(m.counts.bytes))
	}
}

// count asks the store.
func (m *backlog) count(now time.Time) {
	m.asked = now
	ctx, cancel := context.WithTimeout(context.Background(), m.bounds.Within)
	defer cancel()
	list, err := m.store.Backlogs(ctx, store.Everyone(), "", now.UTC(), m.limit)
	if err != nil {
		if !m.failing {
			m.log.Warn("counting pending deliveries for metrics failed; retrying", "err", err)
		}
		m.failing = true
		return
	}
	held := map[string]bool{}
	for _, id := range m.held() {
		held[id] = true
	}
	m.failing, m.counted, m.counts = false, now, sum(list, held, m.labels())
	if m.counts.bytes, err = m.size(ctx); err != nil {
		m.counts.bytes = -1
	}
}

// sum adds the numbers of all endpoints.
func sum(list []store.Backlog, held map[string]bool, labels map[string]string) backlogCounts {
	c := backlogCounts{states: map[string]int64{}, leased: map[string]int64{queue.OtherQueues: 0}}
	for _, label := range labels {
		c.leased[label] = 0
	}
	for _, state := range []string{"ready", "scheduled", "held", "leased", "blocked", "waiting", "uncounted"} {
		c.states[state] = 0
	}
	for i := range list {
		b := &list[i]
		known := b.Ready + b.Scheduled() + b.Leased + b.Blocked + b.Waiting
		c.states["uncounted"] += max(b.Pending-known, 0)
		c.states["leased"] += b.Leased
		c.states["blocked"] += b.Blocked
		c.states["waiting"] += b.Waiting
		if held[b.Endpoint] {
			c.states["held"] += b.Ready + b.Scheduled()
		} else {
			c.states["ready"] += b.Ready
			c.states["scheduled"] += b.Scheduled()
		}
		c.blocked, c.dead = c.blocked+b.Blocked, c.dead+b.Dead
		c.leased[cmp.Or(labels[b.Endpoint], queue.OtherQueues)] += b.Leased
		if !b.Oldest.IsZero() && (c.oldest.IsZero() || b.Oldest.Before(c.oldest)) {
			c.oldest = b.Oldest
		}
	}
	return c
}

// size returns the function that measures a store.
func (p Place) size(of keeper) func(context.Context) (int64, error) {
	if db, is := of.(*postgres.Store); is {
		return db.Size
	}
	return func(context.Context) (all int64, err error) {
		for _, end := range []string{"", "-wal", ".data"} {
			info, err := os.Stat(p.file() + end)
			if err != nil && (end == "" || !os.IsNotExist(err)) {
				return 0, err
			}
			switch {
			case err != nil:
			case end == ".data":
				all += journal.Size(info)
			default:
				all += info.Size()
			}
		}
		return all, nil
	}
}
