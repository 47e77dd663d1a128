package replay

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Metrics are the runner's metrics, as prometheus collects them. Those of active replays are as old
// as the last read of the store, a second or so.
type Metrics struct {
	runner                            *Runner
	replays, ended, deliveries, items *prometheus.Desc
}

// Metrics returns the runner's numbers.
func (r *Runner) Metrics() Metrics {
	return Metrics{
		runner:  r,
		replays: prometheus.NewDesc("grapnel_replays", "Unfinished replays, by status.", []string{"status"}, nil),
		ended:   prometheus.NewDesc("grapnel_replays_ended_total", "Finished replays, by final status.", []string{"status"}, nil),
		deliveries: prometheus.NewDesc("grapnel_replay_deliveries",
			"Deliveries of unfinished replays, by state: to be created, pending, finished.", []string{"state"}, nil),
		items: prometheus.NewDesc("grapnel_replay_items_total",
			"Deliveries of replays that this node runs, by result: created, delivered, failed (or skipped, discarded, dropped).",
			[]string{"result"}, nil),
	}
}

// Describe sends the descriptions of Collect's metrics.
func (m Metrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect gives the numbers of now.
func (m Metrics) Collect(to chan<- prometheus.Metric) {
	m.runner.mu.Lock()
	defer m.runner.mu.Unlock()
	gauge := func(desc *prometheus.Desc, n int, label string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), label)
	}
	statuses := map[grapnel.ReplayStatus]int{}
	left, underWay, over := 0, 0, 0
	for i := range m.runner.active {
		r := &m.runner.active[i]
		statuses[r.Status]++
		left += max(r.Total-r.Started, 0)
		underWay += r.Started - r.Done
		over += r.Done
	}
	for _, status := range []grapnel.ReplayStatus{grapnel.ReplayRunning, grapnel.ReplayPaused} {
		gauge(m.replays, statuses[status], string(status))
	}
	for _, status := range []grapnel.ReplayStatus{grapnel.ReplayCompleted, grapnel.ReplayCancelled, grapnel.ReplayStopped} {
		to <- prometheus.MustNewConstMetric(m.ended, prometheus.CounterValue, float64(m.runner.ended[status]), string(status))
	}
	for result, n := range map[string]int64{"created": m.runner.items.created, "delivered": m.runner.items.delivered,
		"failed": m.runner.items.failed} {
		to <- prometheus.MustNewConstMetric(m.items, prometheus.CounterValue, float64(n), result)
	}
	gauge(m.deliveries, left, "left")
	gauge(m.deliveries, underWay, "under_way")
	gauge(m.deliveries, over, "over")
}

// saw stores a job's last read of its replay, and counts what the replay has finished since the
// read before, which may have been before a pause.
func (r *Runner) saw(is *grapnel.Replay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.active, func(one grapnel.Replay) bool { return one.ID == is.ID }); i >= 0 {
		r.active[i] = *is
	}
	if was, looked := r.looks[is.ID]; looked {
		r.items.delivered += max(int64(is.Delivered-was.Delivered), 0)
		r.items.failed += max(int64(is.Failed-was.Failed), 0)
	}
	r.looks[is.ID] = *is
}

// made counts deliveries that a step created; one whose original was purged meanwhile is zero.
func (r *Runner) made(all []store.Redelivered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range all {
		if all[i].Delivery != 0 {
			r.items.created++
		}
	}
}

// finished counts and logs a replay that has ended.
func (r *Runner) finished(one *grapnel.Replay) {
	r.mu.Lock()
	r.ended[one.Status]++
	r.mu.Unlock()
	r.log.Info("replay finished", "replay", one.ID, "endpoint", one.Endpoint, "tenant", one.Tenant, "status", string(one.Status),
		"reason", one.Reason, "deliveries", one.Started, "delivered", one.Delivered, "failed", one.Failed)
}
