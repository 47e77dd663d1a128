package main

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// Leasing from a queue by hand, and looking at it without leasing.

func queuesNext(s *session) *cobra.Command {
	var t client.Take
	c := &cobra.Command{
		Use: "next QUEUE", Short: "Lease messages; settle them with ack, nack or reject before their lease ends",
		Long: "Lease messages. Settle them with ack, nack or reject before their lease ends; otherwise they come again, which counts as " +
			"an attempt. Exits with 3 when no message is ready.",
		Example: "grapnel queues next orders --wait 20s -o json\ngrapnel queues next orders -o name | xargs grapnel queues ack",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			found, err := r.Next(ctx, args[0], t)
			if err != nil {
				return cli.View{}, err
			}
			if len(found) == 0 {
				return cli.View{}, nothingReady(ctx, r, args[0])
			}
			return messagesView(r, "LEASE", found), nil
		}),
	}
	f := c.Flags()
	f.IntVar(&t.Max, "max", 1, "at most this many")
	cli.DurationVar(f, &t.Wait, "wait", 0, "wait this long for the first one, up to a minute")
	f.StringVar(&t.Consumer, "consumer", "", "name of the consumer that the queue shows")
	return c
}

// nothingReady says why a queue leased nothing, as far as the key may see it.
func nothingReady(ctx context.Context, r reader, name string) error {
	f := &cli.Fault{Exit: cli.ExitNotFound, Code: "empty", Text: "nothing is ready in " + name}
	q, err := r.Queue(ctx, name)
	switch {
	case err != nil: // a key that may only consume may not look at the queue
	case q.Status == grapnel.EndpointPaused:
		f.Text, f.Next = name+" is paused: nothing is leased until it is resumed", "Resume it with: grapnel queues resume "+name
	case q.Status == grapnel.EndpointDisabled:
		f.Text = name + " is disabled: nothing is leased until it is enabled"
	}
	return f
}

func queuesPeek(s *session) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: "peek QUEUE", Short: "Show the messages that a queue would lease next, without leasing them",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			p, err := r.Peek(ctx, args[0], limit)
			if err != nil {
				return cli.View{}, err
			}
			return messagesView(r, "DELIVERY", p.Data), nil
		}),
	}
	c.Flags().IntVar(&limit, "limit", 10, "at most this many")
	return c
}

// messagesView shows messages. Leased ones are named by their lease, others by their delivery.
func messagesView(r reader, named string, all []client.Message) cli.View {
	head := []string{named, "TYPE", "KEY", "ATTEMPT", "LEASE ENDS", "EVENT", "BODY"}
	return list(nil, head, all, func(m *client.Message) []string {
		ends := ""
		if m.Lease != "" {
			ends = r.Time(&m.LeaseExpiresAt)
		}
		return []string{cmp.Or(m.Lease, m.DeliveryID), m.Type, m.Key, strconv.Itoa(m.Attempt), ends, m.EventID, excerpt(m.Body)}
	})
}

// excerpt is the beginning of a body, on one line.
func excerpt(body []byte) string {
	const most = 120
	if !utf8.Valid(body) {
		return strconv.Itoa(len(body)) + " bytes that are not text"
	}
	if runes := []rune(string(body)); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return string(body)
}

// settlements are the commands that give the outcome of each of several leases.
func settlements(s *session) []*cobra.Command {
	var reason string
	var delay time.Duration
	settle := func(verb, short string, call func(ctx context.Context, r reader, lease string) error) *cobra.Command {
		return &cobra.Command{
			Use: verb + " LEASE…", Short: short,
			RunE: s.askEach(nil, func(ctx context.Context, r reader, lease string) (json.RawMessage, []string, error) {
				return cli.Encode(map[string]string{"lease": lease, "said": verb}), []string{lease, verb}, call(ctx, r, lease)
			}),
		}
	}
	ack := settle("ack", "Acknowledge messages: they are processed", func(ctx context.Context, r reader, lease string) error {
		return r.Ack(ctx, lease)
	})
	nack := settle("nack", "Return messages: they come again after the policy's back-off, or after --delay",
		func(ctx context.Context, r reader, lease string) error { return r.Nack(ctx, lease, reason, delay) })
	reject := settle("reject", "Make messages dead letters at once: trying again would not help",
		func(ctx context.Context, r reader, lease string) error { return r.Reject(ctx, lease, reason) })
	reasoned(nack, &reason)
	reasoned(reject, &reason)
	cli.DurationVar(nack.Flags(), &delay, "delay", client.ByPolicy, "come again after this time instead")
	nack.Flags().Lookup("delay").DefValue = "by the policy"
	return []*cobra.Command{ack, nack, reject}
}

func queuesExtend(s *session) *cobra.Command {
	var by time.Duration
	c := &cobra.Command{
		Use: "extend LEASE", Short: "Extend a lease",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			until, err := r.Extend(ctx, args[0], by)
			if err != nil {
				return cli.View{}, err
			}
			doc := cli.Encode(map[string]any{"lease": args[0], "lease_expires_at": until})
			return object(args[0], doc, [][]string{{"lease", args[0]}, {"ends", r.Time(&until)}}), nil
		}),
	}
	cli.DurationVar(c.Flags(), &by, "by", 30*time.Second, "time from now")
	return c
}

func queuesTail(s *session) *cobra.Command {
	var f following
	c := &cobra.Command{
		Use: "tail QUEUE", Short: "Stream the deliveries of a queue live, without leasing any",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			q, err := r.Queue(ctx, args[0])
			if err != nil {
				return err
			}
			f.Endpoint = q.ID
			return f.follow(ctx, r)
		}),
	}
	f.bind(c)
	return c
}

// queuesPurge asks before it empties a queue.
func queuesPurge(s *session) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "purge QUEUE", Short: "Discard all messages of a queue, leased or not",
		Example: "grapnel queues purge orders --reason 'test data'",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			q, err := r.Queue(ctx, args[0])
			if err != nil {
				return err
			}
			var waiting int64
			if n := q.QueueCounts; n != nil {
				waiting = n.Ready + n.Leased + n.Delayed + n.Waiting + n.Blocked
			}
			if err := s.Confirm("Discard the %d messages that are in %s?", waiting, q.Name); err != nil {
				return err
			}
			done, err := r.PurgeQueue(ctx, q.ID, q.Name, reason)
			if err != nil {
				return err
			}
			return r.Print(object(q.Name, done.JSON(), [][]string{{"queue", q.Name}, {"discarded", strconv.Itoa(done.Discarded)}}))
		}),
	}
	reasoned(c, &reason)
	s.confirmed(c)
	return c
}
