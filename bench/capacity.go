//go:build linux

package main

import (
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/bench/capacity"
)

// capacityMain simulates cells larger than this machine. Every assumption about them is a flag.
func capacityMain(args []string, out io.Writer) int {
	p := capacity.Default()
	h, l, k := &p.Hardware, &p.Load, &p.Costs
	flags := flag.NewFlagSet("bench capacity", flag.ContinueOnError)
	loads := flags.String("loads", "1000,100000,1000000", "events a second, of all tenants")
	for _, n := range []struct {
		to    *int
		name  string
		usage string
	}{
		{&h.NodeCores, "node-cores", "of each node"},
		{&h.DataCores, "database-cores", "of each database"},
		{&h.Slots, "max-in-flight", "attempts at once, of each node"},
		{&h.Writers, "writers", "transactions at once, of each node"},
		{&l.Fanout, "endpoints", "that each event goes to"},
		{&k.LogPublish, "log-event", "bytes of log for an event, its payload among them"},
		{&k.LogDeliver, "log-delivery", "bytes of log for a delivery"},
	} {
		flags.IntVar(n.to, n.name, *n.to, n.usage)
	}
	for _, f := range []struct {
		to    *float64
		name  string
		usage string
	}{
		{&h.Discount, "core", "what a core does, compared with one that was measured"},
		{&h.Purge, "purge", "what removing costs the database later, as a part of what writing cost"},
		{&h.LogRate, "log-rate", "bytes a second that the log's disk takes"},
		{&l.Burst, "burst", "times the load, for a while"},
		{&l.Fails, "fails", "part of the attempts of which nothing comes but a retry"},
		{&p.Skew, "skew", "of tenants: the nth has 1/n to this power"},
		{&p.PerTenant, "per-tenant", "events a second, on average"},
		{&p.PerTarget, "per-endpoint", "deliveries a second, at most"},
		{&p.MostBusy, "fullness", "part of the processors that may be in use with a node gone and no burst"},
	} {
		flags.Float64Var(f.to, f.name, *f.to, f.usage)
	}
	for _, d := range []struct {
		to    *time.Duration
		name  string
		usage string
	}{
		{&h.Sync, "sync", "sync time of the log's disk without other writers"},
		{&h.Trip, "trip", "between node and database, there and back"},
		{&l.BurstFor, "burst-for", "how long the burst lasts"},
		{&l.Answer, "answer", "mean of the receivers"},
		{&l.SlowOnes, "slow", "mean of the slow ones"},
		{&p.MostLag, "lag", "99th percentile of how late a first attempt may be"},
		{&k.NodePublish, "node-event", "processor time of a node to accept an event"},
		{&k.NodeDeliver, "node-delivery", "and for a delivery"},
		{&k.NodeCommit, "node-commit", "and for a transaction"},
		{&k.DataPublish, "database-event", "processor time of the database for an event"},
		{&k.DataDeliver, "database-delivery", "and for a delivery"},
		{&k.DataCommit, "database-commit", "and for a transaction"},
	} {
		flags.DurationVar(d.to, d.name, *d.to, d.usage)
	}
	flags.Uint64Var(&p.Seed, "seed", p.Seed, "of all that is left to chance")
	if flags.Parse(args) != nil {
		return 2
	}
	var rates []float64
	for text := range strings.SplitSeq(*loads, ",") {
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || rate < 1 {
			fmt.Fprintf(flags.Output(), "bench capacity: %q is no number of events a second\n", text)
			return 2
		}
		rates = append(rates, rate)
	}
	debug.SetGCPercent(400) // all objects are short-lived
	p.Report(rates, out)
	return 0
}
