//go:build linux

// Command shots writes screenshots of every page of the dashboard: wide and narrow, light and dark,
// of an empty store and of a full one.
//
//	make shots                                          all, in .shots
//	make shots ARGS="-to /tmp/shots -only full,390"
//	make shots ARGS=-shown                              those of README and docs, in docs/shots
//
// It starts the real binary on a new database and real Chromium. The full store gets settings and
// traffic by the public API, with receivers on loopback. Its past (two days of finished deliveries,
// and deliveries between two attempts) is written by the store itself, because no call of the API
// sets the clock back. All of it is the same in each run, apart from ids and instants.
//
// A picture is named by page, size, theme and state: deliveries-one-1440-dark-full.png. It has at
// most 47 colours (palette.go), so the file is small and its text is sharp. A picture of the full
// store that equals that of the empty one is left out.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

func main() {
	var j job
	flag.StringVar(&j.to, "to", "", "directory for the pictures (default .shots, with -shown docs/shots)")
	renew := flag.Bool("shown", false, "take only the pictures that README.md and docs show")
	flag.StringVar(&j.binary, "binary", "", "the grapnel binary; empty: it is built")
	flag.StringVar(&j.only, "only", "", "parts of names, separated by commas: only pictures whose name has all of them")
	flag.IntVar(&j.queued, "queued", 1_000_000, "messages that wait in the long queue")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *renew {
		j.shown, err = shown(".")
	}
	if j.to == "" && *renew {
		j.to = filepath.FromSlash(committed)
	} else if j.to == "" {
		j.to = ".shots"
	}
	if err == nil {
		err = j.run(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "shots:", err)
		os.Exit(1)
	}
}

// run takes the pictures of the empty store, fills it, and takes those of the full one.
func (j *job) run(ctx context.Context) (err error) {
	if j.dir, err = os.MkdirTemp("", "grapnel-shots-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(j.dir)) }()
	if j.binary == "" {
		if j.binary, err = process.Build(j.dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(j.to, 0o750); err != nil {
		return err
	}
	began := time.Now()
	file := filepath.Join(j.dir, "grapnel.db")
	g, err := j.start(ctx, "sqlite:"+file)
	if err != nil {
		return err
	}
	defer g.Stop()
	if err := j.take(ctx, g, empty, nil); err != nil {
		return err
	}
	w := &world{server: g}
	defer w.close()
	if err := w.settle(ctx); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	g.Stop()
	if err := w.past(ctx, file, j.queued); err != nil {
		return fmt.Errorf("the past: %w", err)
	}
	if g, err = j.start(ctx, "sqlite:"+file); err != nil {
		return err
	}
	defer g.Stop()
	w.server = g
	if err := w.present(ctx); err != nil {
		return fmt.Errorf("traffic: %w", err)
	}
	_, _ = fmt.Fprintf(os.Stdout, "filled after %v\n", time.Since(began).Round(time.Second))
	if err := j.take(ctx, g, full, w.ids); err != nil {
		return err
	}
	return j.several(ctx)
}

// several takes the picture of three nodes on one database.
func (j *job) several(ctx context.Context) (err error) {
	if len(j.wanted(several)) == 0 {
		return nil
	}
	database, err := pgtest.Start(ctx, pgtest.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Stop()) }()
	store, err := database.Create(ctx, "grapnel")
	if err != nil {
		return err
	}
	var first *process.Server
	for range 3 {
		g, err := j.start(ctx, store)
		if err != nil {
			return err
		}
		defer g.Stop()
		if first == nil {
			first = g
		}
	}
	c, err := newClient(first)
	if err != nil {
		return err
	}
	err = process.Until(ctx, time.Minute, func() (bool, error) {
		cluster, err := c.Cluster(ctx)
		return err == nil && len(cluster.Nodes) == 3, err
	})
	if err != nil {
		return fmt.Errorf("three nodes: %w", err)
	}
	return j.take(ctx, first, several, nil)
}

// take takes the pictures of one state; of an empty store, those of pages about one thing do not
// exist.
func (j *job) take(ctx context.Context, g *process.Server, state string, ids map[string]string) (err error) {
	wanted := j.wanted(state)
	if len(wanted) == 0 {
		return nil
	}
	b, err := open(ctx, filepath.Join(j.dir, "chromium-"+state), g.URL())
	if err != nil {
		return err
	}
	defer b.close()
	taken, written := 0, 0
	for _, s := range wanted {
		target, ok := s.target(ids)
		if !ok {
			continue
		}
		picture, err := b.shoot(target, s.size, s.theme)
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		small, err := shrink(picture)
		if err != nil {
			return err
		}
		as := filepath.Join(j.to, s.name()+".png")
		if state == full && j.shown == nil { // most forms look the same in both states
			same, err := os.ReadFile(filepath.Join(j.to, s.in(empty).name()+".png"))
			if err == nil && bytes.Equal(same, small) {
				if err := os.Remove(as); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
				continue
			}
		}
		if err := os.WriteFile(as, small, 0o600); err != nil {
			return err
		}
		taken, written = taken+len(picture), written+len(small)
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s: %d KiB, with palettes %d KiB\n", state, taken>>10, written>>10)
	return nil
}

// wanted are the pictures of a state that the flags ask for.
func (j *job) wanted(state string) []shot {
	return slices.DeleteFunc(shots(state), func(s shot) bool {
		for part := range strings.SplitSeq(j.only, ",") {
			if !strings.Contains(s.name(), part) {
				return true
			}
		}
		return j.shown != nil && !slices.Contains(j.shown, s.name())
	})
}
