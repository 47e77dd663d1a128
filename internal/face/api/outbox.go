package api

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

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
