package sim

import (
	"sync/atomic"
	"testing"
)

// TestClusterSeeds plays histories of several nodes that share a store.
func TestClusterSeeds(t *testing.T) {
	if *seedFlag != 0 {
		play(t, runNodes)
		return
	}
	var steps, receipts, taken, given, pauses, refused, late atomic.Int64
	n := playAll(t, "testdata/clusterseeds", 200, 50_000, func(seed uint64) Outcome {
		out := RunCluster(Options{Seed: seed})
		steps.Add(int64(out.Steps))
		receipts.Add(int64(len(out.History.Receipts)))
		taken.Add(int64(out.Takeovers))
		given.Add(int64(out.Handovers))
		pauses.Add(int64(out.Pauses))
		refused.Add(int64(out.Refused))
		late.Add(int64(out.Late))
		return out.Outcome
	})
	if taken.Load() < n || given.Load() < n || pauses.Load() < n || refused.Load() < n/4 || late.Load() < n/100 {
		t.Error("hardly anything came to another node: little was proved")
	}
	t.Logf("%d histories, %d steps of cores, %d receipts; %d shards taken, %d given back; %d pauses, %d writes refused, %d requests late",
		n, steps.Load(), receipts.Load(), taken.Load(), given.Load(), pauses.Load(), refused.Load(), late.Load())
}

// TestSameClusterSeedSameHistory: a history depends on its seed alone.
func TestSameClusterSeedSameHistory(t *testing.T) { same(t, runNodes, 5) }

func runNodes(o Options) Outcome { return RunCluster(o).Outcome }
