package processors

import (
	"context"
	"fmt"
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
		var used atomic.Int64
		var set []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			adapt(ctx, bounds.Fill(Bounds{Rest: 5 * time.Second}), 3, func(n int) {
				set = append(set, fmt.Sprint(n, " after ", time.Since(began)))
			}, func() time.Duration { return time.Duration(used.Load()) })
		}()
		load := func(percent int, lasts time.Duration) {
			for range lasts / (10 * time.Millisecond) {
				used.Add(int64(percent) * int64(10*time.Millisecond) / 100)
				time.Sleep(10 * time.Millisecond)
			}
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

// TestUsed: work adds to the time used.
func TestUsed(t *testing.T) {
	before, known := used()
	if !known {
		t.Fatal("the system does not say what this process has used")
	}
	for until := time.Now().Add(50 * time.Millisecond); time.Now().Before(until); {
		continue
	}
	if after, _ := used(); after <= before {
		t.Errorf("the time used was %v, and is %v after some work", before, after)
	}
}
