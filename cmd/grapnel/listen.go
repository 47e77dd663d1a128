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
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
	"github.com/grapnelhq/grapnel/policy"
)

// listening is what `grapnel listen` was asked for.
type listening struct {
	source, endpoint, queue string
	types                   []string
	name, secret            string
	policy                  string
	headers, keep           bool
	options                 client.ConsumeOptions
	count                   int
}

func (s *session) listen() *cobra.Command {
	var l listening
	c := &cobra.Command{
		Use: "listen URL", Short: "Have a local server receive what a source or endpoint gets", Args: takes(cobra.ExactArgs(1)),
		Long: "Have a local server receive what a source or an endpoint gets, or what is published at all.\n\n" +
			"It makes a queue of its own, takes from it, and sends what it takes to URL. So nothing gets lost while the laptop sleeps, the network changes or the " +
			"command is started anew: it goes on where it was. What the local server answers is the outcome: 2xx is an ack, what the policy takes as permanent a " +
			"reject, anything else is given back and comes again. While the local server is away it is waited for. The queue is deleted when the command is " +
			"stopped, unless --keep says otherwise; --queue takes from one that is there already, together with whoever else takes from it.\n\n" +
			"Nobody else notices. An endpoint gets its deliveries whether somebody listens or not, and the queue is a quiet one: what the local server rejects is " +
			"discarded, no other endpoint is notified of it, and no statistics count it.",
		Example: "grapnel listen http://localhost:3000/hooks --source src_… --forward-headers\n" +
			"grapnel listen http://localhost:3000/hooks --endpoint ep_… --secret @local.secret\n" +
			"grapnel listen http://localhost:3000/hooks --types 'invoice.*'",
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := url.Parse(args[0])
			if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
				return cli.Usagef("%q is not the URL of a server: it has to look like http://localhost:3000/hooks", args[0])
			}
			given := 0
			for _, flag := range []string{l.source, l.endpoint, l.queue} {
				if flag != "" {
					given++
				}
			}
			if given > 1 {
				return cli.Usagef("give one of --source, --endpoint and --queue")
			}
			r, err := s.reader()
			if err != nil {
				return err
			}
			return s.listenAt(cmd.Context(), r, target, &l)
		},
	}
	f := c.Flags()
	f.StringVar(&l.source, "source", "", "what comes in through this source")
	f.StringVar(&l.endpoint, "endpoint", "", "what this endpoint gets, in its format")
	f.StringVar(&l.queue, "queue", "", "take from this queue instead of making one")
	f.StringSliceVar(&l.types, "types", nil, "only these event types; * stands for any part of one")
	f.BoolVar(&l.headers, "forward-headers", false, "send the headers with which a request came in through a source, its signature included")
	f.StringVar(&l.secret, "secret", "", "sign like Grapnel, with this whsec_ secret: @FILE, or - for standard input")
	f.StringVar(&l.policy, "policy", "", "name of the policy of the queue that is made; hooque if not given")
	f.StringVar(&l.name, "name", "", "name of the queue that is made; default: from this machine's name and what is listened to")
	f.BoolVar(&l.keep, "keep", false, "leave the queue there when stopped, so that what comes meanwhile is not missed")
	f.IntVar(&l.options.Concurrency, "max-in-flight", 1, "requests at once")
	consuming(c, &l.options, &l.count)
	return c
}

// listenAt listens until ctx ends.
func (s *session) listenAt(ctx context.Context, r reader, target *url.URL, l *listening) error {
	to := &forwarder{reader: r, session: s, target: target, headers: l.headers, http: localClient(max(1, l.options.Concurrency))}
	if l.secret != "" {
		var err error
		if to.secret, err = s.text("--secret", l.secret); err != nil {
			return err
		}
	}
	q, made, err := s.ownQueue(ctx, r, l, to)
	if err != nil {
		return err
	}
	to.tenant = q.Tenant
	if to.policy, err = policyOf(ctx, r, q); err != nil {
		return err
	}
	s.Note("Listening to %s; requests go to %s. Stop with Ctrl-C.", what(l), target)
	if n := q.QueueCounts; n != nil && n.Ready+n.Delayed+n.Waiting > 0 {
		s.Note("%d messages have waited meanwhile.", n.Ready+n.Delayed+n.Waiting)
	}
	err = s.consume(ctx, r, q.ID, to.handle, l.options, l.count)
	if err != nil || !made || l.keep {
		return err
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := r.DeleteQueue(ending, q.ID, "grapnel listen was stopped"); err != nil {
		return fmt.Errorf("the queue %s could not be deleted: %w", q.Name, err)
	}
	return nil
}

func what(l *listening) string {
	switch {
	case l.source != "":
		return "source " + l.source
	case l.endpoint != "":
		return "what endpoint " + l.endpoint + " gets"
	case l.queue != "":
		return "queue " + l.queue
	}
	return "everything that is published"
}

// madeByListen marks queues that this command may go on with, and delete.
const madeByListen = "made by grapnel listen"

// ownQueue is the queue to take from: the one named, the one of an earlier run, or a new one. made says that it is this command's own.
func (s *session) ownQueue(ctx context.Context, r reader, l *listening, to *forwarder) (q *client.Queue, made bool, err error) {
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
		to.format = ep.Format
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
	// The one of an earlier run that ended without a chance to delete it.
	all, lost := s.queueNamed(ctx, r, want)
	if lost != nil {
		return nil, false, lost
	}
	if all == nil || all.Description != madeByListen || all.Source != want.Source || all.Filter != want.Filter || !slices.Equal(all.EventTypes, want.EventTypes) {
		return nil, false, &cli.Fault{Exit: cli.ExitConflict, Code: "conflict", Text: "there is a queue named " + want.Name + " already, and it is another one",
			Next: "Take from it with --queue, or give another --name."}
	}
	if !all.Quiet { // an older program made it
		all, err = r.UpdateQueue(ctx, all.ID, map[string]any{"quiet": true})
		return all, true, err
	}
	return all, true, nil
}

// queueNamed finds a queue by its name in the tenant that a new one would belong to.
func (s *session) queueNamed(ctx context.Context, r reader, want client.NewQueue) (*client.Queue, error) {
	f := client.QueueFilter{Tenant: want.Tenant, Limit: 500}
	for {
		p, err := r.Queues(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range p.Data {
			if p.Data[i].Name == want.Name {
				return r.Queue(ctx, p.Data[i].ID)
			}
		}
		if f.Cursor = p.Next; f.Cursor == "" {
			return nil, nil
		}
	}
}

// listenName is the same whenever the same is listened to on this machine.
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
	if name := policyName(doc); name != "(its own)" {
		if p, ok := policy.Preset(name); ok {
			return &p, nil
		}
		found, err := policyNamed(ctx, r, name, q.Tenant)
		if err != nil {
			return nil, err
		}
		doc = found
	}
	p, err := policy.Parse(doc)
	if err != nil {
		return nil, fmt.Errorf("the queue's policy cannot be read: %w", err)
	}
	return &p, nil
}

// policyNamed is a tenant's own policy.
func policyNamed(ctx context.Context, r reader, name, tenant string) (json.RawMessage, error) {
	for cursor := ""; ; {
		p, err := r.Policies(ctx, 500, cursor)
		if err != nil {
			return nil, err
		}
		for i := range p.Data {
			if p.Data[i].Name == name && p.Data[i].Tenant == tenant {
				return rules(p.Data[i].JSON())
			}
		}
		if cursor = p.Next; cursor == "" {
			return nil, fmt.Errorf("the policy %s of the queue is not to be found", name)
		}
	}
}

// rules are a policy without what only says whose it is.
func rules(doc json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(doc, &fields); err != nil {
		return nil, fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	for _, name := range []string{"id", "tenant", "preset", "created_at", "updated_at", "revision"} {
		delete(fields, name)
	}
	return json.Marshal(fields)
}

// decide is what an answer's status makes of a message.
func decide(p *policy.Policy, status int, retryAfter time.Duration, said bool) error {
	class := policy.ClassNone
	switch {
	case status == 429:
		class = policy.ClassStatus429
	case status >= 500:
		class = policy.ClassStatus5xx
	case status >= 400:
		class = policy.ClassStatus4xx
	case status >= 300:
		class = policy.ClassRedirect
	}
	err := fmt.Errorf("the local server answered %d", status)
	switch p.Decide(policy.Outcome{Status: status, Class: class, RetryAfter: retryAfter, HasRetryAfter: said}) {
	case policy.Deliver:
		return nil
	case policy.Fail, policy.DisableEndpoint:
		return client.Reject(err)
	}
	if said {
		return client.RetryAfter(retryAfter, err)
	}
	return err
}
