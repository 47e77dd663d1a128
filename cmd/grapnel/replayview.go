package main

import (
	"fmt"
	"strconv"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var replayHead = []string{"REPLAY", "STATUS", "ENDPOINT", "TOTAL", "MADE", "DONE", "DELIVERED", "FAILED", "STARTED", "ETA", "WHY"}

func deliveriesOf(n int, more bool) string {
	if more {
		return say.Capped(n, true) + " deliveries"
	}
	return say.Many(n, "delivery", "deliveries")
}

func printReplays(r reader, all []client.Replay) error {
	v := list(nil, replayHead, all, func(one *client.Replay) []string { return replayRow(r, one) })
	if len(all) == 1 {
		v.JSON = all[0].JSON()
	}
	return r.Print(v)
}

func replayRow(r reader, p *client.Replay) []string {
	return []string{p.ID, string(p.Status), named(p.EndpointName, p.EndpointID), strconv.Itoa(p.Total), strconv.Itoa(p.Made),
		strconv.Itoa(p.Done), strconv.Itoa(p.Delivered), strconv.Itoa(p.Failed), r.Time(&p.StartedAt), r.Time(p.ETA), p.Reason}
}

func replayView(r reader, p *client.Replay) cli.View {
	canary, stopAfter := "", ""
	if p.Canary {
		canary = "yes"
	}
	if p.StopAfter > 0 {
		stopAfter = fmt.Sprintf("%d failures in a row", p.StopAfter)
	}
	return object(p.ID, p.JSON(), [][]string{
		{"replay", p.ID}, {"endpoint", withName(p.EndpointName, p.EndpointID)}, {"tenant", p.Tenant},
		{"status", string(p.Status)}, {"why", p.Reason},
		{"total", strconv.Itoa(p.Total)}, {"made", strconv.Itoa(p.Made)}, {"done", strconv.Itoa(p.Done)},
		{"delivered", strconv.Itoa(p.Delivered)}, {"failed", strconv.Itoa(p.Failed)},
		{"rate", strconv.FormatFloat(p.Rate, 'f', -1, 64) + "/s"}, {"canary", canary}, {"stops after", stopAfter},
		{"started", r.Time(&p.StartedAt)}, {"by", p.StartedBy}, {"finished", r.Time(p.FinishedAt)}, {"eta", r.Time(p.ETA)},
	})
}
