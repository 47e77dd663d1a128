// Package processors gives Go's scheduler one processor while the program has little to do, and all
// of them otherwise.
//
// When a goroutine becomes ready while a processor is idle, the scheduler wakes a thread there to
// look for work. With little to do that thread finds none, and sleeps again. Waking it takes longer
// than many a step of a delivery: at 200 events a second a third of the program's time.
package processors

import (
	"context"
	"runtime"
	"runtime/metrics"
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
	// A look also finds Busy if one goroutine in Share waited for a processor for longer than Late. A
	// machine that is busy with other programs gives this one little time, however much it has to do.
	Late  time.Duration `bound:"1ms"`
	Share int           `bound:"10"`
}

// Run sets the number of processors to 1 or to all, until ctx ends; then it is all.
func Run(ctx context.Context, b Bounds, all int) {
	b = bounds.Fill(b)
	runtime.GOMAXPROCS(all)
	if _, known := used(); known {
		adapt(ctx, b, all, func(n int) { runtime.GOMAXPROCS(n) }, watch(b))
	}
}

// watch returns a function that says what percent of one processor's time the process has used
// since its last call, or 100 if goroutines waited for long.
func watch(b Bounds) func() int {
	at := time.Now()
	before, _ := used()
	starts := Starts(b.Late)
	late, all := starts()
	return func() int {
		now := time.Now()
		sum, _ := used()
		percent := int(100 * (sum - before) / max(now.Sub(at), 1))
		nowLate, nowAll := starts()
		if waited := nowLate - late; waited > 0 && waited*uint64(b.Share) >= nowAll-all {
			percent = 100
		}
		at, before, late, all = now, sum, nowLate, nowAll
		return percent
	}
}

// Starts returns a function that counts the goroutines that were started so far, or went on after a
// wait, and those of them that then waited for a processor for longer than late.
func Starts(late time.Duration) func() (tardy, all uint64) {
	samples := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	return func() (tardy, all uint64) {
		metrics.Read(samples)
		h := samples[0].Value.Float64Histogram()
		for i, n := range h.Counts {
			all += n
			if h.Buckets[i] >= late.Seconds() {
				tardy += n
			}
		}
		return tardy, all
	}
}

// adapt calls set when the number of processors is to change. look says what percent of one
// processor's time the process needed since the last look.
func adapt(ctx context.Context, b Bounds, all int, set func(int), look func() int) {
	looks := time.NewTicker(b.Look)
	defer looks.Stop()
	is := all
	use := func(n int) {
		if n != is {
			is = n
			set(n)
		}
	}
	defer use(all)
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
			use(all)
		case now.Sub(calm) >= b.Rest:
			use(1)
		}
	}
}
