package core

import (
	"container/heap"
	"time"
)

// fairness hands out slots: first to the tenant whose attempts have held slots for the least time, then to the endpoint of
// that tenant for which the same is true. Time held is the measure, not the number of attempts, so an endpoint that hangs
// pays for its slots. (Start-time fair queueing: whoever comes back after a pause starts at the present, not at zero.)
type fairness struct {
	tenants map[string]*share
	ready   shares // of tenants that have a ready endpoint
	present time.Duration
}

// share is a tenant's or an endpoint's account of slot time.
type share struct {
	used    time.Duration
	number  int // breaks ties
	pos     int // in the heap it is in, plus one; 0: in none
	ready   shares
	present time.Duration // a tenant's: the account of the endpoint served last
	ep      *endpoint     // an endpoint's
	average time.Duration // an endpoint's: of its attempts lately, the estimate for the next
}

// minCharge keeps attempts that take no time from being free.
const minCharge = 100 * time.Microsecond

func newFairness() fairness { return fairness{tenants: map[string]*share{}} }

func (f *fairness) tenant(ep *endpoint) *share {
	t := f.tenants[ep.config.Tenant]
	if t == nil {
		t = &share{number: len(f.tenants)}
		f.tenants[ep.config.Tenant] = t
	}
	return t
}

// add makes an endpoint ready.
func (f *fairness) add(ep *endpoint) {
	if ep.share.pos != 0 {
		return
	}
	t := f.tenant(ep)
	ep.share.ep, ep.share.number = ep, ep.number
	ep.share.used = max(ep.share.used, t.present)
	heap.Push(&t.ready, &ep.share)
	if t.pos == 0 {
		t.used = max(t.used, f.present)
		heap.Push(&f.ready, t)
	}
}

// remove makes an endpoint not ready.
func (f *fairness) remove(ep *endpoint) {
	if ep.share.pos == 0 {
		return
	}
	t := f.tenant(ep)
	heap.Remove(&t.ready, ep.share.pos-1)
	if len(t.ready) == 0 {
		heap.Remove(&f.ready, t.pos-1)
	}
}

// next is the endpoint to serve now, or nil. It stays ready.
func (f *fairness) next() *endpoint {
	if len(f.ready) == 0 {
		return nil
	}
	t := f.ready[0]
	f.present = t.used
	t.present = t.ready[0].used
	return t.ready[0].ep
}

// charge puts slot time on the accounts of an endpoint and its tenant; negative time corrects an estimate.
func (f *fairness) charge(ep *endpoint, d time.Duration) {
	t := f.tenant(ep)
	ep.share.used += d
	t.used += d
	if ep.share.pos != 0 {
		heap.Fix(&t.ready, ep.share.pos-1)
	}
	if t.pos != 0 {
		heap.Fix(&f.ready, t.pos-1)
	}
}

// estimate is what an attempt of this endpoint is charged when it starts; finish corrects it.
func (f *fairness) start(ep *endpoint) time.Duration {
	d := max(ep.share.average, minCharge)
	f.charge(ep, d)
	return d
}

func (f *fairness) finish(ep *endpoint, charged, took time.Duration) {
	took = max(took, minCharge)
	f.charge(ep, took-charged)
	ep.share.average += (took - ep.share.average) / 8
}

// shares is a heap of accounts, the least used first.
type shares []*share

func (s shares) Len() int { return len(s) }
func (s shares) Less(i, j int) bool {
	if s[i].used != s[j].used {
		return s[i].used < s[j].used
	}
	return s[i].number < s[j].number
}
func (s shares) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].pos, s[j].pos = i+1, j+1
}
func (s *shares) Push(x any) {
	e := x.(*share)
	*s = append(*s, e)
	e.pos = len(*s)
}
func (s *shares) Pop() any {
	old := *s
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	e.pos = 0
	return e
}
