//go:build linux

// Command receivers measures what a kit costs a receiver: the requests per second of each kit's
// test receiver in mode transaction, beside those of the same program in mode bare, which inserts
// the id with ON CONFLICT and has no kit. Both run in turns in one run, so only their ratio means
// something. It holds no promise: machines and databases differ.
//
// Arguments such as go or typescript/postgres choose receivers; without one all are measured.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/e2e/receivers"
)

const (
	turns    = 15
	requests = 600  // of a turn
	warm     = 6000 // before the first turn: a runtime compiles what runs often, and a kit has more of it
	together = 8
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "grapnel-bench-receivers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	databases, err := receivers.Open(ctx, dir)
	if databases != nil {
		defer func() { err = errors.Join(err, databases.Close()) }()
	}
	if err != nil {
		return err
	}
	for _, row := range receivers.Rows {
		for _, store := range row.Stores["transaction"] {
			if !chosen(os.Args[1:], row.Language, store) {
				continue
			}
			if err := compare(ctx, databases, dir, row, store); err != nil {
				return err
			}
		}
	}
	return nil
}

func chosen(names []string, language, store string) bool {
	return len(names) == 0 || slices.Contains(names, language) || slices.Contains(names, language+"/"+store)
}

// compare prints the medians of both modes, and the median of the ratios of turns that follow each
// other.
func compare(ctx context.Context, databases *receivers.Databases, dir string, row receivers.Row, store string) error {
	command, err := row.Prepare(dir, ".")
	if err != nil {
		return err
	}
	running := map[string]*receivers.Receiver{}
	for _, mode := range []string{"bare", "transaction"} {
		own, err := os.MkdirTemp(dir, mode)
		if err != nil {
			return err
		}
		dsn, err := databases.DSN(ctx, store, own)
		if err != nil {
			return err
		}
		if running[mode], err = receivers.New(own, command, "MODE="+mode, "STORE="+store, "DSN="+dsn); err != nil {
			return err
		}
		if err := running[mode].Start(ctx); err != nil {
			return err
		}
		defer running[mode].Stop()
	}
	rates := map[string][]float64{}
	var ratios []float64
	for turn := range turns + 1 {
		count, modes := requests, []string{"bare", "transaction"}
		if turn == 0 {
			count = warm
		}
		if turn%2 == 0 { // each mode is the first one of a pair in half of the turns
			slices.Reverse(modes)
		}
		last := map[string]float64{}
		for _, mode := range modes {
			if last[mode], err = rate(ctx, running[mode], turn, count); err != nil {
				return err
			}
		}
		if turn > 0 {
			for mode, rate := range last {
				rates[mode] = append(rates[mode], rate)
			}
			ratios = append(ratios, last["transaction"]/last["bare"])
		}
	}
	fmt.Printf("%-11s %-9s kit %6.0f/s  bare %6.0f/s  ratio %.2f\n", row.Language, store, median(rates["transaction"]), median(rates["bare"]), median(ratios))
	return nil
}

func median(figures []float64) float64 {
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// rate is the number of events per second of one turn.
func rate(ctx context.Context, r *receivers.Receiver, turn, count int) (float64, error) {
	begun, ids := time.Now(), make(chan string)
	faults := make([]error, together)
	var senders sync.WaitGroup
	for n := range together {
		senders.Go(func() {
			for id := range ids {
				status, text, err := r.Send(ctx, id)
				if err == nil && status != 200 {
					err = fmt.Errorf("%s is answered %d %s", id, status, text)
				}
				faults[n] = errors.Join(faults[n], err)
			}
		})
	}
	for n := range count {
		ids <- fmt.Sprintf("evt_%d_%d", turn, n)
	}
	close(ids)
	senders.Wait()
	return float64(count) / time.Since(begun).Seconds(), errors.Join(faults...)
}
