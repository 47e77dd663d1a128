package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/match"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Operational events. A tenant's other enabled endpoints get ordinary events about an endpoint that fails, is
// disabled, or recovers. Each is committed in the transaction of the change that it is about: both are durable
// or neither. Its id is computed from that change, so a repeated commit is the same event once more.
//
// Events about an endpoint cause no others: two endpoints that both fail do not keep telling each other.

// newsBudget is what all filters of one notice may cost: some 10 ms, because the recorder waits for it.
const newsBudget = 250_000

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
	// No caller can be refused here: beyond the budget the event counts as not wanted, as it does for
	// a filter that is too costly by itself.
	targets, _ := c.match(ev, func(ep *grapnel.Endpoint) bool {
		return ep.ID != n.EndpointID && ep.Status == grapnel.EndpointEnabled
	}, match.NewBudget(context.Background(), newsBudget))
	return store.Incoming{Event: ev, Targets: targets}, len(targets) > 0
}

// operational are the types of operational events that outcomes cause.
var operational = [...]string{grapnel.EventDeliveryFailed, grapnel.EventEndpointFailing, grapnel.EventEndpointRecovered}

// audience is who in a tenant subscribes to each of the types in operational. Two endpoints are enough to know
// whether there is one besides the endpoint that an event is about.
type audience [len(operational)]struct{ one, another string }

// audiences finds the audience of every tenant that has one. It looks at subscriptions only: what a filter
// says of an event is found when there is one.
func audiences(endpoints []*placed) map[string]*audience {
	all := map[string]*audience{}
	for _, ep := range endpoints {
		if ep.Status != grapnel.EndpointEnabled || !ep.DeletedAt.IsZero() || ep.Source != "" {
			continue
		}
		for n, kind := range operational {
			subscribes := func(pattern string) bool { return grapnel.MatchType(pattern, kind) }
			if len(ep.EventTypes) > 0 && !slices.ContainsFunc(ep.EventTypes, subscribes) {
				continue
			}
			a := all[ep.Tenant]
			if a == nil {
				a = &audience{}
				all[ep.Tenant] = a
			}
			if a[n].one == "" {
				a[n].one = ep.ID
			} else {
				a[n].another = ep.ID
			}
		}
	}
	return all
}

// wanted says whether another endpoint of the tenant, or a queue, subscribes to any of the news about one.
func (c *configuration) wanted(ep *grapnel.Endpoint, all []core.News) bool {
	a := c.routes.audiences()[ep.Tenant]
	if a == nil || ep.Quiet() {
		return false
	}
	for i := range all {
		n := slices.Index(operational[:], all[i].Type)
		if n >= 0 && (a[n].another != "" || a[n].one != "" && a[n].one != ep.ID) {
			return true
		}
	}
	return false
}

// nameless says whether a change causes operational events and its event has to be read to name it there.
func (e *Engine) nameless(conf *configuration, ch *core.Change) bool {
	if len(ch.News) == 0 || ch.Subject.ID != "" || ch.Subject.Event == 0 {
		return false
	}
	ep := conf.at(ch.Endpoint)
	return ep != nil && conf.wanted(ep, ch.News)
}

// name reads the events of changes that have none. An event that cannot be read keeps no outcome from being
// recorded: after some tries its operational event goes without naming it.
func (e *Engine) name(page []core.Change) {
	for try := 1; ; try++ {
		err := e.readNames(page)
		if err == nil {
			break
		}
		if try == e.bounds.Recorder.Tries {
			e.log.Error("reading events failed; operational events will not name them", "changes", len(page), "err", err)
			break
		}
		e.wait(pause(try))
	}
	for i := range page {
		page[i].Subject.Event = 0 // this was tried
	}
}

// readNames looks for events in memory, then in the store, all of them at once. Of an event whose payload is
// damaged the store still knows what its delivery was of.
func (e *Engine) readNames(page []core.Change) error {
	var seqs []int64
	var of []int
	for i := range page {
		s := &page[i].Subject
		if s.ID != "" || s.Event == 0 {
			continue
		}
		if ev := e.events.get(s.Event); ev != nil {
			s.Named = core.Named{ID: ev.ID, Type: ev.Type, Key: ev.Key}
			continue
		}
		seqs, of = append(seqs, s.Event), append(of, i)
	}
	if len(seqs) == 0 {
		return nil
	}
	events, err := e.store.Events(context.Background(), seqs)
	if err != nil {
		return err
	}
	for n, ev := range events {
		s := &page[of[n]].Subject
		if ev != nil {
			s.Named = core.Named{ID: ev.ID, Type: ev.Type, Key: ev.Key}
			continue
		}
		d, err := e.store.Delivery(context.Background(), store.Everyone(), page[of[n]].Delivery)
		switch {
		case err == nil:
			s.Named = core.Named{ID: d.EventID, Type: d.Type, Key: d.Key}
		case grapnel.CodeOf(err) != grapnel.CodeNotFound: // else the change will not apply either
			return err
		}
	}
	return nil
}

// tell makes a change's news into events; nil: there is no news, or no endpoint wants it.
func (c *configuration) tell(ch *core.Change) *store.Batch {
	ep := c.at(ch.Endpoint)
	if ep == nil || !c.wanted(ep, ch.News) || grapnel.Operational(ch.Subject.Type) {
		return nil
	}
	attempts := ch.Subject.Attempts
	if ch.Attempt != nil {
		attempts = ch.Attempt.Number
	}
	told := &store.Batch{Config: c.version}
	for _, news := range ch.News {
		n := notice{EndpointID: ep.ID, Tenant: ep.Tenant, Reason: news.Reason, Percent: news.Percent}
		if news.Type == grapnel.EventDeliveryFailed {
			n.loss = &loss{DeliveryID: grapnel.DeliveryID(ch.Subject.CreatedAt, ch.Delivery), EventID: ch.Subject.ID, EventType: ch.Subject.Type,
				Key: ch.Subject.Key, Attempts: attempts, ReasonCode: ch.ReasonCode, Blocked: news.Blocked}
		}
		if in, wanted := c.event(news.Type, ch.At, n, fmt.Sprint(ch.Delivery, " ", news.Percent)); wanted {
			told.Events = append(told.Events, in)
		}
	}
	if len(told.Events) == 0 {
		return nil
	}
	return told
}

// tellStatus makes an event of a change that disables an endpoint or ends that; nil: it does neither, or nobody wants to know.
func (c *configuration) tellStatus(ep *grapnel.Endpoint, at time.Time, by *grapnel.AuditEntry) *store.Batch {
	before := c.at(ep.ID)
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
