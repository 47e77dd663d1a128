//go:build linux

// Command bench measures the cost of durability. On one machine and in one run it compares Grapnel
// with an in-memory relay that does the same HTTP work (read and check the same requests, sign and
// send the same deliveries) and stores nothing. Both get the same publisher and the same receiver,
// in turn, so that any other load of the machine affects both.
//
// Throughput: 64 publishers with one connection each publish again as soon as they are answered;
// the result counts arrivals at the receiver. Latency: events at a fixed rate, timed from the
// moment at which each should have been sent, so that a stall counts for every event that it
// delays. Memory: what the server holds before the throughput part, at most, and a minute after it.
//
// Publisher, receiver and relay are processes of this program too. They do as little work as they
// can, because they share the machine with the server; the report says how much of the machine they
// took.
//
// With -silent the other side is Grapnel itself, told to count nothing: no metrics, promises,
// issues and alerts. The difference is what these cost.
//
// With -sealed Grapnel seals payloads, and the other side is Grapnel that only seals secrets. The
// difference is the cost of sealing.
//
// With -together its endpoints have the format batch, and the other side is Grapnel without it.
//
// With -ingest the load is signed requests to a source without endpoints, and the other side is a
// handler that reads and verifies the same requests and stores nothing.
//
// With the argument history it measures how long the API takes to answer with millions of finished
// deliveries. With the argument dashboard it measures the dashboard on such a store: its pages, and
// the cost of open ones. With the argument queues it measures leases of queues. With the argument
// recovery it measures many endpoints that come back at once, each with a backlog. With the
// argument capacity it measures nothing: it computes from measured costs what one database
// carries.
//
// The numbers are this machine's. Ratios depend less on the machine, but they too change with more
// cores or a slower disk.
package main

import (
	"context"
	"flag"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// playRole does not return in a process that startRole has started.
func playRole() {
	roles := map[string]func() verbs{"sink": newSink, "publisher": newPublisher, relayName: newRelay, handlerName: newHandler,
		"receivers": newReceivers}
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		os.Exit(play(roles[os.Args[1]](), os.Stdin, os.Stdout))
	}
}

func main() {
	playRole()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	commands := map[string]func(context.Context, []string, io.Writer) int{"history": historyMain, "dashboard": dashboardMain,
		"queues": queuesMain, "recovery": recoveryMain,
		"capacity": capacityMain}
	if len(os.Args) > 1 && commands[os.Args[1]] != nil {
		os.Exit(commands[os.Args[1]](ctx, os.Args[2:], os.Stdout))
	}
	var s settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&s.publishers, "publishers", 64, "publishers, one connection each")
	flags.IntVar(&s.workers, "workers", 64, "requests in flight per endpoint, on both sides")
	flags.IntVar(&s.endpoints, "endpoints", 1, "endpoints that each event goes to")
	flags.IntVar(&s.size, "size", 1024, "bytes of one POST")
	flags.IntVar(&s.keys, "keys", 0, "ordering keys; 0: events without a key")
	flags.IntVar(&s.batch, "batch", 1, "events in one POST to Grapnel; the relay gets single events")
	flags.IntVar(&s.rounds, "rounds", 5, "rounds of each side")
	flags.DurationVar(&s.warm, "warm", 2*time.Second, "time before each throughput window")
	flags.DurationVar(&s.window, "window", 6*time.Second, "throughput window")
	flags.IntVar(&s.rate, "rate", 200, "events per second of the latency part")
	flags.DurationVar(&s.open, "open", 4*time.Second, "latency window")
	flags.DurationVar(&s.rest, "rest", time.Minute, "time from the end of the throughput part until the server's memory is measured; 0: it is not")
	flags.StringVar(&s.dir, "dir", "", "where the database is put; empty: a new directory below the current one")
	flags.StringVar(&s.binary, "binary", "", "the grapnel binary; empty: it is built")
	flags.BoolVar(&s.postgres, "postgres", false, "keep the data in a PostgreSQL of its own, in the same place")
	flags.BoolVar(&s.silent, "silent", false, "compare with the same server that counts nothing, instead of the relay")
	flags.BoolVar(&s.sealed, "sealed", false, "compare a server that seals payloads with the same server that does not, instead of the relay")
	flags.BoolVar(&s.ingest, "ingest", false, "compare signed requests to a source with a handler that verifies them and stores nothing")
	flags.BoolVar(&s.together, "together", false, "compare an endpoint of format batch with the same server's endpoint of format standard")
	flags.DurationVar(&s.pause, "pause", 0, "time that the receiver takes for a request")
	if err := flags.Parse(os.Args[1:]); err != nil {
		os.Exit(2)
	}
	if err := measure(ctx, s, os.Stdout); err != nil {
		os.Exit(failed(err))
	}
}
