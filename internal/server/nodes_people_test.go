//go:build prove

package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// TestALinkOpensOnOneNodeOnly: of 50 exchanges on two nodes of one database one succeeds, its
// session is good on both, and revoking the links on one node ends it on the other.
func TestALinkOpensOnOneNodeOnly(t *testing.T) {
	nodes, _ := members(t, 2, patient)
	link, err := nodes[0].CreatePortalLink(t.Context(), "acme", client.NewPortalLink{})
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(link.URL, "#")
	var mu sync.Mutex
	var passes []string
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			s, err := nodes[i%2].client(t, code).OpenPortal(t.Context())
			var refused *client.Error
			if err != nil && (!errors.As(err, &refused) || refused.Status != http.StatusUnauthorized) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				passes = append(passes, s.Pass)
			}
		})
	}
	all.Wait()
	if len(passes) != 1 {
		t.Fatalf("it opened %d times", len(passes))
	}
	for i, n := range nodes {
		if who, err := n.client(t, passes[0]).WhoAmI(t.Context()); err != nil || who.ID != "portal" || who.Tenant != "acme" {
			t.Errorf("node %d: %+v, %v", i, who, err)
		}
	}
	if err := nodes[0].RevokePortalLinks(t.Context(), "acme", ""); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		var refused *client.Error
		if _, err := n.client(t, passes[0]).WhoAmI(t.Context()); !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
			t.Errorf("node %d takes a pass that was revoked: %v", i, err)
		}
	}
}

// TestAStartOutlivesASlowDatabase: a database that does not take the hash of the session key in time
// costs a warning, and not the start.
func TestAStartOutlivesASlowDatabase(t *testing.T) {
	var log bytes.Buffer
	nodes, _ := members(t, 1, patient, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	late, cancel := context.WithCancel(t.Context())
	cancel()
	nodes[0].session = new(sessionKey)
	nodes[0].compareSessionKey(late)
	if !strings.Contains(log.String(), "session key not stored") {
		t.Errorf("it says %s", log.String())
	}
}

// TestNodesShareSessionsByTheirKey: nodes with one session key take each other's sessions and end
// them together; a node with another key says so when it starts, and refuses theirs.
func TestNodesShareSessionsByTheirKey(t *testing.T) {
	var log bytes.Buffer
	given := []string{strings.Repeat("k", 40), strings.Repeat("k", 40), strings.Repeat("o", 40)}
	nodes, _ := members(t, 3, patient, func(o *Options) {
		o.SessionKey, given = given[0], given[1:]
		if len(given) == 0 {
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		}
	})
	if said := strings.Count(log.String(), "session key differs from that of another node"); said != 1 {
		t.Errorf("the node with another key says it %d times: %s", said, log.String())
	}
	key, err := nodes[0].CreateKey(t.Context(), client.NewKey{Name: "leaky", Tenant: "acme",
		Scopes: []grapnel.Scope{grapnel.ScopeManage, grapnel.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	made := func(key string) string {
		link, err := nodes[0].client(t, key).CreatePortalLink(t.Context(), "acme", client.NewPortalLink{})
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(link.URL, "#")
		session, err := nodes[0].client(t, code).OpenPortal(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return session.Pass
	}
	states := func(when, pass string, want ...int) {
		t.Helper()
		for i, n := range nodes {
			got := http.StatusOK
			if _, err := n.client(t, pass).WhoAmI(t.Context()); err != nil {
				got = statusOf(err)
			}
			if got != want[i] {
				t.Errorf("%s: node %d answers %d, want %d", when, i, got, want[i])
			}
		}
	}
	portal, admins := made(key.Secret), made(testKey)
	states("at first", portal, 200, 200, 401)
	if err := nodes[2].DeleteKey(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	states("its key is revoked", portal, 401, 401, 401)
	states("the other portal", admins, 200, 200, 401)
	if err := nodes[1].client(t, admins).SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	states("signed out", admins, 401, 401, 401)
	last := made(testKey)
	if err := nodes[2].RotateSessions(t.Context(), "stolen"); err != nil {
		t.Fatal(err)
	}
	states("after the rotation", last, 401, 401, 401)
	states("a new one", made(testKey), 200, 200, 401)
}
