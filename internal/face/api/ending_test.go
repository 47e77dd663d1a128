package api

import (
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// opened is a session of the portal of acme, with the id of its link.
func (w *world) opened(subject string) (id, session string) {
	w.t.Helper()
	made := w.as(acmeAdmin, 201, "POST", "/v1/tenants/acme/portal-links", `{"scopes":["read"],"subject":"`+subject+`"}`)
	_, code, _ := strings.Cut(made["url"].(string), "#")
	return made["id"].(string), w.as(code, 201, "POST", "/v1/portal-sessions", "")["pass"].(string)
}

// TestSessionsEndOneByOne: one link with its session, the sessions of one subject, and those of a
// person who signed in; no other session, and none that begins later.
func TestSessionsEndOneByOne(t *testing.T) {
	w := newWorld(t)
	first, janes := w.opened("jane")
	_, janesOther := w.opened("jane")
	_, bobs := w.opened("bob")
	person, other := w.person(grapnel.RoleViewer), w.person(grapnel.RoleOperator)
	states := func(when string, want ...int) {
		t.Helper()
		for i, pass := range []string{janes, janesOther, bobs, person, other} {
			if got := w.ask(pass, "GET", "/v1/endpoints", "").StatusCode; got != want[i] {
				t.Errorf("%s: session %d is answered %d, want %d", when, i, got, want[i])
			}
		}
	}
	states("before", 200, 200, 200, 200, 200)
	w.as(acmeAdmin, 204, "DELETE", "/v1/tenants/acme/portal-links?link="+first, "")
	states("the link", 401, 200, 200, 200, 200)
	w.as(acmeAdmin, 204, "DELETE", "/v1/tenants/acme/portal-links?subject=jane", "")
	states("jane", 401, 401, 200, 200, 200)
	w.as(acmeAdmin, 204, "DELETE", "/v1/sessions?subject=person/viewer&reason=left", "")
	states("the person", 401, 401, 200, 401, 200)
	w.as(admin, 204, "DELETE", "/v1/sessions?subject=operator", "") // by an admin of all tenants
	states("the other person", 401, 401, 200, 401, 401)
	w.clock = w.clock.Add(time.Second)
	_, janes = w.opened("jane")
	person = w.person(grapnel.RoleViewer)
	states("later", 200, 401, 200, 200, 401)
	if got := w.ask(acmeAdmin, "GET", "/v1/keys", "").body; strings.Contains(string(got), "ended sessions") {
		t.Errorf("the keys are %s", got)
	}
	if all := string(w.ask(acmeAdmin, "GET", "/v1/audit", "").body); !strings.Contains(all, "sessions of person/viewer: left") {
		t.Errorf("the audit says %s", all)
	}
}

// TestASessionThatEndedStaysSo: the next request to end the sessions of a subject comes to a node
// whose clock is a little behind.
func TestASessionThatEndedStaysSo(t *testing.T) {
	w := newWorld(t)
	_, janes := w.opened("jane")
	w.as(acmeAdmin, 204, "DELETE", "/v1/tenants/acme/portal-links?subject=jane", "")
	w.clock = w.clock.Add(-time.Second)
	w.as(acmeAdmin, 204, "DELETE", "/v1/tenants/acme/portal-links?subject=jane", "")
	w.as(janes, 401, "GET", "/v1/endpoints", "")
}

// TestASubjectEndsAsItsLinkNamedIt: to the letter, and the sessions of no other subject.
func TestASubjectEndsAsItsLinkNamedIt(t *testing.T) {
	w := newWorld(t)
	_, without := w.opened("org/7")
	_, with := w.opened("org/7/")
	w.as(acmeAdmin, 204, "DELETE", "/v1/tenants/acme/portal-links?subject=org/7/", "")
	w.as(without, 200, "GET", "/v1/endpoints", "")
	w.as(with, 401, "GET", "/v1/endpoints", "")
}

// TestWhoEndsSessions: a key of another tenant ends none, and people are for admins.
func TestWhoEndsSessions(t *testing.T) {
	w := newWorld(t)
	link, janes := w.opened("jane")
	key := w.as(admin, 201, "POST", "/v1/keys", `{"name":"g","tenant":"globex","scopes":["admin"]}`)["key"].(string)
	w.as(key, 404, "DELETE", "/v1/tenants/acme/portal-links?link="+link, "")
	w.as(key, 204, "DELETE", "/v1/sessions?subject=person/viewer", "")
	w.as(acmeAdmin, 422, "DELETE", "/v1/tenants/acme/portal-links?subject=jane&link="+link, "")
	for _, pass := range []string{janes, w.person(grapnel.RoleViewer)} {
		w.as(pass, 200, "GET", "/v1/endpoints", "")
		w.as(pass, 403, "DELETE", "/v1/sessions?subject=person/operator", "")
	}
}

// TestEndingsAreBounded: records that no pass can be older than are deleted, a few with each call.
func TestEndingsAreBounded(t *testing.T) {
	w := newWorld(t)
	for _, subject := range []string{"a", "b", "c"} {
		w.as(acmeAdmin, 204, "DELETE", "/v1/sessions?subject="+subject, "")
	}
	w.clock = w.clock.Add(endingKept + time.Second)
	w.as(acmeAdmin, 204, "DELETE", "/v1/sessions?subject=d", "")
	if left := w.engine.Endings("acme"); len(left) != 1 {
		t.Errorf("%d records are left", len(left))
	}
}
