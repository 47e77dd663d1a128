package sqlite

import (
	"testing"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/storetest"
)

// TestAHoleThatGrewIsMadeAgain: a part of the file is a hole, and grows with the data of the next
// event before the table forgets the hole. Then the rest becomes a hole as well.
func TestAHoleThatGrewIsMadeAgain(t *testing.T) {
	const canary = "canary-tenant"
	b := apart
	b.Behind = 4
	s, path := openWith(t, b)
	storetest.NewTenant(t, s, "other", 5000)
	gone := storetest.NewTenant(t, s, canary, 5000)
	storetest.NewTenant(t, s, "third", 5000)
	gone.Leave()
	e := store.TenantErasure{Tenant: canary, Limit: 3}
	for more := true; more; {
		done, err := s.EraseTenant(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		more, e.After = done.More, done.After
		if e.Limit == 3 { // a purge, or another erasure, between two calls
			if _, err := s.Reclaim(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		e.Limit = 5000
	}
	if _, err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := filesWith(t, path, canary); len(found) > 0 {
		t.Errorf("the tenant is in %q", found)
	}
}
