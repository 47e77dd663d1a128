package api

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
)

// TestALinkHasAtMostTheRightsOfItsMaker: a key with manage alone cannot read, replay or see
// payloads by a link, whatever it asks for; nor can a person by one.
func TestALinkHasAtMostTheRightsOfItsMaker(t *testing.T) {
	w := newWorld(t)
	w.key("key_a", "grp_manage_acme", "acme", grapnel.ScopeManage)
	w.key("key_b", "grp_more_acme", "acme", grapnel.ScopeManage, grapnel.ScopeRead)
	of := map[string]string{"grp_manage_acme": "endpoints:write secrets:reveal",
		"grp_more_acme":                      "endpoints:write secrets:reveal read payload:read alerts:read",
		acmeAdmin:                            "endpoints:write secrets:reveal read payload:read alerts:read replay",
		admin:                                "endpoints:write secrets:reveal read payload:read alerts:read replay",
		w.person(grapnel.RoleDeveloper):      "endpoints:write secrets:reveal read payload:read alerts:read replay",
		w.person(grapnel.RoleOperator):       "",
		scoped(grapnel.ScopeRead) + "_acme":  "",
		w.pass(portalScopes):                 "",
		w.keySession("grp_manage_acme", nil): "endpoints:write secrets:reveal",
	}
	for key, gives := range of {
		for _, s := range portalScopes {
			want := 403
			if strings.Contains(" "+gives+" ", " "+string(s)+" ") {
				want = 201
			}
			r := w.ask(key, "POST", "/v1/tenants/acme/portal-links", fmt.Sprintf(`{"scopes":[%q]}`, s))
			if r.StatusCode != want || want == 403 && gives != "" && !strings.Contains(string(r.body), "cannot give "+string(s)) {
				t.Errorf("%.20s gives %s: answered %d %s", key, s, r.StatusCode, r.body)
			}
		}
	}
}

// keySession is a pass as the dashboard makes it for a key; change, if it is not nil, makes it
// another.
func (w *world) keySession(key string, change func(*pass.Pass)) string {
	w.t.Helper()
	hash := sha256.Sum256([]byte(key))
	k, known, err := w.engine.Caller(hash)
	if !known || err != nil {
		w.t.Fatal("there is no such key", err)
	}
	p := pass.Pass{Subject: k.ID, Tenant: k.Tenant, Begins: w.clock, Ends: w.clock.Add(time.Hour),
		Maker: &pass.Maker{ID: k.ID, Tenant: k.Tenant, Key: pass.Mark(hash)}}
	if change != nil {
		change(&p)
	}
	text, err := w.options.Passes.Seal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// TestAKeyEndsWhatItMade: its sessions, links that were opened and links that were not; also once
// it may not give their rights any more. Those of other keys stay.
func TestAKeyEndsWhatItMade(t *testing.T) {
	w := newWorld(t)
	w.key("key_1", "grp_leaky_acme", "acme", grapnel.ScopeManage, grapnel.ScopeRead)
	w.key("key_2", "grp_other_acme", "acme", grapnel.ScopeManage, grapnel.ScopeRead)
	made := func(key string) (code, portal string) {
		link := func() string {
			_, code, _ := strings.Cut(w.as(key, 201, "POST", "/v1/tenants/acme/portal-links", "")["url"].(string), "#")
			return code
		}
		return link(), w.as(link(), 201, "POST", "/v1/portal-sessions", "")["pass"].(string)
	}
	code, portal := made("grp_leaky_acme")
	byOther, otherPortal := made("grp_other_acme")
	session := w.keySession("grp_leaky_acme", nil)
	indirect, _ := made(session)
	w.as(session, 200, "GET", "/v1/endpoints", "")
	w.as(portal, 200, "GET", "/v1/endpoints", "")
	w.as(admin, 200, "PATCH", "/v1/keys/key_1", `{"scopes":["manage"]}`)
	w.as(session, 403, "GET", "/v1/endpoints", "")
	w.as(portal, 401, "GET", "/v1/endpoints", "")
	w.as(admin, 200, "PATCH", "/v1/keys/key_1", `{"scopes":["manage","read"]}`)
	w.as(portal, 200, "GET", "/v1/endpoints", "")
	w.as(admin, 204, "DELETE", "/v1/keys/key_1", "")
	for _, gone := range []string{session, portal, "grp_leaky_acme"} {
		w.as(gone, 401, "GET", "/v1/endpoints", "")
	}
	w.as(code, 401, "POST", "/v1/portal-sessions", "")
	w.as(indirect, 401, "POST", "/v1/portal-sessions", "")
	w.as(otherPortal, 200, "GET", "/v1/endpoints", "")
	w.as(byOther, 201, "POST", "/v1/portal-sessions", "")
}

// TestAPersonWhoIsLockedOutEndsTheirLinks, and keeps them when one session is signed out.
func TestAPersonWhoIsLockedOutEndsTheirLinks(t *testing.T) {
	w := newWorld(t)
	person := w.person(grapnel.RoleDeveloper)
	_, code, _ := strings.Cut(w.as(person, 201, "POST", "/v1/tenants/acme/portal-links", "")["url"].(string), "#")
	portal := w.as(code, 201, "POST", "/v1/portal-sessions", "")["pass"].(string)
	_, unopened, _ := strings.Cut(w.as(person, 201, "POST", "/v1/tenants/acme/portal-links", "")["url"].(string), "#")
	w.as(person, 204, "DELETE", "/v1/sessions/current", "")
	w.as(person, 401, "GET", "/v1/endpoints", "")
	w.as(portal, 200, "GET", "/v1/endpoints", "")
	w.as(acmeAdmin, 204, "DELETE", "/v1/sessions?subject=person/developer", "")
	w.as(portal, 401, "GET", "/v1/endpoints", "")
	w.as(unopened, 401, "POST", "/v1/portal-sessions", "")
}

// TestASessionOfAKeyIsTheKey: it may do what the key may, and is named as it, but has an end; a key
// has none.
func TestASessionOfAKeyIsTheKey(t *testing.T) {
	w := newWorld(t)
	session := w.keySession(acmeAdmin, nil)
	mine, its := w.as(acmeAdmin, 200, "GET", "/v1/whoami", ""), w.as(session, 200, "GET", "/v1/whoami", "")
	if mine["id"] != its["id"] || fmt.Sprint(mine["scopes"]) != fmt.Sprint(its["scopes"]) || its["tenant"] != "acme" {
		t.Errorf("the session is %v, the key %v", its, mine)
	}
	w.as(session, 201, "POST", "/v1/endpoints", `{"url":"https://a.example"}`)
	w.as(session, 204, "DELETE", "/v1/sessions/current", "")
	w.as(session, 401, "GET", "/v1/endpoints", "")
	w.as(acmeAdmin, 200, "GET", "/v1/endpoints", "")
	w.as(acmeAdmin, 409, "DELETE", "/v1/sessions/current", "")
	w.as(w.pass(portalScopes), 204, "DELETE", "/v1/sessions/current", "")
	session = w.keySession(acmeAdmin, nil)
	w.clock = w.clock.Add(time.Hour)
	w.as(session, 401, "GET", "/v1/endpoints", "")
}

// TestSignOutsAreBounded: while too many sessions of a tenant are recorded as signed out, signing
// out ends all sessions of the same key. Records end with the sessions.
func TestSignOutsAreBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.SignOuts = 3 })
	records := func() int { return len(w.engine.Endings("acme")) }
	for i := range 3 {
		w.as(w.keySession(acmeAdmin, nil), 204, "DELETE", "/v1/sessions/current", "")
		if records() != i+1 {
			t.Fatalf("%d records", records())
		}
	}
	stays, bobs := w.keySession(acmeAdmin, nil), w.person(grapnel.RoleViewer)
	for range 5 {
		w.as(stays, 200, "GET", "/v1/endpoints", "")
		w.as(w.keySession(acmeAdmin, nil), 204, "DELETE", "/v1/sessions/current", "")
		w.as(stays, 401, "GET", "/v1/endpoints", "")
		w.clock = w.clock.Add(time.Second)
		stays = w.keySession(acmeAdmin, nil)
	}
	w.as(bobs, 200, "GET", "/v1/endpoints", "")
	if records() != 4 {
		t.Errorf("%d records", records())
	}
	w.clock = w.clock.Add(2 * time.Hour)
	w.as(w.keySession(acmeAdmin, nil), 204, "DELETE", "/v1/sessions/current", "")
	if records() != 2 {
		t.Errorf("%d records after the sessions' end", records())
	}
}

// TestRotatingSessionsEndsAllOfThem: people, keys' sessions, portals and links of all tenants; keys
// stay. Only an admin of all tenants may.
func TestRotatingSessionsEndsAllOfThem(t *testing.T) {
	w := newWorld(t)
	_, portal := w.opened("jane")
	_, code := w.link("")
	passes := []string{portal, w.person(grapnel.RoleViewer), w.keySession(acmeAdmin, nil), w.keySession(admin, nil)}
	for key, status := range map[string]int{acmeAdmin: 403, scoped(grapnel.ScopeManage): 403, portal: 403, passes[1]: 403, "": 401} {
		w.as(key, status, "POST", "/v1/sessions/rotate", "")
	}
	for _, p := range passes {
		w.as(p, 200, "GET", "/v1/endpoints", "")
	}
	w.as(passes[3], 204, "POST", "/v1/sessions/rotate?reason=stolen", "")
	for _, p := range passes {
		w.as(p, 401, "GET", "/v1/endpoints", "")
	}
	w.as(code, 401, "POST", "/v1/portal-sessions", "")
	w.as(acmeAdmin, 200, "GET", "/v1/endpoints", "")
	w.as(w.keySession(acmeAdmin, nil), 200, "GET", "/v1/endpoints", "")
	if got := string(w.ask(admin, "GET", "/v1/audit", "").body); !strings.Contains(got, "all sessions and portal links: stolen") {
		t.Errorf("the audit says %s", got)
	}
}
