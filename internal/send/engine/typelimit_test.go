package engine

import (
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// TestKnownTypesDoNotWait: publishes of types that are known wait for no other publish's look at
// one, whose lock is held here.
func TestKnownTypesDoNotWait(t *testing.T) {
	limit := newTypeLimit(memory.New(), 10, 100)
	events := []store.Incoming{{Event: &grapnel.Event{Tenant: "acme", Type: "a.b"}}}
	publish := func() {
		if refused, err := limit.refused(t.Context(), events); err != nil || len(refused) > 0 {
			t.Error(refused, err)
		}
		limit.tried(events, make([]store.Placed, 1))
	}
	publish()
	limit.mu.Lock()
	defer limit.mu.Unlock()
	publish()
	if allocations := testing.AllocsPerRun(100, publish); allocations != 0 {
		t.Errorf("a publish of a known type allocates %v times for it", allocations)
	}
}
