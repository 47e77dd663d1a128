package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/sign"
)

// listening is the order to `grapnel listen`.
type listening struct {
	source, endpoint, queue string
	types                   []string
	name, secret            string
	policy                  string
	headers, keep           bool
	options                 client.ConsumeOptions
}

func (s *session) listenCommand() *cobra.Command {
	var l listening
	c := &cobra.Command{
		Use: "listen URL", Short: "Forward events to a local server",
		Long: "Forward the events of a source or an endpoint, or all published events, to a local server. r and Enter send the last one " +
			"again.\n\n" +
			"The command creates a queue, leases its messages and sends them to URL. Nothing is lost while the laptop " +
			"sleeps, the network changes or the command is restarted: it continues where it was. The local server's " +
			"response is the outcome: 2xx is an ack, a response that the policy calls permanent a reject, any other returns " +
			"the message, which comes again. While the local server cannot be reached, messages wait. The queue is deleted " +
			"when the command stops, unless --keep is given; --queue leases from an existing queue instead, together with " +
			"its other consumers.\n\n" +
			"Nothing else changes. The endpoint gets its deliveries as before, and the queue is a quiet one: rejected " +
			"messages are discarded, no operational event is sent about them, and no statistics count them.",
		Example: "grapnel listen 3000\n" +
			"grapnel listen http://localhost:3000/hooks --source stripe-live --forward-headers\n" +
			"grapnel listen localhost:3000/hooks --endpoint Warehouse --secret @local.secret\n" +
			"grapnel listen http://localhost:3000/hooks --types 'invoice.*'",
		RunE: func(cmd *cobra.Command, args []string) error {
			target, ok := localURL(args[0])
			if !ok {
				return cli.Usagef("%q is not the URL of a server: it has to look like 3000, localhost:3000 or http://localhost:3000/hooks", args[0])
			}
			r, err := s.reader()
			if err != nil {
				return err
			}
			return listenAt(cmd.Context(), r, target, &l, s.askedAs)
		},
	}
	f := c.Flags()
	f.StringVar(&l.source, "source", "", "forward events that come in through this source")
	f.StringVar(&l.endpoint, "endpoint", "", "forward events of this endpoint, in its format and by its transform")
	f.StringVar(&l.queue, "queue", "", "lease from this queue instead of creating one")
	f.StringSliceVar(&l.types, "types", nil, "only these event types; * stands for any part of one")
	f.BoolVar(&l.headers, "forward-headers", false, "send the headers of the request to the source, its signature included")
	f.StringVar(&l.secret, "secret", "", "sign like Grapnel, with this whsec_ secret")
	f.StringVar(&l.policy, "policy", "", "name of the new queue's policy; if not given, the default of queues")
	f.StringVar(&l.name, "name", "", "name of the new queue; if not given, made of this machine's name and the selection")
	f.BoolVar(&l.keep, "keep", false, "keep the queue when stopped, so that events until the next start are not missed")
	f.IntVar(&l.options.Concurrency, "max-in-flight", 1, "requests at once")
	consuming(c, &l.options)
	c.MarkFlagsMutuallyExclusive("source", "endpoint", "queue")
	return c
}

// localURL is the URL of a server on this machine. A number is its port.
func localURL(text string) (*url.URL, bool) {
	if !strings.Contains(text, "://") {
		port, _, _ := strings.Cut(text, "/")
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			text = "localhost:" + text
		}
		text = "http://" + text
	}
	u, err := url.Parse(text)
	return u, err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// listenAt listens until ctx ends.
func listenAt(ctx context.Context, r reader, target *url.URL, l *listening, called func(id string) string) error {
	to := &forwarder{reader: r, target: target, headers: l.headers, statuses: map[string]int{}, http: localClient(max(1,
		l.options.Concurrency))}
	if l.secret != "" {
		var err error
		if to.secret, err = r.world.Text("--secret", l.secret); err != nil {
			return err
		}
		if err := sign.CheckSecret(to.secret); err != nil {
			return cli.Usagef("--secret: %v", err)
		}
	}
	q, made, err := ownQueue(ctx, r, l, to)
	if err != nil {
		return err
	}
	to.tenant = q.Tenant
	if to.policy, err = policyOf(ctx, r, q); err != nil {
		return err
	}
	r.world.Note("Listening to %s; requests go to %s. r and Enter send the last one again; Ctrl-C stops.", listenedTo(l, called), target)
	if n := q.QueueCounts; n != nil && n.Ready+n.Delayed+n.Waiting > 0 {
		r.world.Note("%d messages are pending.", n.Ready+n.Delayed+n.Waiting)
	}
	r.world.EachLine(ctx, func(line string) {
		if line == "r" {
			to.again(ctx)
		}
	})
	err = consume(ctx, r, q.ID, to.handle, to.answered, l.options)
	if err != nil || !made || l.keep {
		return err
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := r.DeleteQueue(ending, q.ID, "grapnel listen was stopped"); err != nil {
		return fmt.Errorf("deleting the queue %s: %w", q.Name, err)
	}
	return nil
}

// listenedTo names the events that a listener gets.
func listenedTo(l *listening, called func(id string) string) string {
	switch {
	case l.source != "":
		return "source " + called(l.source)
	case l.endpoint != "":
		return "endpoint " + called(l.endpoint)
	case l.queue != "":
		return "queue " + l.queue
	}
	return "all published events"
}

// madeByListen marks queues that this command may reuse and delete.
const madeByListen = "made by grapnel listen"

// ownQueue is the queue to lease from: the given one, that of an earlier run, or a new one. made:
// this command created it.
func ownQueue(ctx context.Context, r reader, l *listening, to *forwarder) (q *client.Queue, made bool, err error) {
	if l.queue != "" {
		q, err = r.Queue(ctx, l.queue)
		return q, false, err
	}
	want := client.NewQueue{Name: l.name, EventTypes: l.types, Source: l.source, Description: madeByListen, Quiet: true}
	if l.policy != "" {
		want.Policy = l.policy
	}
	switch {
	case l.endpoint != "":
		ep, err := r.Endpoint(ctx, l.endpoint)
		if err != nil {
			return nil, false, err
		}
		to.shape = grapnel.Shape{Format: ep.Format, Transform: ep.Transform}
		if p := ep.PresetShape; p != nil && ep.Transform == "" {
			to.shape.Transform = p.Transform
		}
		want.Tenant, want.Filter, want.Source, want.Ordering = ep.Tenant, ep.Filter, ep.Source, ep.Ordering
		if len(l.types) == 0 {
			want.EventTypes = ep.EventTypes
		}
	case l.source != "":
		src, err := r.Source(ctx, l.source)
		if err != nil {
			return nil, false, err
		}
		want.Tenant = src.Tenant
	}
	if want.Name == "" {
		want.Name = listenName(l)
	}
	q, err = r.CreateQueue(ctx, want)
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Status != 409 {
		return q, true, err
	}
	// The queue of an earlier run that ended without deleting it.
	all, lost := queueNamed(ctx, r, want)
	if lost != nil {
		return nil, false, lost
	}
	if all == nil || all.Description != madeByListen || all.Source != want.Source || all.Filter != want.Filter ||
		!slices.Equal(all.EventTypes, want.EventTypes) {
		return nil, false, &cli.Fault{Exit: cli.ExitConflict, Code: "conflict",
			Text: "a queue named " + want.Name + " already exists, with another selection",
			Next: "Lease from it with --queue, or give another --name."}
	}
	if l.policy == "" || l.policy == words.Policy(all.Policy, all.PolicyChanges) {
		return all, true, nil
	}
	q, err = r.UpdateQueue(ctx, all.ID, map[string]any{"policy": l.policy})
	return q, true, err
}

// queueNamed finds a queue by its name in the tenant that a new one would belong to; nil: there is
// none.
func queueNamed(ctx context.Context, r reader, want client.NewQueue) (*client.Queue, error) {
	page, err := r.Queues(ctx, client.QueueFilter{Tenant: want.Tenant, Search: want.Name, Limit: mostFound})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(page.Data, func(q client.Queue) bool { return q.Name == want.Name })
	if i < 0 {
		return nil, nil
	}
	return r.Queue(ctx, page.Data[i].ID)
}

// listenName is the same for the same selection on the same machine.
func listenName(l *listening) string {
	host, err := os.Hostname()
	if err != nil {
		host = "somewhere"
	}
	sum := sha256.Sum256([]byte(strings.Join(append([]string{l.source, l.endpoint}, l.types...), "\x00")))
	return "listen-" + strings.ToLower(consumerName(host)) + "-" + hex.EncodeToString(sum[:4])
}

// policyOf is the policy of a queue: it says which answers are permanent.
func policyOf(ctx context.Context, r reader, q *client.Queue) (*policy.Policy, error) {
	doc := q.Policy
	var name string
	if json.Unmarshal(doc, &name) == nil {
		if p, ok := policy.Preset(name); ok {
			return &p, nil
		}
		page, err := r.Policies(ctx, client.ListFilter{Search: name, Limit: mostFound})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(page.Data, func(p client.Policy) bool { return p.Name == name && p.Tenant == q.Tenant })
		if i < 0 {
			return nil, fmt.Errorf("the policy %s of the queue is not found", name)
		}
		doc = page.Data[i].JSON()
	}
	p, err := cli.ReadPolicy(doc)
	if err != nil {
		return nil, fmt.Errorf("reading the queue's policy: %w", err)
	}
	return &p, nil
}
