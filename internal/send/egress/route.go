package egress

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// route returns the prepared route of an endpoint. It counts the send; the caller calls
// s.sends.Done when ok.
func (s *Sender) route(e *grapnel.Endpoint, proxy string, now time.Time) (r *route, ok bool) {
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return nil, false
	}
	s.sends.Add(1)
	r = s.routes[e.ID]
	s.mu.RUnlock()
	if r.serves(e, proxy, now) {
		return r, true
	}
	return s.renew(e, proxy, now), true
}

func (r *route) serves(e *grapnel.Endpoint, proxy string, now time.Time) bool {
	// A named policy can change under an endpoint that did not. A database that went back gives the
	// numbers of revisions again.
	return r != nil && now.Before(r.until) && r.timeout == timeoutOf(e) && r.through == proxy &&
		(r.endpoint == e || r.endpoint.Revision == e.Revision && e.Revision != 0 && r.endpoint.UpdatedAt.Equal(e.UpdatedAt))
}

// renew replaces a route. Requests in progress on the old one's connections finish; then those
// connections are closed.
func (s *Sender) renew(e *grapnel.Endpoint, proxy string, now time.Time) *route {
	is := s.rules.Load()
	fresh := s.prepare(e, proxy, now)
	s.mu.Lock()
	if s.rules.Load() != is { // fresh was prepared by the former rules
		s.mu.Unlock()
		return s.renew(e, proxy, now)
	}
	old := s.routes[e.ID]
	fresh.prepareTokens(e, old)
	if old.serves(e, proxy, now) { // another attempt was faster
		s.mu.Unlock()
		return old
	}
	var stale []*route
	if s.routes != nil {
		s.routes[e.ID] = fresh
		stale = s.sweep(now)
	}
	s.mu.Unlock()
	if old != nil {
		stale = append(stale, old)
	}
	leave(s, slices.Values(stale))
	return fresh
}

// sweep forgets routes that have ended without being used again, and hold no token, now and then;
// s.mu is held.
func (s *Sender) sweep(now time.Time) (stale []*route) {
	if now.Before(s.sweepAt) {
		return nil
	}
	s.sweepAt = now.Add(s.opts.MaxConnAge)
	for id, r := range s.routes {
		if !now.Before(r.until) && r.tokens.live(now) == nil {
			delete(s.routes, id)
			stale = append(stale, r)
		}
	}
	return stale
}

// prepare makes a route, even for an endpoint that cannot be used: that is found once, not at every
// attempt.
func (s *Sender) prepare(e *grapnel.Endpoint, proxy string, now time.Time) *route {
	r := &route{endpoint: e, through: proxy, until: now.Add(s.opts.MaxConnAge), timeout: timeoutOf(e)}
	r.pool.most, r.pool.timeout = max(e.MaxConcurrency, grapnel.DefaultMaxConcurrency), s.opts.IdleTimeout
	switch {
	case e.Channel != nil:
		return s.prepareChannel(r, e)
	case e.Target != nil:
		return r.prepareBroker(s, e, now)
	}
	is := s.rules.Load()
	u, err := parseURL(e.URL, is.httpsOnly, is.guard)
	if err != nil {
		return r.unusable(policy.ClassBlocked, "the endpoint's URL "+err.Error())
	}
	if err := r.prepareRequest(s, cmp.Or(e.Method, http.MethodPost), u); err != nil {
		return r.unusable(policy.ClassBlocked, "the endpoint's URL cannot be requested: "+err.Error())
	}
	if err := r.prepareTLS(e); err != nil {
		return r.unusable(policy.ClassTLS, err.Error())
	}
	if err := r.prepareProxies(s, e.Proxy.Text, proxy); err != nil {
		return r.unusable(policy.ClassBlocked, err.Error())
	}
	if err := r.prepareSigner(e, now); err != nil {
		return r.unusable(policy.ClassInternal, err.Error())
	}
	if err := r.prepareHeaders(e, s.opts.UserAgent, s.opts.Node); err != nil {
		return r.unusable(policy.ClassInternal, err.Error())
	}
	return r
}
