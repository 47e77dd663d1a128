package storetest

import (
	"fmt"
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// endsTenant ends a tenant, now and then, as its callers do: its deliveries end and its endpoints
// are deleted, then its rows. It begins anew with the same endpoints.
func (m *machine) endsTenant(t *rapid.T) {
	if !chance(t, "a tenant ends", 3) {
		return
	}
	tenant, now := pick(t, "tenant", acme, bolt), m.tick(t)
	e := store.Ending{Status: grapnel.Discarded, ReasonCode: grapnel.ReasonEndpointGone, At: now}
	for _, id := range someEndpoints { // also one that was removed before: events are published for it still
		if m.owners[id] == tenant {
			got, err := m.End(m.ctx, id, e, math.MaxInt32)
			m.agree(got, m.model.end(id, e, math.MaxInt32), err, nil, "End")
		}
	}
	for _, ep := range slices.Clone(m.model.config.Endpoints) {
		if ep.Tenant != tenant {
			continue
		}
		ep.DeletedAt = now
		m.putEndpoint(everyone, ep, store.With{})
		m.agree(nil, nil, m.RemoveEndpoint(m.ctx, ep.ID), m.model.removeEndpoint(ep.ID), "RemoveEndpoint")
		m.model.config.Version = m.config().Version
	}
	newest := &grapnel.AuditEntry{At: now, Verb: grapnel.VerbErase, Reason: fmt.Sprint("after ", m.model.newestEntry())}
	m.model.note(newest)
	m.must(m.Note(m.ctx, *newest), "Note")
	erasure := store.TenantErasure{Tenant: tenant, Limit: pick(t, "limit", 2, 5, 1000)}
	var all store.TenantErased
	for more := true; more; {
		done, err := m.EraseTenant(m.ctx, erasure)
		m.must(err, "EraseTenant")
		more, erasure.After = done.More, done.After
		all.Events, all.Deliveries, all.Attempts = all.Events+done.Events, all.Deliveries+done.Deliveries, all.Attempts+done.Attempts
	}
	m.purged = true
	m.same(all, m.model.eraseTenant(tenant), "EraseTenant")
	m.model.config.Version = m.config().Version
	for _, id := range someEndpoints {
		if m.owners[id] == tenant && !slices.ContainsFunc(m.model.config.Endpoints, func(ep grapnel.Endpoint) bool { return ep.ID == id }) {
			m.putEndpoint(everyone, endpoint(id, tenant), store.With{})
		}
	}
}

func (m *model) eraseTenant(tenant string) (done store.TenantErased) {
	for _, e := range m.events {
		if e.Tenant == tenant && !m.goneEvents[e.Seq] {
			m.goneEvents[e.Seq] = true
			done.Events++
		}
	}
	for _, r := range m.rows {
		if r.Tenant != tenant {
			continue
		}
		if r.uncounted = true; !m.gone[r.Seq] {
			m.gone[r.Seq] = true
			done.Deliveries, done.Attempts = done.Deliveries+1, done.Attempts+len(r.Attempts)
		}
		for name := range m.positions.last {
			if name.endpoint == r.EndpointID {
				delete(m.positions.last, name)
			}
		}
		delete(m.positions.forgot, r.EndpointID)
	}
	m.facts = slices.DeleteFunc(m.facts, func(f fact) bool { return f.tenant == tenant })
	m.replays = slices.DeleteFunc(m.replays, func(r *replay) bool { return r.Tenant == tenant })
	m.documents = slices.DeleteFunc(m.documents, func(d store.Document) bool { return d.Tenant == tenant })
	m.entries = slices.DeleteFunc(m.entries, func(e grapnel.AuditEntry) bool { return e.Tenant == tenant })
	return done
}
