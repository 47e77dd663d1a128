package api

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/chain"
	"github.com/grapnelhq/grapnel/internal/base/search"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
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
			query: pageOf(endpointParam, param{name: "delivery", form: "id", doc: "a delivery's id"}, tenantParam,
				param{name: "search", form: "text", doc: "only entries whose name, actor, verb or reason contains this, or whose endpoint_id begins with it; letters may be " +
					"small or capital. A page looks at a limited number of entries: it may be short while next says that more can be searched"}),
			gives: map[int]any{200: list[wire.Audit]{}}},
		{method: "GET", path: "/v1/audit/export", scope: grapnel.ScopeAdmin, handle: exportAudit,
			bound: grapnel.Errorf(codeForbidden, "Only a key that is bound to no tenant exports the audit: its chain has the entries of all."),
			name:  "export-audit", tag: "Audit", summary: "Export the audit as a chain of hashes, the oldest first",
			about: "Each line is an entry with the members prev and hash at its end. prev is the hash of the line before, and 64 zeros in the " +
				"first line. hash is SHA-256, in hexadecimal digits, of the line's bytes up to the quotation mark that ends prev. An export with " +
				"the number and the hash of the last line of an earlier one continues its chain. Needs a key that is bound to no tenant.",
			query: []param{{name: "after", form: "number", doc: "number of the last exported entry; needs prev. Refused if the newest entry has a lower one, as after a restore"},
				{name: "prev", form: "sha256", doc: "hash of its line; needs after"}},
			gives: map[int]any{200: texts{openapi.TypeNDJSON: "one Audit per line, with prev and hash"}}},
	}
}

func listAudit(a *api, c *call) (answer, error) {
	if word := search.NewWord(c.query.text("search")); word != "" {
		return a.auditWith(c, word)
	}
	names := a.names(c)
	view := func(found []grapnel.AuditEntry) ([]wire.Audit, error) {
		page, _ := each(func(e *grapnel.AuditEntry) wire.Audit { return names.add(c.viewAudit(e)) })(found)
		return page, names.addFormer(page)
	}
	return pages(c, func(before string, most int) ([]grapnel.AuditEntry, error) {
		q := store.AuditQuery{Tenant: c.query.text("tenant"), Endpoint: c.query.text("endpoint"), Before: number(before), Limit: most}
		return a.audit(c, q, c.query.text("delivery"))
	}, func(e *grapnel.AuditEntry) string { return strconv.FormatInt(e.Seq, 10) }, view)
}

// auditWith answers with the entries that have a word.
func (a *api) auditWith(c *call, word search.Word) (answer, error) {
	q := store.AuditQuery{Tenant: c.query.text("tenant"), Endpoint: c.query.text("endpoint"), Before: c.number(), Limit: a.Bounds.AuditPage}
	limit, names := c.query.limit(), a.names(c)
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	out := list[wire.Audit]{Data: []wire.Audit{}}
	for read := 0; read < a.Bounds.AuditScan; read += q.Limit {
		found, err := a.audit(c, q, c.query.text("delivery"))
		if err != nil {
			return answer{}, err
		}
		out.Next = nil
		for i := range found {
			if len(out.Data) == limit {
				out.Next = c.cursor(strconv.FormatInt(q.Before, 10))
				return result(out, names.addFormer(out.Data))
			}
			q.Before = found[i].Seq
			if v := names.add(c.viewAudit(&found[i])); word.In(v.EndpointID, v.Name, v.ActorName, v.Actor, string(v.Verb), v.Reason) {
				out.Data = append(out.Data, v)
			}
		}
		if len(found) < q.Limit {
			break
		}
		out.Next = c.cursor(strconv.FormatInt(q.Before, 10))
	}
	return result(out, names.addFormer(out.Data))
}

// exportAudit writes the entries that are stored now. Two exports of the same entries are equal
// byte by byte, unless the key of ids has changed.
func exportAudit(a *api, c *call) (answer, error) {
	after := number(c.query.text("after"))
	prev, _ := chain.Parse(c.query.text("prev")) // it has the form
	if c.query.values.Has("after") != c.query.values.Has("prev") {
		c.query.faults.Add("?prev", "and after are given together: they are those of one line")
		return answer{}, c.query.faults.Err()
	}
	end, err := a.History.AuditEnd(c.Context())
	if err != nil {
		return answer{}, err
	}
	if after > end {
		c.query.faults.Add("?after", "is higher than %d, the number of the newest entry: this database was restored, or is another one", end)
		return answer{}, c.query.faults.Err()
	}
	read := func() ([]grapnel.AuditEntry, error) {
		q := store.AuditQuery{After: after, Before: end + 1, Oldest: true, Limit: a.Bounds.ExportPage}
		return a.History.AuditList(c.Context(), c.scope, q)
	}
	entries, err := read()
	if err != nil {
		return answer{}, err
	}
	return answer{instead: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", openapi.TypeNDJSON)
		w.Header().Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
		if c.Method == http.MethodHead {
			return
		}
		connection := http.NewResponseController(w)
		for len(entries) > 0 {
			_ = connection.SetWriteDeadline(time.Now().Add(a.Bounds.ExportSlow)) // what cannot be told to wait longer keeps the server's own limit
			var page []byte
			for i := range entries {
				object, err := c.viewAudit(&entries[i]).MarshalJSON()
				if err != nil {
					a.brokeOff(c, err)
				}
				page, prev = chain.Link(page, object, prev)
			}
			if _, err := w.Write(page); err != nil {
				panic(http.ErrAbortHandler)
			}
			if after = entries[len(entries)-1].Seq; after == end {
				return
			}
			if entries, err = read(); err != nil {
				a.brokeOff(c, err)
			}
		}
	})}, nil
}

// viewAudit is an entry as it is exported: with what the entry itself has.
func (c *call) viewAudit(e *grapnel.AuditEntry) wire.Audit {
	v := wire.Audit{At: e.At, Tenant: e.Tenant, Actor: e.Actor, Verb: e.Verb,
		EndpointID: e.Endpoint, DeliveryID: c.ids.FromPlain(e.Delivery)}
	v.Name, v.Reason = splitReason(e)
	if strings.HasPrefix(e.Endpoint, grapnel.SourcePrefix+"_") && c.scope.HidesAlerts() {
		v.Name = "" // customers do not see sources
	}
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
