package memory

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// end is after all times.
var end = time.Unix(1<<40, 0)

// EraseTenant removes events up to the limit; the call that finds no more removes all the rest.
func (s *model) EraseTenant(_ context.Context, e store.TenantErasure) (done store.TenantErased, err error) {
	if err := e.Check(); err != nil {
		return done, err
	}
	if has := s.tenantHas(e.Tenant); has != "" {
		return done, store.ErrTenantHas(has)
	}
	all := make(map[int64]bool)
	removed, done := s.remove(e.Limit, math.MinInt64, func(of *event) (time.Time, bool) {
		is := of.Tenant == e.Tenant
		all[of.Seq] = all[of.Seq] || is
		return end, is
	})
	maps.DeleteFunc(s.known, func(_ knownBy, k known) bool { return all[k.first.Seq] && s.event(k.first.Seq) == nil })
	if done.More = removed >= e.Limit; done.More {
		return done, nil
	}
	count := func(before, after int) { done.Rows += before - after }
	n := len(s.queues) + len(s.totals) + len(s.types) + len(s.answers)
	maps.DeleteFunc(s.queues, func(_ string, q *queue) bool { return q.tenant == e.Tenant })
	maps.DeleteFunc(s.totals, func(p part, _ *grapnel.Totals) bool { return p.tenant == e.Tenant })
	maps.DeleteFunc(s.types, func(p typePart, _ *grapnel.Totals) bool { return p.tenant == e.Tenant })
	maps.DeleteFunc(s.answers, func(key string, _ answer) bool { return strings.HasPrefix(key, store.PassKeys(e.Tenant)+"/") })
	count(n, len(s.queues)+len(s.totals)+len(s.types)+len(s.answers))
	n = len(s.replays) + len(s.asides) + len(s.documents) + len(s.audit)
	s.replays = slices.DeleteFunc(s.replays, func(r *replay) bool { return r.Tenant == e.Tenant })
	s.asides = slices.DeleteFunc(s.asides, func(a grapnel.Aside) bool { return a.Tenant == e.Tenant })
	s.documents = slices.DeleteFunc(s.documents, func(d store.Document) bool { return d.Tenant == e.Tenant })
	s.eraseAudit(&e)
	count(n, len(s.replays)+len(s.asides)+len(s.documents)+len(s.audit))
	return done, nil
}

// tenantHas names what a tenant has that does not end by itself; empty: nothing.
func (s *model) tenantHas(tenant string) string {
	switch c := &s.config; {
	case slices.ContainsFunc(s.events, func(e *event) bool { return e.Tenant == tenant && e.pending() }):
		return "a pending delivery"
	case has(c.Endpoints, tenant):
		return "an endpoint"
	case has(c.Sources, tenant):
		return "a source"
	case has(c.Policies, tenant):
		return "a policy"
	case has(c.Types, tenant):
		return "an event type"
	case has(c.Keys, tenant):
		return "a key"
	}
	return ""
}

func has[T decide.Configured](list []T, tenant string) bool {
	return slices.ContainsFunc(list, func(o T) bool { return decide.Describe(&o).Tenant == tenant })
}

// eraseAudit deletes the tenant's entries, but for those that TenantErasure.Keeps names.
func (s *model) eraseAudit(e *store.TenantErasure) {
	var kept []grapnel.AuditEntry
	for i, entry := range s.audit {
		is := entry
		is.Seq = 0
		switch keeps := e.Keeps(&entry); {
		case keeps && entry.Tenant != e.Tenant:
			kept = append(kept, entry)
			continue
		case keeps:
			entry.Reason = ""
			kept = append(kept, entry)
		case i == len(s.audit)-1:
			kept = append(kept, grapnel.AuditEntry{Seq: entry.Seq, At: entry.At, Tenant: e.Tenant, Verb: grapnel.VerbErase})
		}
		delete(s.noted, is)
	}
	s.audit = kept
	for _, entry := range kept {
		entry.Seq = 0
		s.noted[entry] = true
	}
}
