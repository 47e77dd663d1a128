package consent

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// A challenge goes to an address whose owner may know nothing of it. So a tenant has a budget of
// challenges, and so has each host, for those of all tenants. Both are in the memory of the leading
// node, which counts the challenges of all nodes, so more nodes send no more challenges. Another
// leader, or a restart, begins anew: no tenant can cause either. The pauses between the challenges
// of one address are stored with its endpoint, and outlast both.

// burst is the time that pays for as many challenges as a budget has.
const burst = time.Hour

// spend uses the budgets for one challenge at the node that counts; back: it returns what a
// challenge that was not sent has used.
func (k *Keeper) spend(ctx context.Context, ep *grapnel.Endpoint, back bool) error {
	if k.o.Engine.Leads() || k.o.Leader == nil {
		return k.Spend(ep.Tenant, hosts(ep), back)
	}
	return k.o.Leader(ctx, ep.Tenant, hosts(ep), back)
}

// Spend uses the budgets of a tenant and of hosts for one challenge, of this node or of another, if
// this node counts; back: it returns that. It fails with grapnel.CodeRateLimited if one of them is
// used up, and then uses none.
func (k *Keeper) Spend(tenant string, hosts []string, back bool) error {
	if !k.o.Engine.Leads() {
		return &grapnel.Error{Code: grapnel.CodeUnavailable, RetryAfter: time.Second, Detail: "Another node counts challenges now: try again."}
	}
	now, cost, costHost := k.now(), burst/time.Duration(k.bounds.PerTenant), burst/time.Duration(k.bounds.PerHost)
	giveBack := func(taken []string) {
		k.tenants.Return(tenant, now, cost)
		for _, name := range taken {
			k.hosts.Return(name, now, costHost)
		}
	}
	if back {
		giveBack(hosts)
		return nil
	}
	if wait := k.tenants.Take(tenant, now, cost, burst); wait > 0 {
		return usedUp(wait)
	}
	for i, name := range hosts {
		if wait := k.hosts.Take(name, now, costHost, burst); wait > 0 {
			giveBack(hosts[:i])
			return usedUp(wait)
		}
	}
	return nil
}

func usedUp(wait time.Duration) error {
	return &grapnel.Error{Code: grapnel.CodeRateLimited, RetryAfter: wait,
		Detail: "Too many challenges were sent for the tenant, or to this host, in the last hour."}
}

// left is the number of challenges that a tenant may still send now.
func (k *Keeper) left(tenant string, now time.Time) int {
	return int((burst - k.tenants.Debt(tenant, now)) / (burst / time.Duration(k.bounds.PerTenant)))
}

// hosts are those that a challenge reaches, each once: the receiver's, and those of the proxy and
// of the token server that the tenant has named.
func hosts(ep *grapnel.Endpoint) (all []string) {
	seen := map[string]bool{}
	add := func(raw string) {
		if u, err := url.Parse(raw); err == nil && u.Host != "" && !seen[strings.ToLower(u.Hostname())] {
			seen[strings.ToLower(u.Hostname())] = true
			all = append(all, strings.ToLower(u.Hostname()))
		}
	}
	add(ep.URL)
	add(ep.Proxy.Text)
	if ep.OAuth2 != nil {
		add(ep.OAuth2.TokenURL)
	}
	return all
}
