package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func (s *session) feedCommand() *cobra.Command {
	var q client.FeedQuery
	var follow bool
	c := &cobra.Command{
		Use: "feed", Short: "Read the events that an endpoint should have received, the oldest first",
		Long: "Read the events that an endpoint should have received, the oldest first, whatever became of their deliveries: for a receiver " +
			"that was down. A page ends with the cursor of the next one, on stderr or as next in -o json; --after takes it. " +
			"--follow reads all pages and waits for new events, until interrupted.",
		Example: "grapnel feed --endpoint Warehouse -o jsonl\n" +
			"grapnel feed --endpoint Warehouse --after CURSOR\n" +
			"grapnel feed --endpoint Warehouse --follow --jq '.data[].body'",
		RunE: s.withReader(func(ctx context.Context, r reader, _ []string) error { return readFeed(ctx, r, q, follow) }),
	}
	f := c.Flags()
	f.StringVar(&q.Endpoint, "endpoint", "", "the endpoint")
	f.StringVar(&q.After, "after", "", "cursor of the last page; none: from the oldest event that is stored")
	f.IntVar(&q.Limit, "limit", 0, "events of a page; 0: 50")
	f.BoolVar(&follow, "follow", false, "read on until interrupted")
	return needs(c, "endpoint")
}

// feedWait is how long one request of --follow waits for an event.
const feedWait = 20 * time.Second

var feedHead = []string{"ACCEPTED", "STATUS", "TYPE", "KEY", "EVENT", "BODY"}

// readFeed prints one page, or page after page.
func readFeed(ctx context.Context, r reader, q client.FeedQuery, follow bool) error {
	if follow {
		q.Wait = feedWait
	}
	for begun, progress := false, r.world.Progress(); ; {
		page, err := r.Feed(ctx, q)
		if follow && err != nil {
			if err = patient(ctx, progress, err); err == nil {
				err = rest(ctx, time.Second)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		q.After = page.Next
		if page.Gap {
			r.world.Note("A gap: events behind the cursor are missing, because they were deleted or the database was restored.")
		}
		if !follow || len(page.Data) > 0 {
			if err := r.Print(feedView(page, begun)); err != nil {
				return err
			}
			begun = true
		}
		if !follow {
			if page.More {
				r.world.Note("More events follow.")
			}
			r.world.Note("Next: --after %s", page.Next)
			return nil
		}
	}
}

func feedView(page *client.Feed, begun bool) cli.View {
	v := cli.View{JSON: page.JSON()}
	var raw struct{ Data []json.RawMessage }
	_ = json.Unmarshal(v.JSON, &raw) // it was read before
	part := cli.Part{Head: feedHead, More: begun, Widths: []int{20, 9, 20, 12, 30}}
	for i := range page.Data {
		item := &page.Data[i]
		body := item.Missing
		switch {
		case item.Body != nil:
			body = *item.Body
		case item.BodyBase64 != nil:
			body = fmt.Sprintf("%d bytes", len(item.BodyBase64))
		}
		v.Items = append(v.Items, cli.Item{Name: item.EventID, JSON: raw.Data[i]})
		part.Rows = append(part.Rows, []string{item.AcceptedAt.UTC().Format(time.RFC3339), string(item.Status), item.Type, item.Key, item.EventID,
			cli.Cut(body, 60)})
	}
	v.Parts = []cli.Part{part}
	return v
}
