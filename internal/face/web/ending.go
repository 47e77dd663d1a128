package web

import (
	"net/http"
	"net/url"
	"strings"
)

// The subjects of sessions, as the audit names them. The others are keys, which are revoked.
const (
	personActor = "person/"
	portalActor = "portal/"
)

// ending is the button that ends the sessions of an actor of the audit.
func (v *visit) ending(tenant, actor string) []act {
	if !strings.HasPrefix(actor, personActor) && !strings.HasPrefix(actor, portalActor) || !v.mayDo("/sessions/end") {
		return nil
	}
	q := url.Values{"who": {actor}, "tenant": {tenant}}
	return []act{{Label: "End their sessions", Post: v.link("/sessions/end?" + q.Encode()),
		Sure: "All sessions of " + actor + " end at once, on all nodes. They can sign in again, or open a new link."}}
}

// endSessions ends the sessions of a person, or of a subject of portal links.
func endSessions(v *visit) (string, error) {
	who, tenant := v.URL.Query().Get("who"), v.URL.Query().Get("tenant")
	if !v.mayDo("/sessions/end") {
		return "", refused(http.StatusForbidden, "Only an admin ends the sessions of others.", "Sign in with a key that has the scope admin.")
	}
	var err error
	switch {
	case strings.HasPrefix(who, personActor):
		err = v.client.EndSessions(v.Context(), who, byDashboard)
	case strings.HasPrefix(who, portalActor) && tenant != "":
		err = v.client.EndPortalSessions(v.Context(), tenant, who, "", byDashboard)
	default:
		return "", refused(http.StatusBadRequest, "These are no sessions of a person.", "A key is revoked on its own page.")
	}
	return "The sessions of " + who + " have ended.", err
}
