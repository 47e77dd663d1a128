package configuration

import (
	"fmt"
	"slices"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// TestNamesAreLookedAtInPlace: a look at all endpoints, such as a search by name makes, allocates
// nothing, however many there are; it shows those of the scope in the order of their ids, and ends
// when it is told to.
func TestNamesAreLookedAtInPlace(t *testing.T) {
	s := memory.New()
	var want []string
	for i := range 2000 {
		ep := grapnel.Endpoint{ID: fmt.Sprintf("ep_%04d", i), Tenant: []string{"acme", "other"}[i%2]}
		if _, err := s.PutEndpoint(t.Context(), store.Everyone(), ep, store.With{}); err != nil {
			t.Fatal(err)
		}
		if ep.Tenant == "acme" {
			want = append(want, ep.ID)
		}
	}
	b := open(t, s, &surroundings{})
	n := 0
	scope, count := store.Of("acme"), func(*grapnel.Endpoint) bool { n++; return true }
	if allocations := testing.AllocsPerRun(10, func() { b.EachEndpoint(scope, count) }); allocations > 0 {
		t.Errorf("a look at 2000 endpoints allocates %v times", allocations)
	}
	var got []string
	b.EachEndpoint(scope, func(ep *grapnel.Endpoint) bool { got = append(got, ep.ID); return len(got) < 700 })
	if !slices.Equal(got, want[:700]) {
		t.Errorf("700 of one tenant are %v", got)
	}
}
