package main

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

var tenants = resource[client.Tenant]{
	path: "/v1/tenants", id: "TENANT", argument: "tenant",
	settings: cli.TenantSettings, needed: []string{"name"},
	always: url.Values{"numbers": {"true"}},
	head:   []string{"TENANT", "ENDPOINTS", "PENDING", "DEAD", "ACTIVE", "MAX RATE", "MAX PER DAY", "MAX PENDING"},
	row: func(r reader, t *client.Tenant) []string {
		n := cmp.Or(t.Numbers, new(client.TenantNumbers)) // an older server has none
		_, endpoints := words.Endpoints(&n.Endpoints)
		return []string{t.Tenant, endpoints, say.Count(n.Pending), say.Capped(n.DeadLetters, n.DeadLettersMore),
			r.Time(n.ActiveAt), itsRate(t.PublishRate), atMost(t.EventsPerDay), atMost(t.MaxPending)}
	},
	view: func(r reader, t *client.Tenant) cli.View {
		rows := [][]string{{"tenant", t.Tenant}, {"name", t.Name}, {"labels", cli.Compact(cli.Encode(t.Labels))}}
		if n := t.Numbers; n != nil {
			_, endpoints := words.Endpoints(&n.Endpoints)
			rows = append(rows, []string{"endpoints", endpoints}, []string{"pending", say.Count(n.Pending)},
				[]string{"dead letters", say.Capped(n.DeadLetters, n.DeadLettersMore)}, []string{"active", r.Time(n.ActiveAt)})
		}
		return object(t.Tenant, t.JSON(), append(rows, [][]string{{"max publish rate", itsRate(t.PublishRate)},
			{"max events per day", atMost(t.EventsPerDay)}, {"max pending", atMost(t.MaxPending)}, {"consent", cmp.Or(string(t.Consent), theServers)},
			{"proxy", t.Proxy},
			{"changed", r.Time(t.UpdatedAt)}}...))
	},
	verbs: []verb{{"list", "List tenants", ""}, {"get", "Show the operator's settings for a tenant", ""},
		{"create", "Register a tenant", "grapnel tenants create acme --name 'Acme Inc.' --label plan=gold"},
		{"update", "Change the operator's settings for a tenant",
			"grapnel tenants update acme --max-publish-rate 100/500 --max-events-per-day 1000000\ngrapnel tenants update acme --max-publish-rate none"}},
}

const theServers = "the server's"

// itsRate is a tenant's own rate.
func itsRate(r *grapnel.RateLimit) string {
	if r == nil {
		return theServers
	}
	return rateLimit(r)
}

// atMost is a tenant's own limit.
func atMost(n int64) string {
	if n == 0 {
		return theServers
	}
	return strconv.FormatInt(n, 10)
}

func (s *session) tenantsCommand() *cobra.Command {
	return group("tenants", "List tenants, set their limits, and open their portals",
		append(tenants.commands(s), tenantsDelete.command(s), tenantsPortalLink.command(s), tenantsRevokeLinks(s))...)
}

var tenantsDelete = call[client.Erasure]{
	use: "delete TENANT", short: "Delete a tenant with all that it has",
	long: "Begin to delete a tenant: endpoints, queues, sources, keys, events, deliveries, settings and audit. From now on nothing is " +
		"accepted for it and nothing is sent. It cannot be undone. The job goes on by itself; show it with grapnel erasures get.",
	example: "grapnel tenants delete acme --reason 'ticket 1107' --yes",
	method:  http.MethodDelete, path: tenants.path + "/*", asks: cli.Reason, needed: []string{"reason"}, view: erasureView,
	question: func(_ *cobra.Command, args []string) string {
		return "Delete tenant " + args[0] + " with all that it has?"
	},
}
