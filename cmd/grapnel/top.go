package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func (s *session) topCommand() *cobra.Command {
	var once, asJSON bool
	var every time.Duration
	var tenant string
	c := &cobra.Command{
		Use: "top", Short: "Show the overview in the terminal, live",
		Long: "Show the overview in the terminal, live: the same numbers and sentences as the first page of the dashboard, and rates. " +
			"q ends it. It shows one frame and ends with --once, or if standard input or output is not a terminal. " +
			"While the server is away it shows the last numbers and asks again.",
		Example: "grapnel top\ngrapnel top --once\ngrapnel top --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return cli.Usagef("--interval must be at least 100ms")
			}
			if asJSON {
				s.output = cli.JSON
			}
			r, err := s.reader()
			if err != nil {
				return err
			}
			t := &top{reader: r, tenant: tenant, every: every}
			if !once && !s.machine() && s.output == cli.Table {
				if screen := s.Screen(); screen != nil {
					defer screen.Close()
					return t.live(cmd.Context(), screen, s.Colour(s.Stdout))
				}
			}
			return t.once(cmd.Context(), s)
		},
	}
	c.Flags().BoolVar(&once, "once", false, "show one frame and end")
	c.Flags().BoolVar(&asJSON, "json", false, "print the numbers as JSON and end; the same as -o json")
	c.Flags().StringVar(&tenant, "tenant", "", "only this tenant")
	cli.DurationVar(c.Flags(), &every, "interval", 2*time.Second, "pause between two looks")
	return c
}

// top asks for the overview and draws it.
type top struct {
	reader
	tenant string
	every  time.Duration
}

// topWidth is the width of a frame that no terminal shows.
const topWidth = 80

// once prints one frame.
func (t *top) once(ctx context.Context, s *session) error {
	o, err := t.Overview(ctx, t.tenant)
	if err != nil {
		return err
	}
	if s.machine() || s.output != cli.Table {
		return t.Print(object("overview", o.JSON(), nil))
	}
	width := s.Columns(s.Stdout)
	if width <= 0 {
		width = topWidth
	}
	var paint func(tone, text string) string
	if s.Colour(s.Stdout) {
		paint = cli.Paint
	}
	now := s.Now()
	lines := topLines(&topFrame{server: t.Server(), now: now, seen: o, at: now}, width, paint)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	_, err = io.WriteString(s.Stdout, strings.Join(lines, "\n")+"\n")
	return err
}

// screen is where frames are drawn.
type screen interface {
	Size() (columns, lines int)
	Draw(lines []string)
	Quit() <-chan struct{}
}

// redraw is how soon a frame follows a change of the terminal's size, or a second of the clock.
const redraw = 250 * time.Millisecond

// live draws frames until the user or the context ends it. A look that takes long delays neither
// the keys nor the clock.
func (t *top) live(ctx context.Context, on screen, colour bool) error {
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		o   *client.Overview
		err error
	}
	answers := make(chan answer)
	asking := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range asking {
			o, err := t.Overview(ctx, t.tenant)
			select {
			case answers <- answer{o, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { cancel(); close(asking); <-done }()
	var paint func(tone, text string) string
	if colour {
		paint = cli.Paint
	}
	f := &topFrame{server: t.Server(), now: t.world.Now(), trouble: "Asking the server …"}
	next, tick := time.NewTimer(0), time.NewTicker(redraw)
	defer next.Stop()
	defer tick.Stop()
	for {
		f.now = t.world.Now()
		width, _ := on.Size()
		on.Draw(topLines(f, width, paint))
		select {
		case <-on.Quit():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		case <-next.C:
			asking <- struct{}{}
		case a := <-answers:
			next.Reset(t.every)
			if err := t.take(f, a.o, a.err); err != nil {
				return err
			}
		}
	}
}

// take puts an answer into the frame. It returns an error that will not go away by waiting.
func (t *top) take(f *topFrame, o *client.Overview, err error) error {
	var lost *client.Unreachable
	var refused *client.Error
	switch now := t.world.Now(); {
	case err == nil:
		f.rates, f.trouble = ratesOf(f.seen, o, now.Sub(f.at)), ""
		f.seen, f.at = o, now
	case errors.As(err, &lost) || errors.As(err, &refused) && refused.Status >= http.StatusInternalServerError:
		f.rates = nil
		f.trouble = fmt.Sprintf("Server unreachable; asking again every %v: %v", t.every, err)
	default:
		return err
	}
	return nil
}
