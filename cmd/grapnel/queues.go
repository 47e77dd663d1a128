package main

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) queues() *cobra.Command {
	return group("queues", "Create queues, look at them, and take from them",
		s.queuesCreate(), s.queuesList(), s.queuesGet(), s.queuesUpdate(), s.queuesPause(), s.queuesResume(), s.queuesPurge(), s.queuesDelete(),
		s.queuesPeek(), s.queuesTail(), s.queuesNext(), s.queuesAck(), s.queuesNack(), s.queuesReject(), s.queuesExtend(), s.queuesConsume())
}

// queueFlags are what creating and changing a queue have in common.
type queueFlags struct {
	flags     *pflag.FlagSet
	texts     map[string]*string
	types     []string
	maxLeased int
	quiet     bool
	policy    string
}

func (q *queueFlags) add(c *cobra.Command) {
	f := c.Flags()
	q.flags, q.texts = f, map[string]*string{}
	for _, flag := range []struct{ name, about string }{
		{"description", "what it is, for people"},
		{"filter", "CEL expression over event, such as event.data.amount > 100"},
		{"source", "id of a source: only what came in through it"},
		{"ordering", "key or none"},
		{"lease", "how long a consumer has for a message, as in 30s"},
	} {
		q.texts[flag.name] = f.String(flag.name, "", flag.about)
	}
	f.StringSliceVar(&q.types, "types", nil, "event types it wants; * stands for any part of one; none: all")
	f.StringVar(&q.policy, "policy", "", "name of a policy, or a policy as JSON, @FILE or -; hooque if not given")
	f.BoolVar(&q.quiet, "quiet", false, "nobody but its consumers notices it: no webhook_endpoint.* events about it, no dead letters, no statistics")
	f.IntVar(&q.maxLeased, "max-leased", 0, "leases that one consumer may hold at once")
}

func (q *queueFlags) fields(s *session) (map[string]any, error) {
	fields := map[string]any{}
	for name, value := range q.texts {
		if q.flags.Changed(name) {
			fields[name] = *value
		}
	}
	if q.flags.Changed("types") {
		fields["event_types"] = q.types
	}
	if q.flags.Changed("max-leased") {
		fields["max_leased"] = q.maxLeased
	}
	if q.flags.Changed("quiet") {
		fields["quiet"] = q.quiet
	}
	if q.flags.Changed("policy") {
		policy, err := s.policyGiven(q.policy)
		if err != nil {
			return nil, err
		}
		fields["policy"] = policy
	}
	return fields, nil
}

func (s *session) queuesCreate() *cobra.Command {
	var change queueFlags
	var tenant string
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a queue: an endpoint that is pulled", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel queues create orders --types 'order.*'\ngrapnel queues create payments --source src_… --lease 5m --ordering none",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			fields, err := change.fields(s)
			if err != nil {
				return cli.View{}, err
			}
			fields["name"] = args[0]
			if tenant != "" {
				fields["tenant"] = tenant
			}
			q := new(client.Queue)
			if err := r.Do(ctx, "POST", "/v1/queues", nil, fields, q); err != nil {
				return cli.View{}, err
			}
			return queueView(r, q), nil
		}),
	}
	change.add(c)
	c.Flags().StringVar(&tenant, "tenant", "", "whose queue it is")
	return c
}

func (s *session) queuesList() *cobra.Command {
	var f client.QueueFilter
	c := paging(&cobra.Command{
		Use: "list", Short: "List queues and what is in them",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			p, err := r.Queues(ctx, f)
			if err != nil {
				return cli.View{}, err
			}
			return page(p, queueHead, func(q client.Queue) []string { return queueRow(&q) }), nil
		}),
	}, &f.Limit, &f.Cursor)
	c.Flags().StringVar(&f.Tenant, "tenant", "", "only this tenant")
	return c
}

func (s *session) queuesGet() *cobra.Command {
	return &cobra.Command{
		Use: "get QUEUE", Aliases: []string{"show"}, Short: "Show a queue, what is in it, and who takes from it", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			q, err := r.Queue(ctx, args[0])
			if err != nil {
				return cli.View{}, err
			}
			return queueView(r, q), nil
		}),
	}
}

func (s *session) queuesUpdate() *cobra.Command {
	var change queueFlags
	c := &cobra.Command{
		Use: "update QUEUE", Short: "Change a queue", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			fields, err := change.fields(s)
			if err != nil {
				return cli.View{}, err
			}
			if len(fields) == 0 {
				return cli.View{}, cli.Usagef("nothing to change: give a flag that says what")
			}
			q, err := r.UpdateQueue(ctx, args[0], fields)
			if err != nil {
				return cli.View{}, err
			}
			return queueView(r, q), nil
		}),
	}
	change.add(c)
	return c
}

// queueLever is a command that does the same to each of several queues and shows how they are then.
func (s *session) queueLever(verb, short string, call func(ctx context.Context, r reader, name, reason string) (*client.Queue, error)) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: verb + " QUEUE…", Short: short, Args: takes(cobra.MinimumNArgs(1)),
		RunE: s.askEach(queueHead, func(ctx context.Context, r reader, name string) (json.RawMessage, []string, error) {
			q, err := call(ctx, r, name, reason)
			if err != nil {
				return nil, nil, err
			}
			return q.JSON(), queueRow(q), nil
		}),
	}
	reasoned(c, &reason)
	return c
}

func (s *session) queuesPause() *cobra.Command {
	return s.queueLever("pause", "Hand out nothing until resume; leases that there are can be settled",
		func(ctx context.Context, r reader, name, reason string) (*client.Queue, error) {
			return r.PauseQueue(ctx, name, reason)
		})
}

func (s *session) queuesResume() *cobra.Command {
	return s.queueLever("resume", "Go on handing out", func(ctx context.Context, r reader, name, reason string) (*client.Queue, error) {
		return r.ResumeQueue(ctx, name, reason)
	})
}

func (s *session) queuesDelete() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "delete QUEUE…", Short: "Delete queues; what waits in them ends as dropped", Args: takes(cobra.MinimumNArgs(1)),
		RunE: s.askEach(nil, func(ctx context.Context, r reader, name string) (json.RawMessage, []string, error) {
			return deleted(name, r.DeleteQueue(ctx, name, reason))
		}),
	}
	reasoned(c, &reason)
	return s.deletes("queues", c)
}

var queueHead = []string{"QUEUE", "STATUS", "READY", "LEASED", "DELAYED", "WAITING", "BLOCKED", "DEAD", "OLDEST", "TYPES", "SOURCE", "POLICY", "ID", "TENANT"}

func queueRow(q *client.Queue) []string {
	types := "*"
	if len(q.EventTypes) > 0 {
		types = strings.Join(q.EventTypes, ",")
	}
	row := append([]string{q.Name, string(q.Status)}, countsOf(q)...)
	return append(row, types, q.Source, policyName(q.Policy), q.ID, q.Tenant)
}

// countsOf is what is in a queue, as far as the server said.
func countsOf(q *client.Queue) []string {
	n := q.QueueCounts
	if n == nil {
		return make([]string, 7)
	}
	oldest := ""
	if n.OldestAge != nil {
		oldest = n.OldestAge.Std().Round(time.Second).String()
	}
	return []string{number(n.Ready), number(n.Leased), number(n.Delayed), number(n.Waiting), number(n.Blocked), number(n.Dead), oldest}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func queueView(r reader, q *client.Queue) cli.View {
	row, quiet := queueRow(q), ""
	if q.Quiet {
		quiet = "yes: nobody but its consumers notices it"
	}
	form := [][]string{
		{"queue", q.Name}, {"id", q.ID}, {"status", string(q.Status)}, {"why", q.DisabledReason}, {"tenant", q.Tenant}, {"description", q.Description},
	}
	for i, n := range countsOf(q) {
		form = append(form, []string{strings.ToLower(queueHead[i+2]), n})
	}
	form = append(form, [][]string{
		{"types", row[9]}, {"filter", q.Filter}, {"source", q.Source}, {"policy", row[11]}, {"ordering", string(q.Ordering)},
		{"lease", q.Lease.String()}, {"max leased", strconv.Itoa(q.MaxLeased)}, {"quiet", quiet}, {"created", r.Time(&q.CreatedAt)},
	}...)
	if len(q.Consumers) == 0 {
		return object(q.ID, q.JSON(), form)
	}
	consumers := make([][]string, len(q.Consumers))
	for i, c := range q.Consumers {
		name := c.Name
		if name == "" {
			name = "(no name)"
		}
		consumers[i] = []string{name, number(c.Leased), r.Time(&c.SeenAt)}
	}
	return object(q.ID, q.JSON(), form, cli.Part{Head: []string{"CONSUMER", "LEASED", "LAST ASKED"}, Rows: consumers})
}
