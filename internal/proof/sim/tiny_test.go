package sim

import (
	"sync/atomic"
	"testing"
)

// tiny is a history with bounds from 1 to 8. One in three has replays and purges, one in three a
// store that goes back.
func tiny(o Options) Outcome {
	o.Tiny, o.Tidy, o.Back = true, o.Seed%3 == 1, o.Seed%3 == 2
	return Run(o)
}

func tinyNodes(o Options) Outcome {
	o.Tiny = true
	return runNodes(o)
}

// TestTinySeeds plays histories in which all bounds of the core are tiny, so that each is crossed
// many times. A bound that is never reached hides every fault on its far side.
func TestTinySeeds(t *testing.T) { playTiny(t, "testdata/tinyseeds", 300, tiny) }

// TestTinyClusterSeeds does the same with several nodes.
func TestTinyClusterSeeds(t *testing.T) { playTiny(t, "testdata/tinyclusterseeds", 100, tinyNodes) }

func playTiny(t *testing.T, file string, some int, run func(Options) Outcome) {
	if *seedFlag != 0 {
		play(t, run)
		return
	}
	var steps, receipts atomic.Int64
	n := playAll(t, file, some, 50_000, func(seed uint64) Outcome {
		out := run(Options{Seed: seed})
		steps.Add(int64(out.Steps))
		receipts.Add(int64(len(out.History.Receipts)))
		return out
	})
	if receipts.Load() < n {
		t.Error("the histories were empty: nothing was proved")
	}
	t.Logf("%d histories, %d steps of cores, %d receipts", n, steps.Load(), receipts.Load())
}
