package sqlite

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestNewestForgetsNoID: whatever order ids come in and however few are remembered, an id that was
// added may exist. And of ids that rise, as the server's do, a new one needs no look-up.
func TestNewestForgetsNoID(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		ids := newNewestIDs(1+random.IntN(4), "evt_100")
		var added []string
		for range 100 {
			id := fmt.Sprintf("evt_%03d", random.IntN(1000))
			ids.add(id)
			for _, before := range append(added, id, "evt_100", "evt_001") {
				if !ids.mayHave(before) {
					t.Fatalf("seed %d: %s is unknown after %v", seed, before, added)
				}
			}
			added = append(added, id)
		}
	}
	ids := newNewestIDs(64, "")
	for n := range 10_000 {
		if id := fmt.Sprintf("evt_%06d", n^1); ids.mayHave(id) { // neighbours change places
			t.Fatalf("%s would be looked up", id)
		} else {
			ids.add(id)
		}
	}
}
