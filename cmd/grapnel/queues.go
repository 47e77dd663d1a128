package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

var queues = resource[client.Queue]{
	path: "/v1/queues", plural: "queues", id: "QUEUE", argument: "name", audited: true,
	filters:  cli.OnlyTenant,
	settings: cli.QueueSettings,
	head:     queueHead, row: queueRow, view: queueView,
	held: func(q *client.Queue) (string, bool) {
		return q.ID, q.Status == grapnel.EndpointPaused && q.DisabledReason == grapnel.HeldReason
	},
	verbs: []verb{
		{"create", "Create a queue: an endpoint that consumers pull from",
			"grapnel queues create orders --types 'order.*'\ngrapnel queues create payments --source src_… --lease 5m --ordering none"},
		{"list", "List queues and their counts", ""},
		{"get", "Show a queue, its counts and its consumers", ""},
		{"update", "Change a queue", "grapnel queues update orders --lease 2m --max-leased 20"},
		{"delete", "Delete queues; their pending messages end as dropped", ""},
	},
}

func (s *session) queuesCommand() *cobra.Command {
	return group("queues", "Create queues, look at them, and take from them", slices.Concat(queues.commands(s),
		queues.levers(s, []lever[client.Queue]{
			{"pause", "Lease nothing until resume; present leases can be settled", "", (*client.Client).PauseQueue, false},
			{"resume", "Lease messages again", "", (*client.Client).ResumeQueue, false},
		}),
		settlements(s),
		[]*cobra.Command{queuesPurge(s), queuesPeek(s), queuesTail(s), queuesNext(s), queuesExtend(s), queuesConsume(s)})...)
}

var queueHead = []string{"QUEUE", "STATUS", "READY", "LEASED", "DELAYED", "WAITING", "BLOCKED", "DEAD", "OLDEST",
	"TYPES", "SOURCE", "POLICY", "ID", "TENANT"}

func queueRow(_ reader, q *client.Queue) []string {
	types := "*"
	if len(q.EventTypes) > 0 {
		types = strings.Join(q.EventTypes, ",")
	}
	row := append([]string{q.Name, string(q.Status)}, countsOf(q)...)
	return append(row, types, q.Source, words.Policy(q.Policy, q.PolicyChanges), q.ID, q.Tenant)
}

// countsOf are the counts of a queue that the answer has.
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

func queueView(r reader, q *client.Queue) cli.View {
	row, quiet := queueRow(r, q), ""
	if q.Quiet {
		quiet = "yes: only its consumers notice it"
	}
	form := [][]string{
		{"queue", q.Name}, {"id", q.ID}, {"status", string(q.Status)}, {"why", q.DisabledReason},
		{"tenant", q.Tenant}, {"description", q.Description},
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
