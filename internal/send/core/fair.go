package core

import "time"

func (s *share) place() *int { return &s.pos }

func (s *share) before(other *share) bool {
	if s.used != other.used {
		return s.used < other.used
	}
	return s.number < other.number
}

// minCharge keeps attempts that take no time from being free. maxCharge keeps a jump of the clock
// from ruining an account.
const (
	minCharge = 100 * time.Microsecond
	maxCharge = 10 * time.Minute
)

func newFairness() fairness { return fairness{tenants: map[string]*share{}} }

func (f *fairness) tenant(ep *endpoint) *share {
	t := f.tenants[ep.config.Tenant]
	if t == nil {
		t = &share{number: len(f.tenants)}
		f.tenants[ep.config.Tenant] = t
	}
	return t
}

// add makes an endpoint ready. An endpoint that was idle starts at the present account. An endpoint
// that a quota refused had deliveries all the time, so its account stays.
func (f *fairness) add(ep *endpoint, wasRefused bool) {
	if ep.share.pos != 0 {
		return
	}
	t := f.tenant(ep)
	ep.share.ep, ep.share.number = ep, ep.number
	if !wasRefused {
		ep.share.used = max(ep.share.used, t.present)
	}
	t.ready.put(&ep.share)
	if t.pos == 0 {
		if !wasRefused {
			t.used = max(t.used, f.present)
		}
		f.ready.put(t)
	}
}

// remove makes an endpoint not ready.
func (f *fairness) remove(ep *endpoint) {
	if ep.share.pos == 0 {
		return
	}
	t := f.tenant(ep)
	t.ready.leave(&ep.share)
	if t.ready.empty() {
		f.ready.leave(t)
	}
}

// next is the endpoint to serve now, or nil. It stays ready.
func (f *fairness) next() *endpoint {
	t, ok := f.ready.first()
	if !ok {
		return nil
	}
	first, _ := t.ready.first() // a tenant is ready only while one of its endpoints is
	f.present, t.present = t.used, first.used
	return first.ep
}

// charge adds slot time to the accounts of an endpoint and its tenant; a negative time corrects an
// estimate.
func (f *fairness) charge(ep *endpoint, d time.Duration) {
	t := f.tenant(ep)
	ep.share.used += d
	t.used += d
	if ep.share.pos != 0 {
		t.ready.put(&ep.share)
	}
	if t.pos != 0 {
		f.ready.put(t)
	}
}

// start charges a new attempt with the average duration of the endpoint's attempts; finish corrects
// it.
func (f *fairness) start(ep *endpoint) time.Duration {
	d := max(ep.share.average, minCharge)
	f.charge(ep, d)
	return d
}

func (f *fairness) finish(ep *endpoint, charged, took time.Duration) {
	took = min(max(took, minCharge), maxCharge)
	f.charge(ep, took-charged)
	if ep.share.average == 0 {
		ep.share.average = took
	}
	ep.share.average += (took - ep.share.average) / 8
}
