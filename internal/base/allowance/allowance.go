// Package allowance records each tenant's use of a shared resource, and says whether the tenant is
// within its share.
//
// Each tenant has a rate and a burst. Use becomes a debt, in time: the time that the tenant needs
// for it at its rate. Time pays debts. A tenant is within its allowance while its debt is at most
// the burst. So one tenant's use delays no other tenant, and an idle tenant regains its whole
// burst.
//
// A tenant without debt needs no memory: at most the number of them passed to New is remembered.
// Tenants in debt are never forgotten, so the callers that cause debts must bound their number.
//
// It decides nothing: callers refuse, delay, or queue a tenant beyond its allowance. Only Take
// leaves out a use that the debt does not permit.
package allowance

import (
	"sync"
	"time"
)

// Tenants are the debts of all tenants. It is safe for concurrent use.
type Tenants struct {
	burst time.Duration
	most  int

	mu   sync.Mutex
	paid map[string]time.Time // when the tenant's debt is paid
}

// New returns Tenants without debts. burst is the debt up to which a tenant is within its
// allowance; most is the number of tenants beyond which those without debt are forgotten.
func New(burst time.Duration, most int) *Tenants {
	return &Tenants{burst: burst, most: most, paid: map[string]time.Time{}}
}

// Within says whether a tenant is within its allowance.
func (t *Tenants) Within(tenant string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paid[tenant].Sub(now) <= t.burst
}

// Use adds a use from began to now to a tenant's debt, and says whether the tenant is still within
// its allowance. cost is the time that the tenant needs for the use at its rate.
func (t *Tenants) Use(tenant string, began, now time.Time, cost time.Duration) (within bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.use(tenant, began, now, cost)
}

func (t *Tenants) use(tenant string, began, now time.Time, cost time.Duration) (within bool) {
	from := t.paid[tenant]
	if from.Before(began) {
		from = began
	}
	until := from.Add(cost)
	t.paid[tenant] = until
	if len(t.paid) > t.most {
		for name, paid := range t.paid {
			if !paid.After(now) {
				delete(t.paid, name)
			}
		}
	}
	return until.Sub(now) <= t.burst
}

// Take is a Use by a tenant with its own burst, if its debt with the use is at most the burst.
// Otherwise it changes nothing and returns the time until then. A use that costs more than the
// whole burst is taken when the tenant has no debt: else it would be refused forever.
func (t *Tenants) Take(tenant string, now time.Time, cost, burst time.Duration) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait = max(t.paid[tenant].Sub(now), 0) - max(burst-cost, 0); wait > 0 {
		return wait
	}
	t.use(tenant, now, now, cost)
	return 0
}

// Return takes back a Take whose use did not happen.
func (t *Tenants) Return(tenant string, now time.Time, cost time.Duration) {
	t.Use(tenant, time.Time{}, now, -cost)
}

// Debt is the time after which the tenant has no debt.
func (t *Tenants) Debt(tenant string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.paid[tenant].Sub(now), 0)
}
