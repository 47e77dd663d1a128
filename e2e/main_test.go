//go:build linux

package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// scratch holds the binary for as long as the test run lasts.
var scratch string

func TestMain(m *testing.M) {
	if bug, ok := os.LookupEnv(fakeVariable); ok {
		os.Exit(serveFake(bug))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "grapnel-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	scratch = dir
	// Tests wait for slots of their weight (beside), not for one of as many places as there are
	// processors, unless the run asks for a number.
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", "100"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// soak says whether the run has asked for the long forms.
func soak() bool { return os.Getenv("GRAPNEL_SOAK") == "1" }

// soakFor is how long a long form without a number of rounds lasts: GRAPNEL_SOAK_FOR, or an hour.
func soakFor(t testing.TB) time.Duration {
	t.Helper()
	text := os.Getenv("GRAPNEL_SOAK_FOR")
	if text == "" {
		return time.Hour
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("GRAPNEL_SOAK_FOR: %v", err)
	}
	return d
}

// dice is seeded randomness that several goroutines may share. The seed repeats the choices, not
// the scheduling.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

// newDice takes GRAPNEL_SEED, or draws a seed and logs it.
func newDice(t testing.TB) *dice {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("GRAPNEL_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("GRAPNEL_SEED: %v", err)
		}
	}
	t.Logf("GRAPNEL_SEED=%d repeats the choices of this run", seed)
	return &dice{rng: rand.New(rand.NewPCG(seed, 0))}
}

// n is a number in [0, most).
func (d *dice) n(most int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(most)
}

// percent returns true with a probability of p percent.
func (d *dice) percent(p int) bool { return d.n(100) < p }

// between is a time in [from, to).
func (d *dice) between(from, to time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return from + time.Duration(d.rng.Int64N(int64(to-from)))
}
