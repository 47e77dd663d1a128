//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// dashboardMain is the command.
func dashboardMain(ctx context.Context, args []string, out io.Writer) int {
	var d dashboard
	flags := flag.NewFlagSet("bench dashboard", flag.ContinueOnError)
	flags.IntVar(&d.n, "n", 1_000_000, "deliveries in the store")
	flags.IntVar(&d.world.endpoints, "endpoints", 200, "endpoints of the backlog, in four tenants")
	flags.IntVar(&d.weeks, "weeks", 26, "time over which the events are spread")
	flags.IntVar(&d.seed, "seed", 1, "of what became of each delivery")
	flags.IntVar(&d.times, "times", 40, "how often each page is asked")
	flags.BoolVar(&d.typing, "typing", false, "instead of asking pages, type names in chromium and wait for the pages that they lead to")
	flags.IntVar(&d.live, "live", 0, "instead of asking pages, measure throughput with this many open dashboards and with none, in turn")
	flags.BoolVar(&d.fail, "fail", false, "exit with a status above 0 if a limit is exceeded")
	flags.BoolVar(&d.fillOnly, "fill", false, "only fill the store")
	flags.StringVar(&d.only, "only", "", "only pages whose address contains this")
	flags.DurationVar(&d.within, "within", 50*time.Millisecond, "what the 95th percentile of each page may take")
	flags.IntVar(&d.page, "page", 60<<10, "bytes of HTML that a page may have")
	flags.IntVar(&d.asset, "assets", 50<<10, "bytes that all assets together may have, compressed by gzip")
	flags.Float64Var(&d.least, "least", 0.95, "least ratio of throughput with and without open dashboards")
	flags.IntVar(&d.rounds, "rounds", 6, "with -live: rounds of each side")
	flags.DurationVar(&d.warm, "warm", 2*time.Second, "with -live: time before each window")
	flags.DurationVar(&d.window, "window", 6*time.Second, "with -live: throughput window")
	flags.IntVar(&d.publishers, "publishers", 64, "with -live: publishers, one connection each")
	flags.IntVar(&d.workers, "workers", 64, "with -live: requests in flight to the receiver")
	flags.IntVar(&d.size, "size", 1024, "with -live: bytes of one POST")
	flags.StringVar(&d.dir, "dir", "", "where the store is; one that is there is used as it is. Empty: a new directory below the current one, which is removed afterwards")
	flags.StringVar(&d.binary, "binary", "", "the grapnel binary; empty: it is built")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	missed, err := d.run(ctx, out)
	switch {
	case err != nil:
		return failed(err)
	case len(missed) > 0:
		_, _ = fmt.Fprintf(out, "\nMISSED\n  %s\n", strings.Join(missed, "\n  "))
		if d.fail {
			return 1
		}
	}
	return 0
}

// run fills a store unless there is one, starts the server on it, measures, and reports which
// limits are exceeded.
func (d *dashboard) run(ctx context.Context, out io.Writer) (missed []string, err error) {
	if d.n < 1000 || d.world.endpoints < len(worldTenants) || d.times < 1 || d.weeks < 1 || d.rounds < 1 {
		return nil, errors.New("n is at least 1000, endpoints at least 4, times, weeks and rounds at least 1")
	}
	dir, disk, remove, err := d.prepare("dashboard", true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	d.flags = []string{"--retention", "876000h"}
	_, _ = fmt.Fprintf(out, "%s, %d cores; the store is on %s, where an fsync takes %v\n", runtime.Version(), runtime.NumCPU(),
		disk.kind, disk.sync.Round(time.Microsecond))
	path := filepath.Join(dir, "grapnel.db")
	if _, err := os.Stat(path); os.IsNotExist(err) {
		if err := d.make(ctx, dir, path, out); err != nil {
			return nil, err
		}
	}
	if d.fillOnly {
		return nil, nil
	}
	g, err := startServer(ctx, d.settings, dir, nil)
	if err != nil {
		return nil, err
	}
	defer g.Stop()
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(out, "%.1f GiB\n", float64(info.Size())/(1<<30))
	if d.typing {
		return (&typist{d: d, base: g.URL()}).look(ctx, out)
	}
	b, err := newBrowser(g.Addr)
	if err != nil {
		return nil, err
	}
	if err := b.signIn(ctx); err != nil {
		return nil, err
	}
	if d.live > 0 {
		return d.compare(ctx, g, b, out)
	}
	l := &looker{d: d, g: g, b: b}
	return l.look(ctx, out)
}

// make makes the store: its settings with a server, its past without.
func (d *dashboard) make(ctx context.Context, dir, path string, out io.Writer) error {
	g, err := startServer(ctx, d.settings, dir, nil)
	if err != nil {
		return err
	}
	if err = d.settle(ctx, g); err != nil {
		err = fmt.Errorf("%w\n%s", err, g.Words())
	}
	g.Stop()
	if err != nil {
		return err
	}
	return d.world.fill(ctx, path, out)
}
