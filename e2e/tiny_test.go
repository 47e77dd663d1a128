//go:build linux && prove

package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// rounds runs a test once, or repeatedly for GRAPNEL_SOAK_FOR, each time with another seed. With
// GRAPNEL_SEED there is one round, the one to be repeated.
func rounds(t *testing.T, one func(t *testing.T)) {
	t.Helper()
	if !soak() || os.Getenv("GRAPNEL_SEED") != "" {
		one(t)
		return
	}
	end := time.Now().Add(soakFor(t))
	for n := 1; time.Now().Before(end) && !t.Failed(); n++ {
		t.Run(fmt.Sprintf("round %d", n), one)
	}
}

// The kill loop with tiny bounds: caches hold a few entries, pages and batches a few rows. Cases
// that otherwise happen once in a million events happen all the time.
func TestKillLoopWithTinyBounds(t *testing.T) {
	beside(t, busy)
	kills := 6
	if soak() {
		kills = 60
	}
	rounds(t, func(t *testing.T) { newTrial(t, program{tiny: true}, all).killed(t, kills) })
}

// The faults of a cluster with tiny bounds, which differ from node to node.
func TestClusterThroughFaultsWithTinyBounds(t *testing.T) {
	beside(t, heavy)
	faults, kinds := 6, fewFaults
	if soak() {
		faults, kinds = 5*manyFaults, manyFaults
	}
	rounds(t, func(t *testing.T) { planned(t, 3, plan{targets: all, tiny: true}).through(t, faults, kinds) })
}
