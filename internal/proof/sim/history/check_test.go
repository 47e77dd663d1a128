package history

import (
	"fmt"
	"testing"
)

// Clean histories, with crashes, flaky endpoints, lost answers and operators, must pass.
func TestCleanHistoriesPass(t *testing.T) {
	receipts, repeats, deleted := 0, 0, 0
	for seed := range uint64(600) {
		toy := run(seed, sound)
		if v := Check(toy.h); len(v) > 0 {
			t.Fatalf("seed %d: %d violations in a clean history, first: %v", seed, len(v), v[0])
		}
		receipts += len(toy.h.Receipts)
		repeats += twice(toy.h)
		deleted += len(toy.deleted)
	}
	// A generator that never produces the difficult cases would make this test worthless.
	if receipts < 10_000 || repeats < 50 || deleted < 50 {
		t.Fatalf("the histories are too tame: %d receipts, %d repetitions after a crash, %d deleted endpoints", receipts, repeats, deleted)
	}
}

// Every bug must be caught, under its own name, in every history in which it came into effect.
func TestEveryBugIsCaught(t *testing.T) {
	for b := losesDelivery; b < bugs; b++ {
		t.Run(fmt.Sprintf("%02d-%s", b, caughtAs[b]), func(t *testing.T) {
			shown := 0
			for seed := range uint64(300) {
				toy := run(seed, b)
				if !toy.manifest {
					continue
				}
				shown++
				if !has(Check(toy.h), caughtAs[b]) {
					t.Fatalf("seed %d: %s not found; found %v", seed, caughtAs[b], Check(toy.h))
				}
			}
			if shown < 20 {
				t.Fatalf("the bug came into effect in %d of 300 histories only", shown)
			}
		})
	}
}

func has(violations []Violation, rule Rule) bool {
	for _, v := range violations {
		if v.Rule == rule {
			return true
		}
	}
	return false
}

// twice counts deliveries that a receiver accepted more than once.
func twice(h History) int {
	took := map[string]int{}
	for _, r := range h.Receipts {
		if r.success() && !r.AnswerLost {
			took[r.Delivery]++
		}
	}
	n := 0
	for _, count := range took {
		if count > 1 {
			n++
		}
	}
	return n
}
