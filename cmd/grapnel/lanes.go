package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func endpointsLanes(s *session) *cobra.Command {
	var limit int
	var cursor string
	return paging(&cobra.Command{
		Use: "lanes [ENDPOINT]", Short: "List the keys that are stuck at an endpoint, or at all of them",
		Example: "grapnel endpoints lanes\n" +
			"grapnel endpoints lanes ep_… -o name | xargs grapnel deliveries skip --reason 'fixed by hand'",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			return viewOf(r, paged(laneHead, laneRow))(r.Lanes(ctx, strings.Join(args, ""), limit, cursor))
		}),
	}, &limit, &cursor)
}

// A lane is named by its first delivery, which is the one to retry or skip.
var laneHead = []string{"DELIVERY", "KEY", "STATUS", "TRIES", "BEHIND", "SINCE", "NEXT", "WHY"}

func laneRow(r reader, l *client.Lane) []string {
	return []string{l.Head.ID, l.Key, string(l.Head.Status), strconv.Itoa(l.Head.AttemptsMade), count(l.Waiting, l.WaitingMore),
		r.Time(l.Since), r.Time(l.Head.NextAttemptAt), l.Head.Reason}
}

// headline is an endpoint's health in one sentence.
func headline(r reader, h *client.Health) string {
	text := string(h.State)
	if h.State == client.HealthUnknown {
		return "unknown: the server is starting or stopping"
	}
	if since := r.Time(h.Since); since != "" {
		text += " since " + since
	}
	if h.Reason != "" {
		text += ": " + h.Reason
	}
	return text
}

// holding is how many deliveries an endpoint holds and how long they will take; empty for none.
func holding(h *client.Health) string {
	if h.Held == 0 {
		return ""
	}
	text := count(h.Held, h.HeldMore)
	if h.DrainEstimate != nil {
		bound := "about"
		if h.HeldMore {
			bound = "at least"
		}
		text += fmt.Sprintf(" deliveries, delivered in %s %s once it works", bound, h.DrainEstimate)
	}
	return text
}
