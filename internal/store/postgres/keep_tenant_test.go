package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/storetest"
)

// eraseAcme erases the tenant whose name incomingTo uses.
func eraseAcme(t *testing.T, s *Store) {
	t.Helper()
	for e, more := (store.TenantErasure{Tenant: "acme", Limit: 100}), true; more; {
		done, err := s.EraseTenant(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		more, e.After = done.More, done.After
	}
}

// TestNodesForgetTheNamesOfATenant: a node remembers the numbers of a tenant's names, which another
// one deletes. Events that it accepts later can be read.
func TestNodesForgetTheNamesOfATenant(t *testing.T) {
	t.Parallel()
	all := nodes(t, 2)
	publish(t, all[1], incomingTo("before", "k", "ep_1"))
	if n, err := all[1].End(t.Context(), "ep_1", store.Ending{Status: grapnel.Skipped, At: at(2)}, 10); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	was := version(t, all[1])
	eraseAcme(t, all[0])
	b := store.Batch{Config: was, Events: []store.Incoming{incomingTo("after", "k", "ep_1")}}
	if _, err := all[1].Append(t.Context(), b); !errors.Is(err, store.ErrStale) {
		t.Fatalf("an event is accepted by the configuration of before: %v", err)
	}
	if _, complete, err := all[1].Changes(t.Context(), was); complete || err != nil {
		t.Errorf("changes of before are complete: %t, %v", complete, err)
	}
	c, err := all[1].Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.Config = c.Version
	if _, err := all[1].Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		if e, list, err := s.Event(t.Context(), store.Everyone(), "acme", "after"); err != nil || e.ID != "after" || len(list) != 1 {
			t.Errorf("node %d: %+v, %+v, %v", i, e, list, err)
		}
	}
	balanced(t, all[0])
}

// TestReclaimVacuums: also through a pooler, where each statement of a chore begins a transaction.
func TestReclaimVacuums(t *testing.T) {
	t.Parallel()
	name := made(t)
	for of, url := range map[string]string{"server": server.URL(name), "pooler": pooler(t).URL(name)} {
		s := open(t, url, Options{})
		if left, err := s.Reclaim(t.Context()); err != nil || left == "" || strings.Contains(left, "failed") {
			t.Errorf("%s: %q, %v", of, left, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestATenantThatPublishesStays: an event that comes while the names are deleted keeps its kind.
func TestATenantThatPublishesStays(t *testing.T) {
	t.Parallel()
	s := nodes(t, 1)[0]
	publish(t, s, incomingTo("late", ""))
	if _, err := s.eraseNames(t.Context(), "acme", 0); grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Errorf("the names of a tenant with an event: %v", err)
	}
	if _, _, err := s.Event(t.Context(), store.Everyone(), "acme", "late"); err != nil {
		t.Error(err)
	}
	eraseAcme(t, s)
}

// TestEndedTenantsDataKeyIsDeleted: in a sealed database, and the other tenant keeps its own.
func TestEndedTenantsDataKeyIsDeleted(t *testing.T) {
	t.Parallel()
	s := open(t, blank(t), Options{CallersClock: true, Master: masterKey(t)})
	defer func() { _ = s.Close() }()
	storetest.EndedTenantsDataKey(t, s)
}
