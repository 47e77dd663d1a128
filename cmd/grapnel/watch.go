package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// Long jobs are polled. A server that is away in between, because it restarts, is waited for.

func replayWatch(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "watch REPLAY_ID", Short: "Wait until a replay is finished, and show its progress",
		Long: "Wait until a replay is finished, and show its progress on stderr. Exits with 9 when a delivery did not arrive.",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			one, err := r.Replay(ctx, args[0])
			if err != nil {
				return err
			}
			return watch(ctx, r, []client.Replay{*one})
		}),
	}
}

// watchEvery is the pause between two polls.
const watchEvery = 500 * time.Millisecond

// watch waits until all replays are finished, then prints them.
func watch(ctx context.Context, r reader, all []client.Replay) error {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	undelivered := 0
	for i := range all {
		one, err := until(ctx, r, &all[i], func(one *client.Replay) (string, bool) { return howFar(r, one), one.Status.Final() },
			func() (*client.Replay, error) { return r.Replay(ctx, all[i].ID) })
		if err != nil {
			return err
		}
		all[i] = *one
		undelivered += one.Failed + max(0, one.Total-one.Made)
	}
	missing := cli.Partial("%s not delivered", say.Many(undelivered, "delivery", "deliveries"))
	return cmp.Or(printReplays(r, all), missing.If(undelivered > 0))
}

// until polls a job until it is finished, and shows its progress.
func until[T any](ctx context.Context, r reader, one *T, look func(*T) (text string, finished bool), get func() (*T, error)) (*T, error) {
	progress := r.world.Progress()
	defer progress.Done()
	for {
		text, finished := look(one)
		progress.Say("%s", text)
		if finished {
			return one, nil
		}
		if err := rest(ctx, watchEvery); err != nil {
			return nil, fmt.Errorf("not finished: %w", err)
		}
		next, err := get()
		if err = patient(ctx, progress, err); err != nil {
			return nil, err
		}
		if next != nil {
			one = next
		}
	}
}

// howFar is the progress of a replay in a line.
func howFar(r reader, p *client.Replay) string {
	text := fmt.Sprintf("%s %s  %d/%d  delivered %d  failed %d", p.ID, p.Status, p.Done, max(p.Total, p.Made), p.Delivered, p.Failed)
	if p.ETA != nil {
		text += fmt.Sprintf("  ETA %v", max(0, p.ETA.Sub(r.world.Now())).Round(time.Second))
	}
	if p.Reason != "" {
		text += "  (" + p.Reason + ")"
	}
	return text
}

// patient drops an error that says that the server is away: polling continues.
func patient(ctx context.Context, progress *cli.Progress, err error) error {
	var lost *client.Unreachable
	var refused *client.Error
	if ctx.Err() != nil || !errors.As(err, &lost) && !(errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable) {
		return err
	}
	progress.Say("server unreachable; waiting: %v", err)
	return nil
}

// rest waits, unless the command is interrupted.
func rest(ctx context.Context, d time.Duration) error {
	if !backoff.Wait(ctx.Done(), d) {
		return context.Cause(ctx)
	}
	return nil
}
