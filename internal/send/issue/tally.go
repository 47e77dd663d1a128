package issue

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
)

// Tally collects failures between two flushes, and counts the successes of endpoints that have
// unresolved issues. It is safe for concurrent use, reads nothing and never waits for anything but
// its mutex.
type Tally struct {
	bounds  Bounds
	watched atomic.Bool   // streaks is not empty
	work    chan struct{} // holds a token after something was counted

	mu         sync.Mutex
	pending    map[Group]*Delta
	atEndpoint map[string]int // of pending
	ofTenant   map[string]int
	uncounted  int64            // failures since Take that found no space
	streaks    map[string]int64 // successes since an endpoint is watched
}

// NewTally makes one.
func NewTally(b Bounds) *Tally {
	t := &Tally{bounds: b.filled(), streaks: map[string]int64{}, work: make(chan struct{}, 1)}
	t.empty()
	return t
}

func (t *Tally) empty() {
	t.pending, t.atEndpoint, t.ofTenant, t.uncounted = map[Group]*Delta{}, map[string]int{}, map[string]int{}, 0
}

// Failed counts a failure.
func (t *Tally) Failed(f *Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	backoff.Wake(t.work)
	d := t.delta(f.Group)
	if d == nil {
		t.uncounted++
		return
	}
	d.streak = t.streaks[f.Endpoint]
	d.add(f)
}

// delta finds space for a group, or for the other failures of its endpoint; nil: there is none.
func (t *Tally) delta(g Group) *Delta {
	if d := t.pending[g]; d != nil {
		return d
	}
	if t.atEndpoint[g.Endpoint] >= t.bounds.Endpoint && g.Class != ClassOther {
		return t.delta(g.Other())
	}
	if t.ofTenant[g.Tenant] >= t.bounds.Tenant || len(t.pending) >= t.bounds.All {
		return t.pending[g.Other()]
	}
	d := new(Delta)
	t.pending[g] = d
	t.atEndpoint[g.Endpoint]++
	t.ofTenant[g.Tenant]++
	return d
}

// Succeeded counts a success of an endpoint. For an endpoint without unresolved issues it is one
// look at a map, and on a node without any it is one at a flag.
func (t *Tally) Succeeded(endpoint string) {
	if !t.watched.Load() {
		return
	}
	t.mu.Lock()
	if n, watched := t.streaks[endpoint]; watched {
		t.streaks[endpoint] = n + 1
		backoff.Wake(t.work)
	}
	t.mu.Unlock()
}

// watch counts the successes of these endpoints, and of no others.
func (t *Tally) watch(endpoints map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.streaks, func(ep string, _ int64) bool { return !endpoints[ep] })
	for ep := range endpoints {
		if _, watched := t.streaks[ep]; !watched {
			t.streaks[ep] = 0
		}
	}
	t.watched.Store(len(t.streaks) > 0)
}

// streak returns the successes of an endpoint since it is watched.
func (t *Tally) streak(endpoint string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.streaks[endpoint]
}

// take returns the deltas collected since the last call.
func (t *Tally) take() (pending map[Group]*Delta, uncounted int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pending, uncounted = t.pending, t.uncounted
	t.empty()
	return pending, uncounted
}

// giveBack adds deltas that could not be flushed. What finds no space is dropped.
func (t *Tally) giveBack(g Group, d *Delta) {
	t.mu.Lock()
	defer t.mu.Unlock()
	backoff.Wake(t.work)
	if to := t.delta(g); to != nil {
		to.Merge(d)
		return
	}
	t.uncounted += d.Count
}
