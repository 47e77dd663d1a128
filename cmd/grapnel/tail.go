package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) tail() *cobra.Command {
	var f client.DeliveryFilter
	var every time.Duration
	var before int
	c := &cobra.Command{
		Use: "tail", Short: "Follow deliveries as they are made, tried and over, until interrupted", Args: takes(cobra.NoArgs),
		Long: "Follow deliveries: a line for each when it is made, when an attempt has failed, and when it is over. It asks the server again and again, so what " +
			"happens twice between two questions is one line. It ends when it is interrupted, with exit code 130.",
		Example: "grapnel tail\ngrapnel tail --endpoint ep_… -o jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return cli.Usagef("--every must be at least 100ms")
			}
			r, err := s.reader()
			if err != nil {
				return err
			}
			t := &follower{session: s, reader: r, filter: f, progress: s.Progress()}
			return t.follow(cmd.Context(), before, every)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.Endpoint, "endpoint", "", "only this endpoint")
	fl.StringVar(&f.Type, "type", "", "only this event type; * stands for any part of it")
	fl.StringVar(&f.Key, "event-key", "", "only this ordering key")
	fl.StringVar(&f.Tenant, "tenant", "", "only this tenant")
	cli.DurationVar(fl, &every, "every", time.Second, "how often to ask")
	fl.IntVar(&before, "last", 10, "how many of those that are there already to begin with")
	return c
}

const (
	followPage  = 500
	mostUnended = 2000 // deliveries that are asked after until they are over; the oldest are given up beyond
	asksAtOnce  = 20   // of those that are not among the newest any more
)

// follower knows what it has told, and what may still change of it.
type follower struct {
	*session
	reader   reader
	filter   client.DeliveryFilter
	progress *cli.Progress
	newest   int64              // the number of the newest delivery that was told
	unended  []*client.Delivery // as they were told, the oldest first
	begun    bool               // the table has its head
}

func (t *follower) follow(ctx context.Context, before int, every time.Duration) error {
	for began := false; ; {
		fresh, err := t.ask(ctx, began, before)
		if err = t.patient(ctx, t.progress, err); err != nil {
			return err
		}
		if fresh {
			began = true
		}
		if err := t.rest(ctx, every); err != nil {
			return err
		}
	}
}

// ask looks once at what is new and what has changed, and tells it. It says whether it got through.
func (t *follower) ask(ctx context.Context, began bool, before int) (bool, error) {
	f := t.filter
	f.Limit = followPage
	var found []client.Delivery
	newest := t.newest
	for {
		p, err := t.reader.Deliveries(ctx, f)
		if err != nil {
			return false, err
		}
		all := true
		for i := range p.Data {
			seq, _, err := grapnel.ParseDeliveryID(p.Data[i].ID)
			if err != nil {
				return false, fmt.Errorf("the server's answer cannot be read: %w", err)
			}
			newest = max(newest, seq)
			if seq <= t.newest {
				all = false
			}
			found = append(found, p.Data[i])
		}
		if f.Cursor = p.Next; !all || !began || p.Next == "" {
			break
		}
	}
	known := map[string]*client.Delivery{}
	for i := range found {
		known[found[i].ID] = &found[i]
	}
	if err := t.tellChanges(ctx, known); err != nil {
		return false, err
	}
	if !began {
		found = found[:min(len(found), before)]
	}
	for i := range slices.Backward(found) {
		d := &found[i]
		if seq, _, _ := grapnel.ParseDeliveryID(d.ID); seq <= t.newest {
			continue
		}
		if err := t.tell(d); err != nil {
			return false, err
		}
		if !d.Status.Final() {
			t.unended = append(t.unended, d)
		}
	}
	t.newest = newest
	t.unended = t.unended[max(0, len(t.unended)-mostUnended):]
	return true, nil
}

// tellChanges tells what has become of those that were not over. Most are among those just listed; a few of the others are asked for.
func (t *follower) tellChanges(ctx context.Context, known map[string]*client.Delivery) error {
	asked := 0
	var rest, late []*client.Delivery
	for _, was := range t.unended {
		now := known[was.ID]
		if now == nil {
			if asked == asksAtOnce {
				rest = append(rest, was)
				continue
			}
			asked++
			one, err := t.reader.Delivery(ctx, was.ID)
			if err != nil {
				late = append(late, was)
				if t.patient(ctx, t.progress, err) == nil {
					continue
				}
				if fault := cli.Explain(err); fault.Exit == cli.ExitNotFound {
					late = late[:len(late)-1] // it is not kept any more
					continue
				}
				return err
			}
			now = one
		}
		if now.Status != was.Status || now.AttemptsMade != was.AttemptsMade {
			if err := t.tell(now); err != nil {
				return err
			}
		}
		if !now.Status.Final() {
			late = append(late, now)
		}
	}
	t.unended = append(rest, late...) // those that were not asked for come first next time
	return nil
}

var tailHead = []string{"AT", "STATUS", "TRIES", "LAST", "TYPE", "KEY", "ENDPOINT", "DELIVERY", "WHY"}

func (t *follower) tell(d *client.Delivery) error {
	at := t.Now()
	row := []string{at.UTC().Format("15:04:05"), string(d.Status), strconv.Itoa(d.AttemptsMade), last(d), d.Type, d.Key, d.EndpointID, d.ID, d.Reason}
	v := cli.View{JSON: d.JSON(), Items: []cli.Item{{Name: d.ID, JSON: d.JSON()}}, Parts: []cli.Part{{
		Head: tailHead, Rows: [][]string{row}, More: t.begun, Widths: []int{8, 9, 5, 7, 20, 12, 29, 30},
	}}}
	t.begun = true
	return t.reader.Print(v)
}
