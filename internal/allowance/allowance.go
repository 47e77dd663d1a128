// Package allowance keeps how much of something shared each tenant has used, and says whether it is
// within its part.
//
// Each tenant has a rate and a burst. What a tenant uses becomes a debt, in time: the time that it
// needs at its rate for as much. Time pays debts. A tenant is within its allowance while its debt
// is at most the burst. So one tenant's use delays no other tenant, and a tenant that has used
// nothing for a while has its whole burst again.
//
// A tenant without debt needs no memory: at most as many of them are remembered as New is told.
// Tenants in debt are never forgotten, so their number must be bounded by what makes the debts.
//
// It decides nothing: callers refuse, delay, or queue a tenant beyond its allowance.
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

// New remembers no debt yet. Burst is the debt up to which a tenant is within its allowance;
// most is the number of tenants beyond which those without debt are forgotten.
func New(burst time.Duration, most int) *Tenants {
	return &Tenants{burst: burst, most: most, paid: map[string]time.Time{}}
}

// Within says whether a tenant is within its allowance.
func (t *Tenants) Within(tenant string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paid[tenant].Sub(now) <= t.burst
}

// Use adds to the debt of a tenant what it has used from began to now, and says whether the tenant
// still is within its allowance. Cost is the time that the tenant needs for as much at its rate.
func (t *Tenants) Use(tenant string, began, now time.Time, cost time.Duration) (within bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
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
