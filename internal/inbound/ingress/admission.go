package ingress

import (
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// admission decides which requests are read and committed at once. A request holds a slot, and
// memory for the bytes of its body that have arrived, whatever length it announces. All requests
// together, each tenant, and each remote address while its requests are read, have a share of both.
//
// A share that is used up does not refuse a new request while another request in it is still being
// read: the slowest of those gives way. So a client cannot keep others out by holding connections
// open, because a complete request needs its slot only while its bytes arrive. It breaks if a
// request that was read waits for its sender again.
type admission struct {
	o       *Options
	mu      sync.Mutex
	all     share
	tenants map[string]share
	remotes map[netip.Prefix]share // of requests in the phase of being read
	reading []*slot
}

// share is the use by one tenant, by one remote address or by all together.
type share struct {
	requests int
	bytes    int64
}

// slot is the place of one request. Its fields belong to the admission's mutex.
type slot struct {
	a       *admission
	tenant  string
	remote  netip.Prefix
	vouched bool // its source has recently verified a request
	bytes   int64
	at      int // in reading; -1: it has been read, or has left
	left    bool
	control *http.ResponseController
	due     time.Time // when the least rate ends it; the earliest is the slowest
	end     time.Time // when BodyTimeout ends it
}

func newAdmission(o *Options) *admission {
	return &admission{o: o, tenants: map[string]share{}, remotes: map[netip.Prefix]share{}}
}

// enter returns the slot of a request, with the time for its body running; nil: all are in use.
func (a *admission) enter(tenant, address string, vouched bool, control *http.ResponseController) *slot {
	// Deadlines of a socket are real time, whatever Options.Now returns.
	now := time.Now()
	s := &slot{a: a, tenant: tenant, remote: network(address), vouched: vouched, control: control,
		due: now.Add(a.o.Bounds.BodyGrace), end: now.Add(a.o.Bounds.BodyTimeout)}
	// before it is listed: a request that has to give way gets a deadline of its own
	s.until(earliest(s.due, s.end))
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.claim(s, 1, 0) {
		return nil
	}
	s.at, a.reading = len(a.reading), append(a.reading, s)
	return s
}

// network is the range that counts as one remote address: a customer has at least 64 bits of IPv6
// addresses.
func network(address string) netip.Prefix {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip := at.Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits) // of a valid address
	return prefix
}

// arrived counts n bytes of the body and, if more are to come, extends the deadline. A burst
// extends it to at most BodyGrace from now. false: the slot was given to another request, or no
// memory is left for the bytes.
func (s *slot) arrived(n int, more bool) bool {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if s.left || !s.a.claim(s, 0, int64(n)) {
		return false
	}
	if more {
		b := &s.a.o.Bounds
		earned := time.Duration(float64(n) / float64(b.BodyRate) * float64(time.Second))
		s.due = earliest(s.due.Add(earned), time.Now().Add(b.BodyGrace))
		s.until(earliest(s.due, s.end))
	}
	return true
}

// discarding extends the deadline for reading a body that is discarded. Its answer is known
// already, so the request gives way before all others, also before those that came earlier.
func (s *slot) discarding() {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if !s.left {
		s.due = time.Time{}
		s.until(time.Now().Add(s.a.o.Bounds.DiscardTime))
	}
}

// read says that the whole body has arrived: from now on the request does not give way. false: it
// has.
func (s *slot) read() bool {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if s.left {
		return false
	}
	s.a.unlist(s)
	return true
}

// leave releases the slot.
func (s *slot) leave() {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.a.release(s)
}

// until sets when reading ends. A connection without deadlines is read without.
func (s *slot) until(t time.Time) { _ = s.control.SetReadDeadline(t) }

func earliest(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }

// busy is how many requests hold a slot.
func (a *admission) busy() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all.requests
}

// claim counts requests and bytes for a slot in each of its shares. If one is used up, slower
// requests in it give way. Each tenant's share contains the reserve too: a flood at a source
// without verification leaves the reserve to the tenant's other sources.
func (a *admission) claim(s *slot, requests int, bytes int64) bool {
	b, reserve := &a.o.Bounds, 0
	if !s.vouched {
		reserve = b.Reserve
	}
	for _, of := range []struct {
		part, reserve int
		held          func() share
		among         func(*slot) bool
	}{
		{b.RemoteShare, 0, func() share { return a.remotes[s.remote] }, func(v *slot) bool { return v.remote == s.remote }},
		{b.TenantShare, reserve, func() share { return a.tenants[s.tenant] }, func(v *slot) bool { return v.tenant == s.tenant }},
		{1, reserve, func() share { return a.all }, func(*slot) bool { return true }},
	} {
		if !a.fit(s, requests, bytes, of.part, of.reserve, of.held, of.among) {
			return false
		}
	}
	s.bytes += bytes
	add(a.remotes, s.remote, requests, bytes)
	a.hold(s, requests, bytes)
	return true
}

// fit makes requests of a share give way, the slowest first, until the given requests and bytes
// fit. A share is 1/part of everything, less 1/reserve of that unless reserve is 0. A single body
// may be larger than its share.
func (a *admission) fit(s *slot, requests int, bytes int64, part, reserve int, held func() share, among func(*slot) bool) bool {
	slots, space := a.o.Bounds.MaxAtOnce/part, a.o.Bounds.MaxBuffered/int64(part)
	if reserve > 0 {
		slots, space = slots-slots/reserve, space-space/int64(reserve)
	}
	for {
		now := held()
		fits := now.requests+requests <= max(slots, 1)
		if requests == 0 { // bytes of a request that has its slot, also if others fill the reserve meanwhile
			fits = now.bytes+bytes <= space || now.bytes == s.bytes
		}
		if fits {
			return true
		}
		var slowest *slot
		for _, v := range a.reading {
			if v != s && (bytes == 0 || v.bytes > 0) && among(v) && (slowest == nil || v.due.Before(slowest.due)) {
				slowest = v
			}
		}
		if slowest == nil {
			return false
		}
		a.release(slowest)
		slowest.until(time.Unix(1, 0)) // in the past: its read ends now
	}
}

// unlist takes a slot off the list of those being read, and out of the share of its remote address.
func (a *admission) unlist(s *slot) {
	last := len(a.reading) - 1
	a.reading[s.at] = a.reading[last]
	a.reading[s.at].at = s.at
	a.reading[last] = nil
	a.reading, s.at = a.reading[:last], -1
	add(a.remotes, s.remote, -1, -s.bytes)
}

// release releases everything that a slot holds, once.
func (a *admission) release(s *slot) {
	if s.left {
		return
	}
	s.left = true
	if s.at >= 0 {
		a.unlist(s)
	}
	a.hold(s, -1, -s.bytes)
}

// hold counts for the slot's tenant and for all.
func (a *admission) hold(s *slot, requests int, bytes int64) {
	add(a.tenants, s.tenant, requests, bytes)
	a.all.requests += requests
	a.all.bytes += bytes
}

// add counts in a share, and deletes one that becomes empty: there are never more shares than
// slots.
func add[K comparable](shares map[K]share, key K, requests int, bytes int64) {
	s := shares[key]
	s.requests += requests
	s.bytes += bytes
	if s == (share{}) {
		delete(shares, key)
	} else {
		shares[key] = s
	}
}
