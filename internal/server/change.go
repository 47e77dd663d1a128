package server

import (
	"net/netip"

	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Change takes over the options that a running server can change; the others stay as they are. The
// next request, attempt or round of purging goes by the new ones. One call at a time.
func (s *Server) Change(to Options) {
	o := *s.changed.Load()
	o.EgressAllow, o.HTTPSOnly, o.Proxies = to.EgressAllow, to.HTTPSOnly, to.Proxies
	o.MaxPending, o.MaxEndpoints, o.MaxTypes = to.MaxPending, to.MaxEndpoints, to.MaxTypes
	o.PublishRate, o.EventsPerDay = to.PublishRate, to.EventsPerDay
	o.Consent = to.Consent
	o.Retention, o.Rules = to.Retention, to.Rules
	o.Settings = to.Settings
	s.changed.Store(&o)
	s.sender.Allow(o.EgressAllow, o.HTTPSOnly)
	s.limit(s.lives.now.Load())
}

// limit gives a life the limits and the retention as they are now.
func (s *Server) limit(l *life) {
	o := s.changed.Load()
	l.engine.SetLimits(o.limits(), engine.Retention{For: o.Retention, Rules: o.Rules})
}

func (o *Options) limits() engine.Limits {
	return engine.Limits{MaxPending: o.MaxPending, MaxEndpoints: o.MaxEndpoints, MaxTypes: o.MaxTypes,
		PublishRate: o.PublishRate, EventsPerDay: o.EventsPerDay, Consent: o.Consent}
}

func (s *Server) proxies() []netip.Prefix { return s.changed.Load().Proxies }

func (s *Server) keep() store.Keep {
	o := s.changed.Load()
	return store.Keep{For: o.Retention, Rules: o.Rules}
}

func (s *Server) urlRules() egress.URLRules {
	o := s.changed.Load()
	return egress.URLRules{Allow: o.EgressAllow, HTTPSOnly: o.HTTPSOnly, Own: o.PublicURL}
}
