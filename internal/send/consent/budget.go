package consent

import (
	"net/url"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// A challenge goes to an address whose owner may know nothing of it. So a tenant has a budget of
// challenges, and so has each host, whoever sends them there. Both are in the memory of each node:
// a restart, which no tenant can cause, forgets them. The pauses between the challenges of one
// address are stored with its endpoint, and outlast a restart.

// burst is the time that pays for as many challenges as a budget has.
const burst = time.Hour

// take uses the budgets for one challenge, or returns the time until they have it. giveBack undoes
// it.
func (k *Keeper) take(ep *grapnel.Endpoint, now time.Time) (giveBack func(), wait time.Duration) {
	tenant, host := burst/time.Duration(k.bounds.PerTenant), burst/time.Duration(k.bounds.PerHost)
	if wait = k.tenants.Take(ep.Tenant, now, tenant, burst); wait > 0 {
		return nil, wait
	}
	var taken []string
	giveBack = func() {
		k.tenants.Return(ep.Tenant, now, tenant)
		for _, name := range taken {
			k.hosts.Return(name, now, host)
		}
	}
	for _, name := range hosts(ep) {
		if wait = k.hosts.Take(name, now, host, burst); wait > 0 {
			giveBack()
			return nil, wait
		}
		taken = append(taken, name)
	}
	return giveBack, 0
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
