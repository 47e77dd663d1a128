package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Operational events. A tenant's other enabled endpoints get ordinary events about an endpoint that
// fails, is disabled, or recovers. Each is committed in the transaction of the change that it
// reports: both are durable or neither. Its id is computed from that change, so a repeated commit
// creates the same event.
//
// Events about an endpoint cause no further events: two endpoints that both fail do not notify each
// other forever.

// newsBudget is the budget for all filters of one notice: about 10 ms, because the recorder waits
// for it.
const newsBudget = 250_000

// notice is the data of an event about an endpoint.
type notice struct {
	EndpointID string `json:"endpoint_id"`
	Tenant     string `json:"tenant"`
	Reason     string `json:"reason"`
	*loss
	Percent int `json:"percent,omitempty"` // of the way to being disabled
}

// loss is the part of a notice about a delivery.
type loss struct {
	DeliveryID string             `json:"delivery_id"`
	EventID    string             `json:"event_id"`
	EventType  string             `json:"event_type"`
	Key        string             `json:"key,omitempty"`
	Attempts   int                `json:"attempts"`
	ReasonCode grapnel.ReasonCode `json:"reason_code"`
	Blocked    bool               `json:"blocked,omitempty"`
}

// event makes an event of a notice, for the tenant's other enabled endpoints that subscribe to it.
// false: none does.
//
// The event's id is derived from the time, which a repeated change keeps, and from the subject of
// the notice. The endpoint's id is part of it: only its tenant knows that, so no other tenant can
// publish under the event's id first. A row id must not be part of it, because the tenant could
// find it by trial.
func event(c *configuration.Snapshot, kind string, at time.Time, n notice, about string) (store.Incoming, bool) {
	data, err := json.Marshal(n)
	if err != nil {
		// it holds only strings and numbers
		panic("engine: a notice cannot be encoded: " + err.Error())
	}
	unique := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %s", kind, n.EndpointID, at.UnixMicro(), about))
	ev := &grapnel.Event{
		ID: grapnel.NewID(grapnel.EventPrefix, at, bytes.NewReader(unique[:])), Tenant: n.Tenant, Type: kind,
		Data: data, ContentType: grapnel.JSONType, OccurredAt: at, AcceptedAt: at,
	}
	if n.loss == nil {
		// the events of one endpoint stay in order; dead letters have no key
		ev.Key = n.EndpointID
	}
	// No caller can be refused here: beyond the budget the event counts as not wanted, as for a
	// filter that is too costly by itself.
	targets, _ := c.Match(ev, func(ep *grapnel.Endpoint) bool {
		return ep.ID != n.EndpointID && ep.Status == grapnel.EndpointEnabled
	}, match.NewBudget(context.Background(), newsBudget))
	return store.Incoming{Event: ev, Targets: targets}, len(targets) > 0
}

// types iterates over the types of news.
func types(all []core.News) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range all {
			if !yield(all[i].Type) {
				return
			}
		}
	}
}

// operationalOfChange makes events of a change's news; nil: it has no news, or no endpoint
// subscribes.
func operationalOfChange(c *configuration.Snapshot, ch *core.Change, ids *grapnel.IDs) *store.Batch {
	if len(ch.News) == 0 {
		return nil
	}
	ep := c.At(ch.Endpoint)
	if ep == nil || !c.Wanted(ep, types(ch.News)) || grapnel.Operational(ch.Subject.Type) {
		return nil
	}
	attempts := ch.Subject.Attempts
	if ch.Attempt != nil {
		attempts = ch.Attempt.Number
	}
	told := &store.Batch{Config: c.Version}
	for _, news := range ch.News {
		n := notice{EndpointID: ep.ID, Tenant: ep.Tenant, Reason: news.Reason, Percent: news.Percent}
		if news.Type == grapnel.EventDeliveryFailed {
			n.loss = &loss{DeliveryID: ids.Delivery(ch.Subject.CreatedAt, ch.Delivery), EventID: ch.Subject.ID, EventType: ch.Subject.Type,
				Key: ch.Subject.Key, Attempts: attempts, ReasonCode: ch.ReasonCode, Blocked: news.Blocked}
		}
		if in, wanted := event(c, news.Type, ch.At, n, fmt.Sprint(ids.Seed(ch.Delivery), " ", news.Percent)); wanted {
			told.Events = append(told.Events, in)
		}
	}
	if len(told.Events) == 0 {
		return nil
	}
	return told
}

// operationalOfStatus makes an event of a change that disables or enables an endpoint; nil: it
// does neither, or no endpoint subscribes.
func operationalOfStatus(c *configuration.Snapshot, ep *grapnel.Endpoint, at time.Time, by *grapnel.AuditEntry) *store.Batch {
	before := c.At(ep.ID)
	if before == nil || ep.Quiet() {
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
	in, wanted := event(c, kind, at, n, fmt.Sprint("revision ", ep.Revision))
	if !wanted {
		return nil
	}
	return &store.Batch{Config: c.Version, Events: []store.Incoming{in}}
}

// hush has a change not counted if its endpoint is not. It removes the operational events of a
// quiet queue's delivery, whose failure becomes a discard.
func hush(c *configuration.Snapshot, ch *core.Change) {
	ep := c.At(ch.Endpoint)
	if ep == nil || !ep.Uncounted() {
		return
	}
	if ch.Uncounted = true; !ep.Quiet() {
		return
	}
	ch.News = nil
	if ch.Status == grapnel.Failed || ch.Blocked {
		ch.Status, ch.ReasonCode, ch.Blocked = grapnel.Discarded, grapnel.ReasonNone, false
		ch.Reason = "discarded because the queue is quiet:  " + strings.TrimPrefix(ch.Reason, "failed: ")
	}
}
