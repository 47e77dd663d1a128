//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// measuredCosts are of one delivery on PostgreSQL, by go run ./bench -postgres on 26 November 2026
// (docs/performance.md): events of 1 KiB, one endpoint.
var measuredCosts = struct {
	node, database time.Duration // processor time
	log            int           // bytes of write-ahead log, payload's among them
	payload        int
	transactions   float64
}{93 * time.Microsecond, 63 * time.Microsecond, 2385, 1024, 0.060}

// assumed is what the table assumes of machines. Every part is a flag.
type assumed struct {
	core    float64 // the work of a core divided by that of a measured one
	busy    float64 // the part of the processors that may be in use
	purge   float64 // the database's later cost of purging, as a part of the cost of writing
	writers int     // transactions that one sync can carry
}

// carries is the number of events a second that the database's processors, and the syncs of its
// log, allow.
func (m assumed) carries(cores int, sync time.Duration) float64 {
	processors := m.busy * m.core * float64(cores) / (measuredCosts.database.Seconds() * (1 + m.purge))
	return min(processors, float64(m.writers)/measuredCosts.transactions/sync.Seconds())
}

// nodeCores is the number of nodes' cores that a load needs.
func (m assumed) nodeCores(rate float64) float64 {
	return rate * measuredCosts.node.Seconds() / m.core / m.busy
}

// logOf is the log of events of a size, in bytes a second.
func logOf(rate float64, payload int) float64 {
	return rate * float64(measuredCosts.log-measuredCosts.payload+payload)
}

// capacityMain prints what one database carries. It measures nothing: see measuredCosts.
func capacityMain(_ context.Context, args []string, out io.Writer) int {
	m := assumed{0.7, 0.6, 0.3, 8}
	flags := flag.NewFlagSet("bench capacity", flag.ContinueOnError)
	flags.Float64Var(&m.core, "core", m.core, "what a core does, compared with one that was measured")
	flags.Float64Var(&m.busy, "fullness", m.busy, "part of the processors that may be in use")
	flags.Float64Var(&m.purge, "purge", m.purge, "what purging costs the database later, as a part of what writing cost")
	flags.IntVar(&m.writers, "writers", m.writers, "transactions at once, of all nodes")
	if flags.Parse(args) != nil {
		return 2
	}
	var b strings.Builder
	b.WriteString("| cores of the database | events a second, sync 0.1 ms | 1 ms | 10 ms | cores of all nodes | log of events of 1 KiB | of 8 KiB | a day of 1 KiB |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, cores := range []int{2, 4, 8, 16} {
		rate := m.carries(cores, time.Millisecond)
		fmt.Fprintf(&b, "| %d | %.0f | %.0f | %.0f | %.0f | %.0f MiB/s | %.0f MiB/s | %.0f GiB |\n", cores,
			m.carries(cores, time.Millisecond/10), rate, m.carries(cores, 10*time.Millisecond), m.nodeCores(rate),
			logOf(rate, 1<<10)/(1<<20), logOf(rate, 8<<10)/(1<<20), logOf(rate, 1<<10)*86_400/(1<<30))
	}
	_, _ = io.WriteString(out, b.String())
	return 0
}
