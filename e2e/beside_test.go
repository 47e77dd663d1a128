//go:build linux

package e2e

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// weight is what a test takes of the machine while others run beside it.
type weight int

const (
	light weight = 1 // mostly waits: up to a third of a processor
	busy  weight = 2 // one server under load, or several beside each other
	heavy weight = 3 // nodes on one database: two thirds of a processor
)

// turns are the weights that may run at once: on two processors two clusters, and beside them one
// busy test or two light ones. With three clusters nodes with short leases starve each other. A
// test holds the mutex while it takes its slots, so tests begin in order, and two tests cannot wait
// for each other with half of their slots.
var turns = struct {
	sync.Mutex
	slots chan struct{}
}{slots: make(chan struct{}, 2*int(heavy)*max(1, runtime.GOMAXPROCS(0)/2)+int(busy))}

// beside lets a test run beside others, once there are slots for its weight. It returns them when
// the test has cleaned up all that it started, because the cleanup that was registered first is the
// last to run.
func beside(t *testing.T, w weight) {
	t.Helper()
	t.Parallel()
	since := time.Now()
	turns.Lock()
	defer turns.Unlock()
	for range w {
		turns.slots <- struct{}{}
	}
	t.Logf("waited %v for its turn", time.Since(since).Round(time.Millisecond))
	t.Cleanup(func() {
		for range w {
			<-turns.slots
		}
	})
}
