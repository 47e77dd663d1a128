// Package processors gives Go's scheduler one processor while the program has little to do, and all
// of them otherwise.
//
// When a goroutine becomes ready while a processor is idle, the scheduler wakes a thread there to
// look for work. With little to do that thread finds none, and sleeps again. Waking it takes longer
// than many a step of a delivery: at 200 events a second a third of the program's time.
//
// It also says how many processors there are under load, and whether their time is short.
package processors

import (
	"context"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/bounds"
)

// Bounds say what little is; see package bounds.
type Bounds struct {
	Look time.Duration `bound:"100ms" tiny:"1ms"` // between two looks at the time that was used
	// Percent of one processor's time. With less than Calm in each look for Rest one processor does
	// all, until a look finds Busy.
	Calm int           `bound:"35"`
	Busy int           `bound:"40"`
	Rest time.Duration `bound:"1s" tiny:"5ms"`
	// A look also finds Busy if processor time is short: see the functions Short and Starts. A
	// machine that is busy with other programs gives this one little time, however much it has to do.
	Late  time.Duration `bound:"1ms"`
	Share int           `bound:"10"`
}

// all is the number of processors under load; 0: Start was not called.
var all atomic.Int64

// All is the number of processors under load. Sizes follow from it, because runtime.GOMAXPROCS(0)
// is 1 in a calm second.
func All() int {
	if n := all.Load(); n > 0 {
		return int(n)
	}
	return runtime.GOMAXPROCS(0)
}

// Half of the processors, but at least one, may evaluate what tenants wrote.
func Half() int { return max(1, All()/2) }

// Start gives the scheduler some processors more than it has, and one while there is little to do,
// until the function that it returns is called. Then it has all again.
func Start(b Bounds, more int) (end func()) {
	b = bounds.Fill(b)
	n := All() + more
	all.Store(int64(n))
	runtime.GOMAXPROCS(n)
	if _, known := used(); !known {
		return func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { adapt(ctx, b, n, func(n int) { runtime.GOMAXPROCS(n) }, watch(b)) })
	return func() {
		stop()
		running.Wait()
	}
}

// watch returns a function that says what percent of one processor's time the process has used
// since its last call, or 100 if goroutines waited for long.
func watch(b Bounds) func() int {
	at := time.Now()
	before, _ := used()
	short := Short(Starts(b.Late), b.Share)
	return func() int {
		now := time.Now()
		sum, _ := used()
		percent := int(100 * (sum - before) / max(now.Sub(at), 1))
		if at, before = now, sum; short() {
			return 100
		}
		return percent
	}
}

// Short returns a function that says whether processor time was short since its last call: one
// goroutine in share was late, and more than one. An idle program starts a few in a look, and on a
// machine with other programs one of them is late now and then.
func Short(count func() (tardy, started uint64), share int) func() bool {
	var tardy, started uint64
	return func() bool {
		late, all := tardy, started
		tardy, started = count()
		late, all = tardy-late, started-all
		return late > 1 && late*uint64(share) >= all
	}
}

// Starts returns a function that counts the goroutines that were started so far, or went on after a
// wait, and those of them that then waited for a processor for longer than late. Go times one of
// eight, and only those are counted.
func Starts(late time.Duration) func() (tardy, started uint64) {
	samples := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	return func() (tardy, started uint64) {
		metrics.Read(samples)
		h := samples[0].Value.Float64Histogram()
		for i, n := range h.Counts {
			started += n
			if h.Buckets[i] >= late.Seconds() {
				tardy += n
			}
		}
		return tardy, started
	}
}

// adapt calls set when the number of processors is to change. look says what percent of one
// processor's time the process needed since the last look.
func adapt(ctx context.Context, b Bounds, most int, set func(int), look func() int) {
	looks := time.NewTicker(b.Look)
	defer looks.Stop()
	is := most
	use := func(n int) {
		if n != is {
			is = n
			set(n)
		}
	}
	defer use(most)
	calm := time.Now() // since when little was needed
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		}
		now, percent := time.Now(), look()
		if percent >= b.Calm {
			calm = now
		}
		switch {
		case percent >= b.Busy:
			use(most)
		case now.Sub(calm) >= b.Rest:
			use(1)
		}
	}
}
