package sim

import (
	"sync/atomic"
	"testing"
)

// TestLaterSeeds plays histories in which publishers ask for deliveries at a later time: none comes
// earlier, and later events of a key wait behind it.
func TestLaterSeeds(t *testing.T) {
	later := func(o Options) Outcome { o.Later = true; return Run(o) }
	if *seedFlag != 0 {
		play(t, later)
		return
	}
	var asked atomic.Int64
	n := playAll(t, "testdata/laterseeds", 150, 20_000, func(seed uint64) Outcome {
		out := later(Options{Seed: seed})
		for i := range out.History.Publishes {
			if out.History.Publishes[i].NotBefore > 0 {
				asked.Add(1)
			}
		}
		return out
	})
	if asked.Load() < n {
		t.Error("hardly any event was for later: little was proved")
	}
	t.Logf("%d histories, %d publishes for later", n, asked.Load())
}

// TestLaterMutantIsCaught: a checker that never fails proves nothing, so the mutant must make it
// fail.
func TestLaterMutantIsCaught(t *testing.T) {
	caught := 0
	for seed := uint64(1); seed <= 100 && caught < 3; seed++ {
		if out := Run(Options{Seed: seed, Later: true, Mutant: DeliversAtOnce}); len(out.Violations) > 0 {
			caught++
			t.Log(out.Violations[0])
		}
	}
	if caught < 3 {
		t.Errorf("caught in %d of 100 histories", caught)
	}
}
