package processors

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/internal/bounds"
)

// TestOneProcessorWhileLittleIsUsed plays shares of a processor's time. It expects each change of
// the number, and when it comes.
func TestOneProcessorWhileLittleIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var percent atomic.Int64
		var set []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			adapt(ctx, bounds.Fill(Bounds{Rest: 5 * time.Second}), 3, func(n int) {
				set = append(set, fmt.Sprint(n, " after ", time.Since(began)))
			}, func() int { return int(percent.Load()) })
		}()
		load := func(share int, lasts time.Duration) {
			percent.Store(int64(share))
			time.Sleep(lasts)
			synctest.Wait()
		}
		time.Sleep(time.Millisecond) // the load changes between two looks
		load(150, 2*time.Second)
		load(10, 4*time.Second)
		load(37, 200*time.Millisecond) // not enough to need all, too much to be calm
		load(10, 6*time.Second)
		load(37, 2*time.Second)
		load(90, 200*time.Millisecond)
		load(10, 10*time.Second)
		cancel()
		<-done
		want := []string{"1 after 11.2s", "3 after 14.3s", "1 after 19.4s", "3 after 24.401s"}
		if fmt.Sprint(set) != fmt.Sprint(want) {
			t.Errorf("set %q, want %q", set, want)
		}
	})
}

// TestWatch: work, and goroutines that wait for a processor, make a look find that much is needed.
func TestWatch(t *testing.T) {
	busy := func(lasts time.Duration) {
		for until := time.Now().Add(lasts); time.Now().Before(until); {
			continue
		}
	}
	b := bounds.Fill(Bounds{})
	look := watch(b)
	busy(100 * time.Millisecond)
	if percent := look(); percent <= 0 {
		t.Errorf("work of 100 ms took %d percent of a processor", percent)
	}
	// Go times one start of eight, at random. Of 40 goroutines it times at most one in two runs of a
	// hundred, and one late goroutine is not short of time.
	many := 200 * runtime.GOMAXPROCS(0)
	var running sync.WaitGroup
	for range many {
		running.Go(func() { busy(time.Millisecond) })
	}
	running.Wait()
	if percent := look(); percent != 100 {
		t.Errorf("%d goroutines waited for each other, and a look found %d percent", many, percent)
	}
}

// TestSizesFollowFromAllProcessors: a part that is made in a calm second gets the size that it has
// under load.
func TestSizesFollowFromAllProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() {
		all.Store(0)
		runtime.GOMAXPROCS(before)
	})
	end := Start(Bounds{Look: time.Millisecond, Rest: 5 * time.Millisecond}, 3)
	for until := time.Now().Add(30 * time.Second); runtime.GOMAXPROCS(0) != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("an idle process keeps its processors")
		}
	}
	if All() != before+3 || Half() != (before+3)/2 {
		t.Errorf("with one processor of %d there are %d, half of them %d", before+3, All(), Half())
	}
	end()
	if n := runtime.GOMAXPROCS(0); n != before+3 {
		t.Errorf("at the end there are %d processors, want %d", n, before+3)
	}
}

// TestOneLateGoroutineIsNotShort: the look that follows counts from there.
func TestOneLateGoroutineIsNotShort(t *testing.T) {
	var tardy, started uint64
	short := Short(func() (uint64, uint64) { return tardy, started }, 10)
	for _, look := range []struct {
		tardy, started uint64
		want           bool
	}{{0, 0, false}, {1, 1, false}, {1, 5, false}, {2, 5, true}, {2, 20, true}, {2, 21, false}, {0, 5, false}, {30, 200, true}} {
		tardy, started = tardy+look.tardy, started+look.started
		if got := short(); got != look.want {
			t.Errorf("%d of %d were late: short is %t", look.tardy, look.started, got)
		}
	}
}
