package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

// lever is a command that does the same to each of several endpoints and shows how they are then.
func (s *session) lever(verb, short, example string, call func(ctx context.Context, r reader, id, reason string) (*client.Endpoint, error)) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: verb + " ENDPOINT_ID…", Short: short, Args: takes(cobra.MinimumNArgs(1)), Example: example,
		RunE: s.askEach(endpointHead, func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error) {
			e, err := call(ctx, r, id, reason)
			if err != nil {
				return nil, nil, err
			}
			return e.JSON(), endpointRow(e), nil
		}),
	}
	reasoned(c, &reason)
	return c
}

// reasoned adds the flag that says why.
func reasoned(c *cobra.Command, reason *string) {
	c.Flags().StringVar(reason, "reason", "", "why, for whoever reads the audit")
}

func (s *session) endpointsPause() *cobra.Command {
	return s.lever("pause", "Hold deliveries to endpoints", "grapnel endpoints pause ep_… --reason 'they deploy until noon'",
		func(ctx context.Context, r reader, id, reason string) (*client.Endpoint, error) {
			return r.PauseEndpoint(ctx, id, reason)
		})
}

func (s *session) endpointsResume() *cobra.Command {
	return s.lever("resume", "Go on delivering to paused endpoints", "",
		func(ctx context.Context, r reader, id, reason string) (*client.Endpoint, error) {
			return r.ResumeEndpoint(ctx, id, reason)
		})
}

func (s *session) endpointsEnable() *cobra.Command {
	return s.lever("enable", "Deliver again to endpoints that were disabled", "",
		func(ctx context.Context, r reader, id, reason string) (*client.Endpoint, error) {
			return r.EnableEndpoint(ctx, id, reason)
		})
}

func (s *session) endpointsProbe() *cobra.Command {
	return s.lever("probe", "Try endpoints that are left alone now, instead of at their next probe", "grapnel endpoints probe ep_… --reason 'they say it is fixed'",
		func(ctx context.Context, r reader, id, reason string) (*client.Endpoint, error) {
			return r.ProbeEndpoint(ctx, id, reason)
		})
}

func (s *session) endpointsLanes() *cobra.Command {
	var limit int
	var cursor string
	c := paging(&cobra.Command{
		Use: "lanes ENDPOINT_ID", Short: "List the keys that are stuck at an endpoint, the oldest first",
		Example: "grapnel endpoints lanes ep_…\ngrapnel endpoints lanes ep_… -o name | xargs grapnel deliveries skip --reason 'fixed by hand'",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			p, err := r.Lanes(ctx, args[0], limit, cursor)
			if err != nil {
				return cli.View{}, err
			}
			return page(p, laneHead, func(l client.Lane) []string { return laneRow(r, &l) }), nil
		}),
	}, &limit, &cursor)
	c.Args = takes(cobra.ExactArgs(1))
	return c
}

// A lane is named by its first delivery: that is what is retried or skipped.
var laneHead = []string{"DELIVERY", "KEY", "STATUS", "TRIES", "BEHIND", "SINCE", "NEXT", "WHY"}

func laneRow(r reader, l *client.Lane) []string {
	return []string{l.Head.ID, l.Key, string(l.Head.Status), strconv.Itoa(l.Head.AttemptsMade), count(l.Waiting, l.WaitingMore),
		r.Time(l.Since), r.Time(l.Head.NextAttemptAt), l.Head.Reason}
}

// count is a number that may not have been counted to its end.
func count(n int, more bool) string {
	if more {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}

// headline says in one sentence how an endpoint is doing.
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

// holding says how much waits for an endpoint that is not well, and how long it will take; empty when nothing does.
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
