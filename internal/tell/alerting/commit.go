package alerting

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// part is what one round commits for one tenant.
type part struct {
	keeper    *Keeper
	tenant    string
	now       time.Time
	boxes     *mailbag
	operators *mailbag // of channels that get the alerts of all tenants; the parts of a round share it
	due       bool     // a digest has to be sent
	changes   []alert.Change
	revisions map[string]int64 // of stored alerts
}

// mailbag is the document of alert.KindMessages of one tenant.
type mailbag struct {
	tenant string // empty: the operator
	doc    store.Document
	next   []byte // its body after the transaction on its way; nil: it stays as it is
}

// stored notes that the transaction is durable.
func (m *mailbag) stored() {
	if m.next != nil {
		m.doc.Revision, m.doc.Body, m.next = m.doc.Revision+1, m.next, nil
	}
}

// commit stores the transitions with their messages, a page at a time.
func (p *part) commit(ctx context.Context) error {
	for first := true; first || len(p.changes) > 0; first = false {
		page := p.changes[:min(len(p.changes), p.keeper.bounds.Page)]
		_, err := p.keeper.o.Engine.PutDocuments(ctx, store.Everyone(), store.With{},
			func(targets func(*grapnel.Event, []string) []store.Target) ([]store.DocumentWrite, []store.Incoming) {
				return p.compose(clone(page), targets)
			})
		if err != nil {
			return err
		}
		p.log(page)
		p.changes = p.changes[len(page):]
		p.boxes.stored()
		p.operators.stored()
	}
	return nil
}

// clone copies changes, because Post adds messages to their alerts.
func clone(changes []alert.Change) []alert.Change {
	all := slices.Clone(changes)
	for i := range all {
		a := *all[i].Alert
		a.Messages = slices.Clone(a.Messages)
		all[i].Alert = &a
	}
	return all
}

// compose returns the writes and the events of some transitions.
func (p *part) compose(changes []alert.Change, targets func(*grapnel.Event, []string) []store.Target) (
	writes []store.DocumentWrite, events []store.Incoming) {
	writes, events, _ = p.post(p.boxes, changes, targets)
	p.operators.next = nil
	if eventTenant(p.tenant) != grapnel.OperatorTenant {
		// The operator's channels for all tenants get copies of the alerts that name the tenant.
		copies := slices.Clone(changes)
		for i := range copies {
			copies[i].Alert = changes[i].Alert.Copy()
		}
		more, also, any := p.post(p.operators, copies, targets)
		if p.operators.next = nil; any {
			p.operators.next = more[0].Body
			writes, events = append(writes, more...), append(events, also...)
			for i := range changes {
				changes[i].Alert.Copied(copies[i].Alert)
			}
		}
	}
	for i := range changes {
		writes = append(writes, p.writes(&changes[i])...)
	}
	return writes, events
}

// post decides on the messages of a tenant, and writes its document. any says whether it has
// recipients.
func (p *part) post(to *mailbag, changes []alert.Change, targets func(*grapnel.Event, []string) []store.Target) (
	writes []store.DocumentWrite, events []store.Incoming, any bool) {
	var boxes alert.Boxes
	if to.doc.Revision > 0 {
		// it was read before
		boxes, _ = alert.DecodeBoxes(to.doc.Body)
	}
	all := map[string]alert.Recipient{}
	for id := range boxes.Recipients {
		p.recipient(to, all, id)
	}
	wants := func(c *alert.Change) (ids []string) {
		ev := p.event(to, c.Alone(p.now))
		for _, t := range targets(ev, nil) {
			// an endpoint is not told of itself: it could not tell anybody
			if t.Endpoint != c.Alert.Subject.ID && p.recipient(to, all, t.Endpoint) && (to == p.boxes || p.all(t.Endpoint)) {
				ids = append(ids, t.Endpoint)
			}
		}
		return ids
	}
	for _, m := range boxes.Post(p.now, p.keeper.bounds.Rules, to.tenant, changes, all, wants) {
		p.keeper.link(&m, p.now)
		ev := p.event(to, m)
		events = append(events, store.Incoming{Event: ev, Targets: targets(ev, m.To)})
	}
	to.next = boxes.Encode()
	return append(writes, store.DocumentWrite{Document: store.Document{Tenant: to.tenant, Kind: alert.KindMessages,
		ID: alert.MessagesID(to.tenant), Revision: to.doc.Revision, At: p.now, Body: to.next}}), events, len(all) > 0
}

// all says whether an endpoint is a channel of all tenants.
func (p *part) all(id string) bool {
	ep, there := p.keeper.o.Engine.Endpoint(store.Everyone(), id)
	return there && ep.Channel != nil && ep.Channel.AllTenants
}

// writes stores a transition. A resolved alert changes its kind, so that the open ones are few.
func (p *part) writes(c *alert.Change) []store.DocumentWrite {
	doc := store.Document{Tenant: p.tenant, Kind: alert.KindOpen, ID: c.Alert.ID, Revision: p.revisions[c.Alert.ID], At: p.now,
		Body: c.Alert.Encode()}
	if c.Transition != alert.Resolve {
		return []store.DocumentWrite{{Document: doc}}
	}
	resolved := doc
	resolved.Kind, resolved.Revision = alert.KindResolved, 0
	doc.Body = nil
	return []store.DocumentWrite{{Document: doc, Delete: true}, {Document: resolved}}
}

// recipient adds an endpoint to the recipients; false: it does not exist, or takes nothing.
func (p *part) recipient(to *mailbag, all map[string]alert.Recipient, id string) bool {
	if _, known := all[id]; known {
		return true
	}
	ep, there := p.keeper.o.Engine.Endpoint(store.Everyone(), id)
	if !there || len(all) >= p.keeper.bounds.Rules.Recipients || ep.Tenant != eventTenant(to.tenant) || ep.DropReason() != "" {
		return false
	}
	r := alert.Recipient{ID: id}
	if ch := ep.Channel; ch != nil {
		r.Gather, r.Closes = ch.Digest.Std(), channels.Closes(ch.Service)
		if ch.QuietHours != nil {
			zone, err := time.LoadLocation(ch.QuietHours.TZ)
			if err != nil {
				zone = time.UTC
			}
			r.Quiet = alert.QuietUntil(ch.QuietHours, zone, p.now)
		}
	}
	all[id] = r
	return true
}

// eventTenant is the tenant of the events of a tenant's alerts; empty: the operator's.
func eventTenant(tenant string) string { return cmp.Or(tenant, grapnel.OperatorTenant) }

// event makes the event of a message. The events of one alert stay in order at each endpoint, and
// so does the end of a digest's incident behind the digest.
func (p *part) event(to *mailbag, m alert.Message) *grapnel.Event {
	return &grapnel.Event{ID: m.Event, Tenant: eventTenant(to.tenant), Type: m.Type, Key: cmp.Or(m.Data.AlertID, m.Event),
		Data: m.Data.Encode(), ContentType: grapnel.JSONType, OccurredAt: p.now, AcceptedAt: p.now}
}

// Link is the sealed content of an acknowledge link.
type Link struct {
	Alert  string    `json:"a"`
	Tenant string    `json:"t,omitempty"`
	Ends   time.Time `json:"e"`
}

// UseLink is the use of the seal of a Link.
const UseLink = "acknowledge an alert"

// link adds the links to a message.
func (k *Keeper) link(m *alert.Message, now time.Time) {
	if k.o.PublicURL == nil {
		return
	}
	m.Data.URL = k.o.PublicURL.JoinPath("alerts").String()
	if m.Data.Rule != alert.DigestRule {
		m.Data.URL += "/" + m.Data.AlertID
	}
	if k.o.Sealer == nil || m.Type != grapnel.EventAlertFired {
		return
	}
	token, err := k.o.Sealer.SealFor(UseLink, Link{Alert: m.Data.AlertID, Tenant: m.Data.Tenant, Ends: now.Add(k.bounds.LinkFor)})
	if err != nil {
		k.log.Error("acknowledge link not made; the message is sent without it", "alert", m.Data.AlertID, "err", err)
		return
	}
	at := k.o.PublicURL.JoinPath("alerts", "acknowledge")
	at.RawQuery = url.Values{"link": {token}}.Encode()
	m.Data.AcknowledgeURL = at.String()
}

// mostLines is the number of transitions of one commit that get a log line of their own.
const mostLines = 10

// log notes transitions that are durable.
func (p *part) log(changes []alert.Change) {
	for i := range changes {
		a := changes[i].Alert
		if i == mostLines {
			p.keeper.log.Info("more alerts fired or were resolved", "tenant", p.tenant, "alerts", len(changes)-i)
			return
		}
		p.keeper.log.Info("alert "+string(changes[i].Transition), "alert", a.ID, "rule", a.Rule, "tenant", a.Tenant, "severity", a.Severity,
			"subject", a.Subject.ID)
	}
}
