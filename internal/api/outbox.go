package api

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/relay"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// Outboxes knows how the relays of outboxes are doing.
type Outboxes interface {
	Status(source string) (relay.Status, bool)
}

// viewOutbox is a source's outbox as it is shown; nil: it has none. Its DSN is in no answer.
func viewOutbox(a *api, s *grapnel.Source) *wire.Outbox {
	if s.Outbox == nil {
		return nil
	}
	v := &wire.Outbox{Place: relay.Place(s.Outbox.DSN.Text), State: string(relay.Connecting)}
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

// setOutbox puts a producer's outbox on a source, or says what is wrong with it. It keeps its DSN while none is given. What is about requests means
// nothing here, and is refused instead of ignored.
func setOutbox(s *grapnel.Source, in *wire.NewSource, now time.Time, f *strict.Faults) {
	switch dsn := in.Outbox.DSN; {
	case dsn == "" && s.Outbox == nil:
		f.Add("/outbox/dsn", "is required")
	case dsn != "" && relay.CheckDSN(dsn) != nil:
		f.Add("/outbox/dsn", "%s", relay.CheckDSN(dsn))
	case dsn != "" && (s.Outbox == nil || s.Outbox.DSN.Text != dsn):
		s.Outbox = &grapnel.Outbox{DSN: grapnel.Secret{Text: dsn, CreatedAt: now}}
	}
	for name, given := range map[string]bool{
		"verify": in.Verify.Scheme != "", "dedupe": in.Dedupe != nil, "on_unverified": in.OnUnverified == grapnel.Quarantine, "type": in.Type != "",
		"key": in.Key != "", "public_url": in.PublicURL != "", "rate_limit": in.RateLimit != nil, "max_body": in.MaxBody != 0,
	} {
		if given {
			f.Add("/"+name, "must not be given with outbox: it is about requests")
		}
	}
}

// mayReach says whether the caller may make the server connect to databases. Whoever has a key of one tenant may not: the network that the server is
// in belongs to whoever runs it.
func (c *call) mayReach(in *wire.NewSource, f *strict.Faults) {
	if in.Outbox != nil && in.Outbox.DSN != "" && c.key.Tenant != "" {
		f.Add("/outbox/dsn", "must be set with a key that is not bound to a tenant: the server connects to it")
	}
}
