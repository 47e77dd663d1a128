package server

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/inbound/queue"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
)

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
	return func(context.Context) (int64, error) { return p.fileSize() }
}

// fileSize is the size of an SQLite database.
func (p Place) fileSize() (all int64, err error) {
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

// file is the path of the database without symbolic links: its disk and its log are there.
func (p Place) file() string {
	if file, err := filepath.EvalSymlinks(p.path); err == nil {
		return file
	}
	return p.path
}
