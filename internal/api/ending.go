package api

import (
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Passes are not stored, so none can be deleted. A record of the configuration says which subject's
// or link's passes have ended instead. All nodes know the configuration before a change of it is
// answered, so every node refuses the passes from then on, without a read of the store.

const (
	linkPrefix = "lnk"
	personActs = "person/" // begins the subjects of people who signed in

	// endingKept is how long a record is kept. No pass lives as long.
	endingKept = grapnel.LongestSession + 24*time.Hour
	// mostEndings bounds the records of a tenant. For more, all links of the tenant can be revoked.
	mostEndings = 1000
	// clearedEndings is how many old records one call deletes.
	clearedEndings = 8
)

func endingRoutes() []route {
	return []route{{method: "DELETE", path: "/v1/sessions", scope: grapnel.ScopeAdmin, handle: endPerson,
		name: "end-sessions", tag: "Keys", summary: "End all sessions of a person who has signed in",
		about: "The person's browsers are signed out with their next request, on all nodes. The person can sign in again; whether it may, the " +
			"issuer decides. For people with a portal link, see DELETE /v1/tenants/{tenant}/portal-links. A key that is bound to a tenant ends " +
			"sessions in its tenant.",
		query: []param{{name: "subject", required: true, doc: "the person as the audit names it: person/ADDRESS (SUBJECT)"}, reasonParam},
		gives: map[int]any{204: nil}}}
}

// endPerson ends the sessions of a person, in the tenant of the caller or in all.
func endPerson(a *api, c *call) (answer, error) {
	subject := personActs + strings.TrimPrefix(c.query.text("subject"), personActs)
	if err := a.Away(c.key.Tenant); err != nil {
		return answer{}, err // those of all tenants are kept in one place
	}
	return a.endSessions(c, c.key.Tenant, subject)
}

// endSessions records that passes with a subject or link that have begun until now have ended.
func (a *api) endSessions(c *call, tenant, whose string) (answer, error) {
	reason := c.reason()
	id, live, cleared := grapnel.EndedID(tenant, whose), 0, 0
	before := c.now
	for _, k := range a.Engine.Endings(tenant) {
		if k.ID == id && k.Ended.Before.After(before) {
			before = k.Ended.Before // by a node whose clock is ahead of this one's
		}
		if c.now.Sub(k.Ended.Before) < endingKept || cleared == clearedEndings {
			if live++; k.ID == id {
				live--
			}
			continue
		}
		if err := a.Engine.DeleteKey(c.Context(), c.scope, k.ID, store.With{}); err != nil && grapnel.CodeOf(err) != grapnel.CodeNotFound {
			return answer{}, err
		}
		cleared++
	}
	if live >= mostEndings {
		return answer{}, grapnel.Errorf(grapnel.CodeQuota, "%d sessions were ended one by one within a month. "+
			"End all links of the tenant instead.", live)
	}
	k := grapnel.Key{ID: id, Name: "ended sessions", Tenant: tenant, CreatedAt: c.now, Ended: &grapnel.EndedSessions{Before: before}}
	about := "sessions of " + whose
	if reason != "" {
		about += ": " + reason
	}
	with := store.With{Audit: c.entryOf(grapnel.VerbRevoke, tenant, "sessions", about)}
	_, err := a.Engine.PutKey(c.Context(), c.scope, k, with)
	return nothing(), err
}
