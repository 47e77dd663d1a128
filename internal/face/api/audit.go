package api

import (
	"context"
	"log/slog"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// The audit needs the scope read and not admin: it shows nothing about an endpoint or a delivery
// that its reader could not see there, and the person who asks why an endpoint is paused is mostly
// not the one who makes keys. The scopes of keys are shown to admins only. A key that is bound to a
// tenant finds all entries about the tenant's things, by any actor.
func auditRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/audit", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: listAudit,
			name: "list-audit", tag: "Audit", summary: "List who did what to endpoints, deliveries, keys and policies, the newest first",
			about: "A change and its entry are committed together.",
			query: pageOf(endpointParam, param{name: "delivery", form: "id", doc: "a delivery's id"}, tenantParam),
			gives: map[int]any{200: list[wire.Audit]{}}},
	}
}

func listAudit(a *api, c *call) (answer, error) {
	return pages(c, func(before string, most int) ([]grapnel.AuditEntry, error) {
		q := store.AuditQuery{Tenant: c.query.text("tenant"), Endpoint: c.query.text("endpoint"), Before: number(before), Limit: most}
		return a.audit(c, q, c.query.text("delivery"))
	}, func(e *grapnel.AuditEntry) string { return strconv.FormatInt(e.Seq, 10) }, each(c.viewAudit))
}

func (c *call) viewAudit(e *grapnel.AuditEntry) wire.Audit {
	v := wire.Audit{At: e.At, Tenant: e.Tenant, Actor: e.Actor, Verb: e.Verb,
		EndpointID: e.Endpoint, DeliveryID: c.ids.FromPlain(e.Delivery), Reason: e.Reason}
	if c.key.Tenant == "" {
		v.Number = e.Seq
	}
	if strings.HasPrefix(e.Endpoint, grapnel.KeyPrefix+"_") && !c.key.May(grapnel.ScopeAdmin) {
		v.Reason = "" // the scope read shows no keys
	}
	return v
}

// audit reads entries about one delivery, or about all if it is empty. Stores keep entries with row
// ids in clear. No delivery has an id that cannot be read.
func (a *api) audit(c *call, q store.AuditQuery, delivery string) ([]grapnel.AuditEntry, error) {
	if delivery == "" {
		return a.History.AuditList(c.Context(), c.scope, q)
	}
	reading, err := a.Engine.IDs().Read(delivery)
	if err != nil {
		return nil, nil
	}
	q.Delivery = reading.Plain()
	return a.History.AuditList(c.Context(), c.scope, q)
}

// about is an audit entry of what the caller does to a delivery.
func (c *call) about(verb grapnel.Verb, d *grapnel.Delivery, reason string) *grapnel.AuditEntry {
	return &grapnel.AuditEntry{At: c.now, Tenant: d.Tenant, Actor: c.key.ID, Verb: verb, Endpoint: d.EndpointID,
		Delivery: d.PlainID(), Reason: reason}
}

// entry tells the audit what the caller does to an endpoint.
func (c *call) entry(verb grapnel.Verb, ep *grapnel.Endpoint, reason string) *grapnel.AuditEntry {
	return c.entryOf(verb, ep.Tenant, ep.ID, reason)
}

// entryOf tells it of anything that has an id.
func (c *call) entryOf(verb grapnel.Verb, tenant, id, reason string) *grapnel.AuditEntry {
	return &grapnel.AuditEntry{At: c.now, Tenant: tenant, Actor: c.key.ID, Verb: verb, Endpoint: id, Reason: reason}
}

// keyEntry tells it of a key, with what the key may do from then on, or could until then: a key
// that is deleted is nowhere else.
func (c *call) keyEntry(verb grapnel.Verb, k *grapnel.Key) *grapnel.AuditEntry {
	scopes := make([]string, len(k.Scopes))
	for i, s := range k.Scopes {
		scopes[i] = string(s)
	}
	return c.entryOf(verb, k.Tenant, k.ID, k.Name+": "+strings.Join(scopes, ", "))
}

// verbOf is what a change of an endpoint is called. One that does several things at once has the
// name of what matters most.
func verbOf(before, after *grapnel.Endpoint) grapnel.Verb {
	switch {
	case before.Status == after.Status:
	case after.Status == grapnel.EndpointPaused:
		return grapnel.VerbPause
	case after.Status == grapnel.EndpointDisabled:
		return grapnel.VerbDisable
	case before.Status == grapnel.EndpointPaused:
		return grapnel.VerbResume
	default:
		return grapnel.VerbEnable
	}
	if len(before.Secrets) > 0 && len(after.Secrets) > 0 && before.Secrets[0].Text != after.Secrets[0].Text {
		return grapnel.VerbRotate
	}
	return grapnel.VerbChange
}

// noteTest tells the audit of a test event. That was accepted before, so that an entry that cannot
// be kept is no reason to refuse it.
func noteTest(a *api, c *call, ep *grapnel.Endpoint, done store.Accepted) {
	e := c.entry(grapnel.VerbTest, ep, "")
	for _, h := range done.Heads {
		e.Delivery = grapnel.PlainDeliveryID(h.CreatedAt, h.Delivery)
	}
	if err := a.History.Note(context.WithoutCancel(c.Context()), *e); err != nil {
		a.Log.Error("storing an audit entry failed", slog.String("request_id", c.id), slog.String("verb", string(e.Verb)), slog.Any("error", err))
	}
}
