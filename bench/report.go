//go:build linux

package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// The bars that Grapnel has to clear.
const (
	leastRatio     = 0.65
	leastOnAServer = 0.35 // with PostgreSQL, which takes its part of the machine
	leastIngest    = 0.80 // of a handler that verifies and stores nothing
	leastCounting  = 0.97 // of the same server that counts nothing
	leastSealed    = 0.85 // of the same server that seals no payloads
	mostAdded      = 10 * time.Millisecond
	mostKept       = 1.5 // resident memory a minute after the load, of that before it
)

func (b *bench) leastRatio() float64 {
	if b.ingest {
		return leastIngest
	}
	if b.database != nil {
		return leastOnAServer
	}
	if b.silent {
		return leastCounting
	}
	if b.sealed {
		return leastSealed
	}
	return leastRatio
}

func (b *bench) opening(d disk) {
	keys := "no keys"
	if b.keys > 0 {
		keys = fmt.Sprintf("%d keys", b.keys)
	}
	b.say("machine   %s", machine())
	store := "SQLite in WAL mode, synchronous=FULL"
	if b.database != nil {
		store = b.postgresSettings()
	}
	b.say("disk      %s, write of 4 KiB and fsync %v; %s", d.kind, d.sync.Round(time.Microsecond), store)
	posts := "single POSTs"
	if b.ingest {
		posts = "signed requests to a source"
	}
	if b.batch > 1 {
		posts = fmt.Sprintf("single POSTs to the relay and batches of %d to Grapnel", b.batch)
	}
	b.say("load      %d publishers, %s, %d bytes for each event, %s, %d endpoint(s), %d requests in flight per endpoint", b.publishers,
		posts, b.size, keys, b.endpoints, b.workers)
	b.say("")
	b.say("throughput, closed loop, %v after %v of warming up           cores used by", b.window, b.warm)
	b.say("round  side     delivered/s  accepted/s  backlog  drained in   itself  publisher  sink  database  others")
}

func (b *bench) row(round int, x *side, w window) {
	b.say("%5d  %-8s %11.0f  %10.0f  %7d  %10v  %6.2f  %9.2f  %4.2f  %8.2f  %6.2f", round+1, x.name, w.delivered, w.accepted, w.backlog,
		w.drained.Round(time.Millisecond), w.own, w.publisher, w.sink, w.database, w.others)
}

func (b *bench) compareThroughput() {
	relay, own := b.sides[0], b.sides[1]
	ratio := median(own.windows, func(w window) float64 { return w.delivered }) / median(relay.windows,
		func(w window) float64 { return w.delivered })
	b.say("")
	b.say("median    %s %.0f/s, Grapnel %.0f/s, ratio %.1f %%  (bar: at least %.0f %%: %s)", relay.name,
		median(relay.windows, func(w window) float64 { return w.delivered }), median(own.windows, func(w window) float64 { return w.delivered }),
		100*ratio, 100*b.leastRatio(), verdict(ratio >= b.leastRatio()))
	// Other programs slow both sides down, but hardly change the cost of a delivery.
	cost := func(x *side) (own, all float64) {
		const micro = 1e6
		return micro * median(x.windows, func(w window) float64 { return w.own / w.delivered }),
			micro * median(x.windows, func(w window) float64 { return (w.own + w.publisher + w.sink) / w.delivered })
	}
	relayOwn, relayAll := cost(relay)
	ownOwn, ownAll := cost(own)
	one := "delivery"
	if b.ingest {
		one = "request"
	}
	b.say("          processor time per %s: %s %.0f µs, Grapnel %.0f µs; with publisher and sink %.0f µs and %.0f µs (%.1f %%)", one,
		relay.name, relayOwn, ownOwn, relayAll, ownAll, 100*relayAll/ownAll)
	for _, x := range b.sides {
		if x.disk != nil && b.database == nil {
			b.say("          bytes written to the disk for a %s by %s: %.0f", one, x.name, median(x.windows, func(w window) float64 { return w.written }))
		}
	}
	if b.database != nil {
		b.say("          and the database %.0f µs", 1e6*median(own.windows, func(w window) float64 { return w.database / w.delivered }))
	}
	for _, x := range b.sides {
		client := median(x.windows, func(w window) float64 { return w.publisher + w.sink })
		used := client + median(x.windows, func(w window) float64 { return w.own + w.database })
		others := median(x.windows, func(w window) float64 { return w.others })
		switch {
		case others > 0.15*cores():
			b.say("          %s: other programs took %.2f of %.0f cores; repeat this on a quiet machine", x.name, others, cores())
		case used < 0.85*cores():
			b.say("          %s: only %.2f of %.0f cores were busy; the bottleneck is a wait, for the disk or between processes", x.name,
				used, cores())
		case client > used/2:
			b.say("          %s: the client is the bottleneck, publisher and sink took %.2f of %.2f cores used; this is a lower bound",
				x.name, client, used)
		default:
			b.say("          %s: all %.0f cores were busy; publisher and sink took %.2f of %.2f", x.name, cores(), client, used)
		}
	}
}

func (b *bench) compareMemory(idle, now memory) {
	ratio := float64(now.resident) / float64(idle.resident)
	b.say("memory    of Grapnel, resident: %.0f MiB before the load, %.0f MiB at most, %.0f MiB %v after it, ratio %.2f  (bar: at most %.1f: %s)",
		mib(idle.resident), mib(now.peak), mib(now.resident), b.rest, ratio, mostKept, verdict(ratio <= mostKept))
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// compareLatency compares medians over the windows: another program that disturbs one window does
// not change them.
func (b *bench) compareLatency() {
	b.say("")
	b.say("latency at %d events/s, open loop, from the intended moment to the receiver; medians of %d windows of %v", b.rate, b.rounds, b.open)
	b.say("side     events/window        p50        p90        p99        max")
	at := func(x *side, q float64) time.Duration {
		return time.Duration(median(x.took, func(took []time.Duration) float64 { return float64(quantile(took, q)) }))
	}
	for _, x := range b.sides {
		b.say("%-8s %13d  %9v  %9v  %9v  %9v", x.name, len(x.took[0]), at(x, 0.5), at(x, 0.9), at(x, 0.99), at(x, 1))
	}
	relay, own := b.sides[0], b.sides[1]
	added := at(own, 0.99) - at(relay, 0.99)
	same := func(seconds float64) float64 { return seconds }
	with := ""
	if b.database != nil {
		with = " with its database"
	}
	b.say("         processor seconds for 1,000 events: %s %.2f, Grapnel%s %.2f", relay.name, median(relay.steady, same), with,
		median(own.steady, same))
	b.say("added    p50 %v, p99 %v  (bar: less than %v at p99: %s)", at(own, 0.5)-at(relay, 0.5), added, mostAdded, verdict(added < mostAdded))
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

func median[T any](all []T, of func(T) float64) float64 {
	values := make([]float64, len(all))
	for i, x := range all {
		values[i] = of(x)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// quantile of sorted times.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Round(10 * time.Microsecond)
}

func cores() float64 { return float64(runtime.NumCPU()) }
