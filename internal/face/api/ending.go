package api

import (
	"encoding/base64"
	"io"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
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
		gives: map[int]any{204: nil}},
		{method: "DELETE", path: "/v1/sessions/current", scope: anyScope, portal: anyScope, handle: signOut,
			name: "sign-out", tag: "Keys", summary: "End the session of this request",
			about: "The pass of the request is refused from now on, on all nodes: a copy of the browser's cookie is worth nothing. For an API key " +
				"there is nothing to end (409).",
			gives: map[int]any{204: nil}},
		{method: "POST", path: "/v1/sessions/rotate", scope: grapnel.ScopeAdmin, handle: rotateSessions,
			bound: grapnel.Errorf(codeForbidden, "Only a key that is bound to no tenant ends the sessions of all tenants."),
			name:  "rotate-sessions", tag: "Keys", summary: "End all sessions and portal links",
			about: "All passes of all tenants are refused from now on, on all nodes: people sign in again, and portal links are created again. " +
				"API keys and ids stay. For keys that are bound to no tenant.",
			query: []param{reasonParam}, gives: map[int]any{204: nil}},
	}
}

// signOut ends the one session of the request. Too many records of these end the others of the
// same subject too, so that the records stay few.
func signOut(a *api, c *call) (answer, error) {
	p := c.session
	if p == nil {
		return answer{}, grapnel.Errorf(grapnel.CodeConflict, "The request has an API key, which is no session. Revoke the key instead.")
	}
	live, err := a.clearEndings(c, p.Tenant, func(e *grapnel.EndedSessions) bool { return !e.Until.IsZero() })
	if err != nil {
		return answer{}, err
	}
	r := grapnel.EndedRecord(p.Tenant, p.ID, grapnel.EndedSessions{Before: p.Begins, Until: p.Ends})
	if live >= a.Bounds.SignOuts {
		r = grapnel.EndedRecord(p.Tenant, p.Subject, grapnel.EndedSessions{Before: c.now})
	}
	_, err = a.Engine.PutAccess(c.Context(), scopeOf(p.Tenant), r, store.With{})
	return nothing(), err
}

// rotateSessions begins a new era of passes.
func rotateSessions(a *api, c *call) (answer, error) {
	era, err := a.newSeries()
	if err != nil {
		return answer{}, err
	}
	about := "all sessions and portal links"
	if reason := c.reason(); reason != "" {
		about += ": " + reason
	}
	return put(c, a.Engine.PutAccess, grapnel.SeriesRecord("", era), c.entryOf(grapnel.VerbRevoke, "", "sessions", about),
		func(store.Put) answer { return nothing() })
}

// newSeries makes a random series of passes.
func (a *api) newSeries() (string, error) {
	var b [16]byte
	_, err := io.ReadFull(a.Random, b[:])
	return base64.RawURLEncoding.EncodeToString(b[:]), err
}

// clearEndings deletes some old records of ended sessions of a tenant, and counts the others of a
// kind.
func (a *api) clearEndings(c *call, tenant string, counts func(*grapnel.EndedSessions) bool) (live int, err error) {
	cleared := 0
	for _, r := range a.Engine.Endings(tenant) {
		over := r.Ended.Before.Add(endingKept)
		if until := r.Ended.Until; !until.IsZero() {
			over = until.Add(pass.Skew)
		}
		if c.now.Before(over) || cleared == clearedEndings {
			if counts(r.Ended) {
				live++
			}
			continue
		}
		err := a.Engine.DeleteAccess(c.Context(), scopeOf(tenant), r.ID, store.With{})
		if err != nil && grapnel.CodeOf(err) != grapnel.CodeNotFound {
			return 0, err
		}
		cleared++
	}
	return live, nil
}

// endPerson ends the sessions of a person, in the tenant of the caller or in all.
func endPerson(a *api, c *call) (answer, error) {
	subject := personActs + strings.TrimPrefix(c.query.text("subject"), personActs)
	return a.endSessions(c, c.key.Tenant, subject)
}

// endSessions records that passes with a subject or link that have begun until now have ended.
func (a *api) endSessions(c *call, tenant, whose string) (answer, error) {
	reason := c.reason()
	before, again := c.now, 0
	if is := a.Engine.Access(grapnel.EndedID(tenant, whose)).Ended; is != nil {
		if again = 1; is.Before.After(before) {
			before = is.Before // by a node whose clock is ahead of this one's
		}
	}
	live, err := a.clearEndings(c, tenant, func(e *grapnel.EndedSessions) bool { return e.Until.IsZero() })
	if err != nil {
		return answer{}, err
	}
	if live-again >= mostEndings {
		return answer{}, grapnel.Errorf(grapnel.CodeQuota, "%d sessions were ended one by one within a month. "+
			"End all links of the tenant instead.", live)
	}
	r := grapnel.EndedRecord(tenant, whose, grapnel.EndedSessions{Before: before})
	about := "sessions of " + whose
	if reason != "" {
		about += ": " + reason
	}
	with := store.With{Audit: c.entryOf(grapnel.VerbRevoke, tenant, "sessions", about)}
	_, err = a.Engine.PutAccess(c.Context(), c.scope, r, with)
	return nothing(), err
}
