package api

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/relay"
)

// outboxSettings say where a producer's outbox is.
type outboxSettings struct {
	DSN string `json:"dsn,omitempty" minLength:"1" maxLength:"2048" doc:"how to connect to the producer's PostgreSQL, as in postgres://user:password@host:5432/database; required when there is none yet"`
}

// outboxView says how the relay of an outbox is doing.
type outboxView struct {
	Place       string `json:"place" doc:"where the outbox is, without what is a secret"`
	State       string `json:"state" enum:"paused,connecting,relaying,standby,held,away" doc:"relaying: all is well; standby: another server relays; held: the server takes no more at the moment; away: the database cannot be used, or has no outbox"`
	Since       *stamp `json:"since" nullable:"true"`
	Detail      string `json:"detail" doc:"why, where it is not well"`
	Lag         span   `json:"lag" doc:"how long the oldest event waits that was committed; while the database is away, at most so long"`
	SeenAt      *stamp `json:"seen_at" nullable:"true" doc:"when this server looked at it last"`
	LastEventAt *stamp `json:"last_event_at" nullable:"true" doc:"when events came from it last, since this server was started"`
	Events      int64  `json:"events" doc:"that came from it since this server was started"`
	SetAside    int64  `json:"set_aside" doc:"of those, that could not be taken; they are in the inbox"`
}

// viewOutbox is a source's outbox as it is shown; nil: it has none. Its DSN is in no answer.
func viewOutbox(a *api, s *grapnel.Source) *outboxView {
	if s.Outbox == nil {
		return nil
	}
	v := &outboxView{Place: relay.Place(s.Outbox.DSN.Text), State: string(relay.Connecting)}
	if s.Paused {
		v.State = string(grapnel.EndpointPaused)
	}
	if a.Outboxes == nil {
		return v
	}
	if now, there := a.Outboxes.Status(s.ID); there && !s.Paused {
		v.State, v.Since, v.Detail, v.Lag = string(now.State), stampOf(now.Since), now.Detail, span(now.Lag.Round(time.Millisecond))
		v.SeenAt, v.LastEventAt, v.Events, v.SetAside = stampOf(now.SeenAt), stampOf(now.MovedAt), now.Moved, now.Aside
	}
	return v
}

// setOutbox puts a producer's outbox on a source, or says what is wrong with it.
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

// mayReach says whether the caller may make the server connect to databases. Whoever has a key of one tenant may not: the network that the server is
// in belongs to whoever runs it.
func (c *call) mayReach(in *outboxSettings, f *strict.Faults) {
	if in != nil && in.DSN != "" && c.key.Tenant != "" {
		f.Add("/outbox/dsn", "must be set with a key that is not bound to a tenant: the server connects to it")
	}
}
