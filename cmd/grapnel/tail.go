package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func (s *session) tailCommand() *cobra.Command {
	var f following
	c := &cobra.Command{
		Use: "tail", Short: "Stream deliveries live, until interrupted",
		Long: "Stream deliveries live: a line for each when it is created, when an attempt has failed, and when it is " +
			"finished. It polls the server, so two changes between two polls are one line. It ends when it is interrupted, " +
			"with exit code 130.",
		Example: "grapnel tail\ngrapnel tail --endpoint ep_… -o jsonl",
		RunE:    s.withReader(func(ctx context.Context, r reader, _ []string) error { return f.follow(ctx, r) }),
	}
	f.bind(c)
	c.Flags().StringVar(&f.Endpoint, "endpoint", "", "only this endpoint")
	c.Flags().StringVar(&f.Tenant, "tenant", "", "only this tenant")
	return c
}

// following says by flags which deliveries to stream, and how.
type following struct {
	client.DeliveryFilter
	every  time.Duration
	before int
}

func (f *following) bind(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.Type, "type", "", "only this event type; * stands for any part of it")
	fl.StringVar(&f.Key, "event-key", "", "only this ordering key")
	cli.DurationVar(fl, &f.every, "every", time.Second, "pause between two polls")
	fl.IntVar(&f.before, "last", 10, "begin with this many existing deliveries")
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if f.every < 100*time.Millisecond {
			return cli.Usagef("--every must be at least 100ms")
		}
		if f.before < 0 {
			return cli.Usagef("--last %d: it must not be negative", f.before)
		}
		return run(cmd, args)
	}
}

func (f *following) follow(ctx context.Context, r reader) error {
	t := &follower{reader: r, filter: f.DeliveryFilter, progress: r.world.Progress()}
	return t.follow(ctx, f.before, f.every)
}

const (
	followPage  = 500
	mostUnended = 2000 // deliveries that are polled until they are finished; beyond it the oldest are dropped
	asksAtOnce  = 20   // of those that are no longer among the newest
)

// follower remembers the deliveries that it has printed and that may still change.
type follower struct {
	reader   reader
	filter   client.DeliveryFilter
	progress *cli.Progress
	told     map[string]bool    // ids of the newest deliveries of the last answer, at most followPage
	since    time.Time          // the earliest that one of them was created; zero: they are all that exist
	unended  []*client.Delivery // as they were printed, the oldest first
	begun    bool               // the head of the table is printed
}

func (t *follower) follow(ctx context.Context, before int, every time.Duration) error {
	for began := false; ; {
		fresh, err := t.ask(ctx, began, before)
		if err = patient(ctx, t.progress, err); err != nil {
			return err
		}
		if fresh {
			began = true
		}
		if err := rest(ctx, every); err != nil {
			return err
		}
	}
}

// ask polls once for new and changed deliveries, and prints them. It says whether the server
// answered.
func (t *follower) ask(ctx context.Context, began bool, before int) (bool, error) {
	f := t.filter
	f.Limit = followPage
	var found []client.Delivery
	fresh := 0 // of found, those before the first that was printed: the list begins with the newest
	for {
		p, err := t.reader.Deliveries(ctx, f)
		if err != nil {
			return false, err
		}
		for i := range p.Data {
			if fresh == len(found) && !t.known(&p.Data[i]) {
				fresh++
			}
			found = append(found, p.Data[i])
		}
		// A page may be short, or empty, before the list ends.
		if f.Cursor = p.Next; fresh < len(found) || !began && len(found) >= max(before, 1) || p.Next == "" {
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
		fresh = min(fresh, before)
	}
	for i := range slices.Backward(found[:fresh]) {
		d := &found[i]
		if err := t.tell(d); err != nil {
			return false, err
		}
		if !d.Status.Final() {
			t.unended = append(t.unended, d)
		}
	}
	t.remember(found[:min(len(found), followPage)])
	if f.Cursor == "" && len(found) <= followPage {
		t.since = time.Time{} // all that exist are remembered, so any other is new
	}
	t.unended = t.unended[max(0, len(t.unended)-mostUnended):]
	return true, nil
}

// known says whether a delivery was printed, or is older than all that are remembered.
func (t *follower) known(d *client.Delivery) bool { return t.told[d.ID] || d.CreatedAt.Before(t.since) }

// remember stores which deliveries are the newest. Their ids do not tell which is newer; the list
// does.
func (t *follower) remember(newest []client.Delivery) {
	if len(newest) == 0 {
		return
	}
	t.told, t.since = make(map[string]bool, len(newest)), newest[0].CreatedAt
	for i := range newest {
		t.told[newest[i].ID] = true
		if newest[i].CreatedAt.Before(t.since) {
			t.since = newest[i].CreatedAt
		}
	}
}

// tellChanges prints the changes of unfinished deliveries. Most are among those just listed; a few
// of the others are fetched.
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
				if patient(ctx, t.progress, err) == nil {
					continue
				}
				if fault := cli.Explain(err); fault.Exit == cli.ExitNotFound {
					late = late[:len(late)-1] // it was purged
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
	t.unended = append(rest, late...) // those that were not fetched come first next time
	return nil
}

var tailHead = []string{"AT", "STATUS", "TRIES", "LAST", "TYPE", "KEY", "ENDPOINT", "DELIVERY", "WHY"}

func (t *follower) tell(d *client.Delivery) error {
	at := t.reader.world.Now()
	row := []string{at.UTC().Format("15:04:05"), string(d.Status), strconv.Itoa(d.AttemptsMade), lastOutcome(d), d.Type, d.Key,
		named(d.EndpointName, d.EndpointID), d.ID, d.Reason}
	v := single(d.ID, d.JSON(), cli.Part{Head: tailHead, Rows: [][]string{row}, More: t.begun, Widths: []int{8, 9, 5, 7, 20, 12, 29, 30}})
	t.begun = true
	return t.reader.Print(v)
}
