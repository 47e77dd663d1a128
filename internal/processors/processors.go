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
}

// Run sets the number of processors to 1 or to all, until ctx ends; then it is all.
func Run(ctx context.Context, b Bounds, all int) {
	runtime.GOMAXPROCS(all)
	if _, known := used(); known {
		adapt(ctx, bounds.Fill(b), all, func(n int) { runtime.GOMAXPROCS(n) }, func() time.Duration {
			sum, _ := used()
			return sum
		})
	}
}

// adapt calls set when the number of processors is to change. used is the processor time that the
// process has used so far.
func adapt(ctx context.Context, b Bounds, all int, set func(int), used func() time.Duration) {
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
	at, before := time.Now(), used()
	calm := at // since when little was used
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		}
		now, sum := time.Now(), used()
		share := int(100 * (sum - before) / max(now.Sub(at), 1))
		at, before = now, sum
		if share >= b.Calm {
			calm = now
		}
		switch {
		case share >= b.Busy:
			use(all)
		case now.Sub(calm) >= b.Rest:
			use(1)
		}
	}
}
