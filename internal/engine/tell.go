package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Telling. What happens to an endpoint is told to its tenant's other enabled endpoints, as ordinary events, which are committed in the
// transaction of what they tell of: both are durable or neither, so nothing is told twice and nothing is forgotten, whatever answer gets
// lost. The ids of these events are computed from what they are about, which makes a repetition the same event once more.
//
// Events about an endpoint cause no others: two endpoints that both fail do not keep telling each other.

// notice is the data of an event about an endpoint.
type notice struct {
	EndpointID string `json:"endpoint_id"`
	Tenant     string `json:"tenant"`
	Reason     string `json:"reason"`
	*loss
	Percent int `json:"percent,omitempty"` // of the way to being disabled
}

// loss is the part of a notice that is about a delivery.
type loss struct {
	DeliveryID string             `json:"delivery_id"`
	EventID    string             `json:"event_id"`
	EventType  string             `json:"event_type"`
	Key        string             `json:"key,omitempty"`
	Attempts   int                `json:"attempts"`
	ReasonCode grapnel.ReasonCode `json:"reason_code"`
	Blocked    bool               `json:"blocked,omitempty"`
}

// event is a notice for those who want it: the tenant's other enabled endpoints, by what they subscribe to. false: nobody does.
//
// The event's id is made of the time, which a change keeps when it is recorded again, and of what the notice is about. The endpoint's id is
// part of it and known to nobody but its tenant, so that nobody else can take the event's id first.
func (c *configuration) event(kind string, at time.Time, n notice, about string) (store.Incoming, bool) {
	data, err := json.Marshal(n)
	if err != nil {
		panic("engine: a notice cannot be encoded: " + err.Error()) // it has strings and numbers
	}
	unique := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %s", kind, n.EndpointID, at.UnixMicro(), about))
	ev := &grapnel.Event{
		ID: grapnel.NewID(grapnel.EventPrefix, at, bytes.NewReader(unique[:])), Tenant: n.Tenant, Type: kind,
		Data: data, ContentType: grapnel.JSONType, OccurredAt: at, AcceptedAt: at,
	}
	if n.loss == nil {
		ev.Key = n.EndpointID // who follows how an endpoint is doing must see that in order; dead letters have none among them
	}
	targets := c.match(ev, func(ep *grapnel.Endpoint) bool {
		return ep.ID != n.EndpointID && ep.Status == grapnel.EndpointEnabled
	})
	return store.Incoming{Event: ev, Targets: targets}, len(targets) > 0
}

// audience says whether there is anybody who could be told of an endpoint.
func (c *configuration) audience(ep *grapnel.Endpoint) bool {
	others := c.enabled[ep.Tenant]
	if ep.Status == grapnel.EndpointEnabled && ep.DeletedAt.IsZero() {
		others--
	}
	return others > 0
}

// tell makes a change's news into events; nil: there is nothing to tell, or nobody. The change itself does not say of which event it is,
// so the delivery is read, which is done for nothing but news.
func (e *Engine) tell(conf *configuration, ch *core.Change) (*store.Batch, error) {
	ep := conf.at(ch.Endpoint)
	if ep == nil || !conf.audience(ep) {
		return nil, nil
	}
	d, err := e.store.Delivery(context.Background(), store.Everyone(), ch.Delivery)
	switch {
	case grapnel.CodeOf(err) == grapnel.CodeNotFound:
		return nil, nil // then the change will not apply either
	case err != nil:
		return nil, err
	case grapnel.Operational(d.Type):
		return nil, nil
	}
	attempts := d.AttemptsMade
	if ch.Attempt != nil {
		attempts = ch.Attempt.Number
	}
	told := &store.Batch{Config: conf.version}
	for _, news := range ch.News {
		n := notice{EndpointID: ep.ID, Tenant: ep.Tenant, Reason: news.Reason, Percent: news.Percent}
		if news.Type == grapnel.EventDeliveryFailed {
			n.loss = &loss{DeliveryID: d.ID(), EventID: d.EventID, EventType: d.Type, Key: d.Key, Attempts: attempts,
				ReasonCode: ch.ReasonCode, Blocked: news.Blocked}
		}
		if in, wanted := conf.event(news.Type, ch.At, n, fmt.Sprint(d.Seq, " ", news.Percent)); wanted {
			told.Events = append(told.Events, in)
		}
	}
	if len(told.Events) == 0 {
		return nil, nil
	}
	return told, nil
}

// tellStatus makes an event of a change that disables an endpoint or ends that; nil: it does neither, or nobody wants to know.
func (c *configuration) tellStatus(ep *grapnel.Endpoint, at time.Time, by *grapnel.AuditEntry) *store.Batch {
	before := c.at(ep.ID)
	if before == nil {
		return nil
	}
	var kind string
	n := notice{EndpointID: ep.ID, Tenant: ep.Tenant}
	switch was, is := before.Status == grapnel.EndpointDisabled, ep.Status == grapnel.EndpointDisabled; {
	case is && !was:
		kind, n.Reason = grapnel.EventEndpointDisabled, ep.DisabledReason
	case was && !is:
		kind, n.Reason = grapnel.EventEndpointEnabled, "it was enabled again"
		if by != nil && by.Reason != "" {
			n.Reason += ": " + by.Reason
		}
	default:
		return nil
	}
	in, wanted := c.event(kind, at, n, fmt.Sprint("revision ", ep.Revision))
	if !wanted {
		return nil
	}
	return &store.Batch{Config: c.version, Events: []store.Incoming{in}}
}

// told goes on with events that were told, which are durable now; nil: none were.
func (e *Engine) told(tell *store.Batch, done *store.Accepted) {
	if done == nil {
		return
	}
	for i, placed := range done.Events {
		if placed.Conflict {
			e.log.Error("an event about an endpoint could not be told: its id is taken", "event", tell.Events[i].Event.ID, "type", tell.Events[i].Event.Type)
		}
	}
	e.accepted(tell.Events, *done)
}
