package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

// What goes on for long is asked after again and again. A server that is away meanwhile (it is restarted, say) is waited for.

func (s *session) replayWatch() *cobra.Command {
	return &cobra.Command{
		Use: "watch REPLAY_ID", Short: "Wait until a replay is over, and say how far it is", Args: takes(cobra.ExactArgs(1)),
		Long: "Wait until a replay is over, and say on stderr how far it is. It exits with 9 when something was not delivered.",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := s.reader()
			if err != nil {
				return err
			}
			one, err := r.Replay(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return s.watch(cmd.Context(), r, []*client.Replay{one})
		},
	}
}

// watchEvery is how often a replay is asked after.
const watchEvery = 500 * time.Millisecond

// watch waits until all replays are over and prints them then.
func (s *session) watch(ctx context.Context, r reader, all []*client.Replay) error {
	progress := s.Progress()
	undelivered := 0
	for i, one := range all {
		for {
			progress.Say("%s", s.howFar(one))
			if one.Status.Final() {
				break
			}
			if err := s.rest(ctx, watchEvery); err != nil {
				progress.Done()
				return err
			}
			next, err := r.Replay(ctx, one.ID)
			if err = s.patient(ctx, progress, err); err != nil {
				progress.Done()
				return err
			}
			if next != nil {
				one = next
			}
		}
		progress.Done()
		all[i] = one
		undelivered += one.Failed + max(0, one.Total-one.Made)
	}
	if err := printReplays(r, all); err != nil {
		return err
	}
	if undelivered > 0 {
		return cli.Partial("%s not delivered", deliveriesOf(undelivered, false))
	}
	return nil
}

// howFar says it in a line.
func (s *session) howFar(p *client.Replay) string {
	text := fmt.Sprintf("%s %s  %d/%d  delivered %d  failed %d", p.ID, p.Status, p.Done, max(p.Total, p.Made), p.Delivered, p.Failed)
	if p.ETA != nil {
		text += fmt.Sprintf("  ETA %v", max(0, p.ETA.Sub(s.Now())).Round(time.Second))
	}
	if p.Reason != "" {
		text += "  (" + p.Reason + ")"
	}
	return text
}

// patient turns an error into none when it is worth trying again: the server is away.
func (s *session) patient(ctx context.Context, progress *cli.Progress, err error) error {
	var lost *client.Unreachable
	var refused *client.Error
	if ctx.Err() != nil || !errors.As(err, &lost) && !(errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable) {
		return err
	}
	progress.Say("the server is away; waiting for it: %v", err)
	return nil
}

// rest lets time pass, unless the command is interrupted.
func (s *session) rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
