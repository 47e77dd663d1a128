// Package alarm tells people that this server itself is in trouble: its store is full, unreachable
// or broken, commits fail, the engine stands still, or another node is lost. An alert is a delivery
// of the store, so it cannot tell of these. An alarm needs no store: the endpoints that would get
// an alert of the operator are remembered in memory and in a file, and egress sends to them.
//
// What holds here:
//
//   - A trouble that lasts for Bounds.Hold begins an alarm, and one that is away for Bounds.Calm
//     ends it. No alarm begins again within Bounds.Again of its end, so one that comes and goes is
//     told a few times an hour.
//   - Each endpoint gets one message at the beginning and one at the end. The end goes to those
//     that got the beginning. The file says which endpoint got which, so a restart repeats neither.
//   - Every node tells of itself. Of a lost node all others know, and one of them tells.
//
// It does not promise that a message arrives. A message is tried again while the alarm lasts, its
// end for Bounds.Retire, and both are lost with the file. A process that is killed between a
// message and the write of the file sends that message again, with the same event id.
package alarm

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// New returns a Keeper with what the file says.
func New(o Options) *Keeper {
	k := &Keeper{o: o, bounds: bounds.Fill(o.Bounds), log: o.Log, now: o.Now, watched: map[key]*watch{},
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_alarms_sent_total",
			Help: "Attempts to tell an endpoint of an alarm, by result."}, []string{"result"})}
	if k.now == nil {
		k.now = time.Now
	}
	k.sent.WithLabelValues("success")
	k.sent.WithLabelValues("failure")
	k.load()
	return k
}

// Bounds are the bounds in force.
func (k *Keeper) Bounds() Bounds { return k.bounds }

// Run looks and tells until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(k.bounds.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			k.round(ctx)
		case <-ctx.Done():
			k.finish()
			return
		}
	}
}

// round looks once, and tells what follows from it.
func (k *Keeper) round(ctx context.Context) {
	health, overdue := k.look(ctx)
	if ctx.Err() != nil {
		return
	}
	now := k.now()
	k.learn(now, health, overdue)
	k.save() // before the messages: a channel may take long
	k.tell(ctx, k.bounds.Send, now)
	k.save()
}

// learn begins and ends the alarms that follow from a look.
func (k *Keeper) learn(now time.Time, health Health, overdue time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if overdue > 0 {
		health = Health{Troubles: []Trouble{{Rule: Stalled, Text: "A look at the engine has not returned since " +
			k.lookedAt.UTC().Format(time.TimeOnly) + " UTC."}}}
		for _, r := range rules {
			if r.Name != Stalled {
				health.Unknown = append(health.Unknown, r.Name)
			}
		}
	}
	if is := health.Listeners[:min(len(health.Listeners), k.bounds.Most)]; health.Listeners != nil && !slices.EqualFunc(is, k.listeners,
		func(a, b Listener) bool { return a.Endpoint == b.Endpoint && slices.Equal(a.Rules, b.Rules) }) {
		k.listeners, k.dirty = is, true
	}
	k.step(now, &health)
}

// look calls Options.Look, and waits for it for Bounds.Within. A look that takes longer goes on,
// and no other begins before it has returned: overdue is its age.
func (k *Keeper) look(ctx context.Context) (_ Health, overdue time.Duration) {
	if k.looking == nil {
		looked := make(chan Health, 1)
		k.looking, k.lookedAt = looked, k.now()
		go func() { looked <- k.o.Look(ctx) }()
	}
	late := time.NewTimer(k.bounds.Within)
	defer late.Stop()
	select {
	case h := <-k.looking:
		k.looking = nil
		return h, 0
	case <-ctx.Done():
	case <-late.C:
	}
	return Health{}, k.now().Sub(k.lookedAt)
}

// finish waits for a look that is on its way. One that hangs is left: the process ends.
func (k *Keeper) finish() {
	if k.looking == nil {
		return
	}
	late := time.NewTimer(k.bounds.Within)
	defer late.Stop()
	select {
	case <-k.looking:
	case <-late.C:
	}
}

// Last tells of a trouble that ends the process, or keeps it from starting, unless the file says
// that it was told. It returns within Bounds.Last.
func (k *Keeper) Last(ctx context.Context, t Trouble) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.bounds.Last)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		now := k.now()
		k.begin(now, t)
		k.tell(ctx, k.bounds.Last, now)
		k.save()
	}()
	select {
	case <-done:
	case <-ctx.Done(): // a disk in trouble may keep the write of the file
	}
}

// begin begins the alarm of a trouble that is certain.
func (k *Keeper) begin(now time.Time, t Trouble) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.Sure = true
	k.rises(now, t, k.at(t.key()))
}

// Describe sends the descriptions of the metrics.
func (k *Keeper) Describe(to chan<- *prometheus.Desc) {
	to <- openDesc
	k.sent.Describe(to)
}

// Collect sends the alarms that last, by rule.
func (k *Keeper) Collect(to chan<- prometheus.Metric) {
	open := *k.open.Load()
	for _, r := range rules {
		to <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(open[r.Name]), r.Name)
	}
	k.sent.Collect(to)
}

var openDesc = prometheus.NewDesc("grapnel_alarms", "Alarms that last, by rule: troubles of this server itself, and lost nodes.",
	[]string{"rule"}, nil)
