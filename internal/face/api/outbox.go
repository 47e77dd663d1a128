package api

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// viewOutbox is a source's outbox as it is shown; nil: it has none. Its DSN is in no answer.
func viewOutbox(a *api, s *grapnel.Source) *wire.Outbox {
	if s.Outbox == nil {
		return nil
	}
	return a.viewRelay(s, relay.Place(s.Outbox.DSN.Text))
}

// viewConsumer is how the broker of a source is read; nil: it has none.
func viewConsumer(a *api, s *grapnel.Source) *wire.Outbox {
	if s.Broker == nil {
		return nil
	}
	return a.viewRelay(s, brokers.URL(s.Broker))
}

func (a *api) viewRelay(s *grapnel.Source, place string) *wire.Outbox {
	v := &wire.Outbox{Place: place, State: string(relay.Connecting)}
	if s.Paused {
		v.State = string(grapnel.EndpointPaused)
	}
	if a.Outboxes == nil {
		return v
	}
	if now, there := a.Outboxes.Status(s.ID); there && !s.Paused {
		v.State, v.Since, v.Detail, v.Lag = string(now.State), timeOf(now.Since), now.Detail, policy.Duration(now.Lag.Round(time.Millisecond))
		v.SeenAt, v.LastEventAt, v.Events, v.SetAside = timeOf(now.SeenAt), timeOf(now.MovedAt), now.Moved, now.Aside
	}
	return v
}

// setBroker puts a broker on a source, or adds its faults. The password stays while none is given.
func (a *api) setBroker(c *call, s *grapnel.Source, in *wire.NewSource, f *strict.Faults) {
	was := s.Broker
	s.Broker = a.target(c, was, in.Broker, "/broker", f)
	place, faults := a.CheckBroker(s.Broker)
	if !was.Same(s.Broker) && f.Free("/broker") {
		for _, fault := range faults {
			f.Add("/broker/"+fault.Field, "%s", fault.Detail)
		}
	}
	for _, e := range []struct{ field, text string }{{"type", in.Type}, {"key", in.Key}, {"event_id", in.EventID}} {
		if err := match.CheckExpression(e.text); e.text != "" && err != nil {
			f.Add("/"+e.field, "%s", err)
		}
	}
	if in.TLS != nil && *in.TLS != (wire.TLS{}) && !place.Secure && f.Free("/broker/address") {
		f.Add("/tls", "needs a broker whose address is one over TLS")
	}
	of := grapnel.Endpoint{TLS: s.TLS}
	a.setTLS(c, &of, &wire.NewEndpoint{TLS: in.TLS}, f)
	s.TLS = of.TLS
}

// setOutbox puts a producer's outbox on a source, or adds its faults.
// A source keeps its DSN while none is given.
func setOutbox(s *grapnel.Source, dsn string, now time.Time, f *strict.Faults) {
	switch {
	case dsn == "" && s.Outbox == nil:
		f.Add("/outbox/dsn", "is required")
	case dsn != "" && relay.CheckDSN(dsn) != nil:
		f.Add("/outbox/dsn", "%s", relay.CheckDSN(dsn))
	case dsn != "" && (s.Outbox == nil || s.Outbox.DSN.Text != dsn):
		s.Outbox = &grapnel.Outbox{DSN: grapnel.Secret{Text: dsn, CreatedAt: now}}
	}
}

// mayReach refuses an outbox from a caller whose key is bound to a tenant: the server would connect
// to an address of the caller's choice in the operator's network.
func (c *call) mayReach(in *wire.OutboxSettings, f *strict.Faults) {
	if in != nil && in.DSN != "" && c.key.Tenant != "" {
		f.Add("/outbox/dsn", "must be set with a key that is not bound to a tenant: the server connects to it")
	}
}
