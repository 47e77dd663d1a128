package sim

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "play only this seed, with a trace")
	seedsFlag = flag.Int("seeds", 0, "how many new seeds to play")
	firstFlag = flag.Uint64("first", 1, "the first of them")
	keepFlag  = flag.Bool("keep", true, "write a seed that fails into testdata")
)

// TestSeeds plays many histories. A failing seed is printed with the command that repeats it, and
// written into testdata/seeds, which has to be committed: it is played first from then on.
func TestSeeds(t *testing.T) {
	if *seedFlag != 0 {
		play(t, Run)
		return
	}
	var steps, faults, receipts atomic.Int64
	n := playAll(t, "testdata/seeds", 1000, 100_000, func(seed uint64) Outcome {
		out := Run(Options{Seed: seed})
		steps.Add(int64(out.Steps))
		faults.Add(int64(out.Repaired))
		receipts.Add(int64(len(out.History.Receipts)))
		return out
	})
	if faults.Load() == 0 || receipts.Load() == 0 {
		t.Error("the histories were empty: nothing was proved")
	}
	t.Logf("%d histories, %d steps of the core, %d faults, %d receipts", n, steps.Load(), faults.Load(), receipts.Load())
}

// TestTidySeeds plays histories in which operators replay finished deliveries, in interrupted
// steps, and expired rows are purged.
func TestTidySeeds(t *testing.T) {
	tidy := func(o Options) Outcome { o.Tidy = true; return Run(o) }
	if *seedFlag != 0 {
		play(t, tidy)
		return
	}
	var replays, made, purged atomic.Int64
	n := playAll(t, "testdata/tidyseeds", 50, 20_000, func(seed uint64) Outcome {
		out := tidy(Options{Seed: seed})
		replays.Add(int64(out.Replays))
		made.Add(int64(out.Replayed))
		purged.Add(int64(out.Purged))
		return out
	})
	if replays.Load() < n || made.Load() < n || purged.Load() < n {
		t.Error("hardly anything was replayed or purged: little was proved")
	}
	t.Logf("%d histories, %d replays that made %d deliveries, %d deliveries purged", n, replays.Load(), made.Load(), purged.Load())
}

// TestBackSeeds plays histories in which the store goes back to an earlier state while the node
// runs.
func TestBackSeeds(t *testing.T) {
	back := func(o Options) Outcome { o.Back = true; return Run(o) }
	if *seedFlag != 0 {
		play(t, back)
		return
	}
	var times atomic.Int64
	n := playAll(t, "testdata/backseeds", 150, 20_000, func(seed uint64) Outcome {
		out := back(Options{Seed: seed})
		for _, f := range out.History.Faults {
			if f.Kind == history.Rewind {
				times.Add(1)
			}
		}
		return out
	})
	if times.Load() < n {
		t.Error("the store hardly ever went back: little was proved")
	}
	t.Logf("%d histories, the store went back %d times", n, times.Load())
}

// TestBackMutantsAreCaught: a checker that never fails proves nothing, so each mutant must make it
// fail.
func TestBackMutantsAreCaught(t *testing.T) {
	for _, m := range BackMutants() {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			caught := 0
			for seed := uint64(1); seed <= 300 && caught < 3; seed++ {
				if out := Run(Options{Seed: seed, Back: true, Mutant: m}); len(out.Violations) > 0 {
					caught++
					t.Log(out.Violations[0])
				}
			}
			if caught < 3 {
				t.Errorf("caught in %d of 300 histories", caught)
			}
		})
	}
}

// playAll plays the seeds stored in a file, and then new ones: the number given by the flag, else
// some, of them a quarter with -short, or with GRAPNEL_SOAK far. It stops at a seed that breaks a
// promise, prints the command that repeats it, and stores it. It returns how many it has played.
func playAll(t *testing.T, file string, some, far int, run func(seed uint64) Outcome) int64 {
	t.Helper()
	if os.Getenv("GRAPNEL_SOAK") != "" {
		some = far
	}
	if testing.Short() {
		some /= 4
	}
	if *seedsFlag != 0 {
		some = *seedsFlag
	}
	seeds := kept(t, file)
	for i := range some {
		seeds = append(seeds, *firstFlag+uint64(i))
	}
	var next, played atomic.Int64
	var players sync.WaitGroup
	var keeping sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for {
				at := int(next.Add(1)) - 1
				if at >= len(seeds) || t.Failed() {
					return
				}
				out := run(seeds[at])
				broken := out.broken()
				played.Add(1)
				if len(broken) > 0 && *keepFlag {
					keeping.Lock()
					keep(t, file, seeds[at], broken[0])
					keeping.Unlock()
				}
				for _, broken := range broken {
					t.Errorf("seed %d breaks a promise:\n  %s\nrepeat it: go test ./internal/proof/sim -run '%s$' -seed %d", seeds[at], broken,
						t.Name(), seeds[at])
				}
			}
		})
	}
	players.Wait()
	return played.Load()
}

// kept reads the seeds that have failed once.
func kept(t *testing.T, file string) (seeds []uint64) {
	f, err := os.Open(file)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Error(err)
			continue
		}
		seeds = append(seeds, seed)
	}
	return seeds
}

// keep adds a seed to the stored ones.
func keep(t *testing.T, file string, seed uint64, broken string) {
	for _, known := range kept(t, file) {
		if known == seed {
			return
		}
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = f.Close() }()
	if _, err := fmt.Fprintf(f, "%d # %s\n", seed, broken); err != nil {
		t.Error(err)
	}
}

// play plays the seed of the flag and prints its events.
func play(t *testing.T, run func(Options) Outcome) {
	var trace []string
	out := run(Options{Seed: *seedFlag, Trace: func(at time.Duration, line string) {
		trace = append(trace, fmt.Sprintf("%12v  %s", at, line))
	}})
	t.Log(strings.Join(trace, "\n"))
	for _, broken := range out.broken() {
		t.Error(broken)
	}
}

// broken lists the promises that a history broke.
func (o *Outcome) broken() (list []string) {
	for _, v := range o.Violations {
		list = append(list, v.String())
	}
	return append(list, o.Excesses...)
}

// TestSameSeedSameHistory: a history depends on its seed alone.
func TestSameSeedSameHistory(t *testing.T) {
	same(t, Run, 20)
}

func same(t *testing.T, run func(Options) Outcome, seeds uint64) {
	for seed := range seeds {
		a, b := run(Options{Seed: seed}), run(Options{Seed: seed})
		if fmt.Sprint(a.History) != fmt.Sprint(b.History) || a.Steps != b.Steps {
			t.Fatalf("seed %d gave two histories", seed)
		}
	}
}

// TestMutantsAreCaught: a checker that never fails proves nothing, so each mutant must make it
// fail. After five failures the mutant counts as caught.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range Mutants() {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			caught := 0
			for seed := uint64(10); seed < 70 && caught < 5; seed++ { // in 3 and 8 deliveries behind their lane's head are tried 400,000 times
				if out := Run(Options{Seed: seed, Mutant: m}); len(out.Violations) > 0 {
					caught++
				}
			}
			if caught < 5 {
				t.Errorf("caught in %d of 60 histories", caught)
			}
		})
	}
}
