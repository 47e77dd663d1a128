package sim

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestClusterSeeds plays histories of several nodes that share a store. A seed that fails is printed with the command that repeats it.
func TestClusterSeeds(t *testing.T) {
	if *seedFlag != 0 {
		playCluster(t, *seedFlag)
		return
	}
	count := 200
	if os.Getenv("GRAPNEL_SOAK") != "" {
		count = 50_000
	}
	if *seedsFlag != 0 {
		count = *seedsFlag
	}
	var next, steps, receipts, taken, given, pauses, refused, late atomic.Int64
	var players sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for !t.Failed() {
				at := int(next.Add(1)) - 1
				if at >= count {
					return
				}
				seed := *firstFlag + uint64(at)
				out := RunCluster(Options{Seed: seed})
				steps.Add(int64(out.Steps))
				receipts.Add(int64(len(out.History.Receipts)))
				taken.Add(int64(out.Takeovers))
				given.Add(int64(out.Handovers))
				pauses.Add(int64(out.Pauses))
				refused.Add(int64(out.Refused))
				late.Add(int64(out.Late))
				for _, broken := range out.broken() {
					t.Errorf("seed %d breaks a promise:\n  %s\nrepeat it: go test ./internal/sim -run TestClusterSeeds -seed %d", seed, broken, seed)
				}
			}
		})
	}
	players.Wait()
	if n := int64(count); taken.Load() < n || given.Load() < n || pauses.Load() < n || refused.Load() < n/4 || late.Load() < n/100 {
		t.Error("hardly anything came to another node: little was proved")
	}
	t.Logf("%d histories, %d steps of cores, %d receipts; %d shards taken, %d given back; %d pauses, %d writes refused, %d requests late",
		count, steps.Load(), receipts.Load(), taken.Load(), given.Load(), pauses.Load(), refused.Load(), late.Load())
}

func playCluster(t *testing.T, seed uint64) {
	var trace []string
	out := RunCluster(Options{Seed: seed, Trace: func(at time.Duration, line string) {
		trace = append(trace, fmt.Sprintf("%12v  %s", at, line))
	}})
	t.Log(strings.Join(trace, "\n"))
	for _, broken := range out.broken() {
		t.Error(broken)
	}
}

// TestSameClusterSeedSameHistory: what a seed does must not depend on anything else.
func TestSameClusterSeedSameHistory(t *testing.T) {
	for seed := range uint64(5) {
		a, b := RunCluster(Options{Seed: seed}), RunCluster(Options{Seed: seed})
		if fmt.Sprint(a.History) != fmt.Sprint(b.History) || a.Steps != b.Steps {
			t.Fatalf("seed %d gave two histories", seed)
		}
	}
}

// TestClusterMutantsAreCaught: each rule by which nodes share a store is forgotten in turn, and some histories must notice.
func TestClusterMutantsAreCaught(t *testing.T) {
	for _, m := range ClusterMutants() {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			// Those that are seldom noticed are looked for from shortly before the first seed that did.
			first := map[Mutant]uint64{ReadsTooEarly: 310, CountsFromTheAnswer: 140, AnswersUnconfirmed: 110, RenewsUninformed: 100}[m]
			for seed := first; seed < first+3000; seed++ {
				if out := RunCluster(Options{Seed: seed, Mutant: m}); len(out.broken()) > 0 {
					t.Logf("caught by seed %d: %s", seed, out.broken()[0])
					return
				}
			}
			t.Error("3000 histories did not notice")
		})
	}
}
