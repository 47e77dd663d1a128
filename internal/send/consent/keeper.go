// Package consent asks the new address of an endpoint whether it wants deliveries, where the
// endpoint's tenant requires that. The receiver consents by answering a signed message with the
// token in it. Until then the endpoint is paused (grapnel.ConsentReason), so its deliveries wait.
//
// What holds here:
//
//   - A challenge is stored with the endpoint before it is sent. Of several nodes, or of a schedule
//     and a person, that begin the same one, the revision of the endpoint lets one do so. A process
//     that is killed meanwhile has used that challenge up; the leading node sends the next one.
//   - An answer counts for the address that was asked. If the endpoint has got another one since,
//     the answer changes nothing.
//   - Challenges of a tenant, and to a host, are limited over all nodes (budget.go); so are those
//     of one address without a person (Bounds.Tries).
//
// It holds no delivery back: that is a paused endpoint's nature. It does not decide which endpoints
// wait for consent: grapnel.Endpoint.AskConsent does, with every change of one.
package consent

import (
	"context"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/allowance"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// New returns a Keeper. Without Run it asks for people only.
func New(o Options) *Keeper {
	b := bounds.Fill(o.Bounds)
	k := &Keeper{o: o, bounds: b, now: o.Now, due: make(chan string, b.Queue),
		tenants: allowance.New(burst, b.Names), hosts: allowance.New(burst, b.Names)}
	if k.now == nil {
		k.now = time.Now
	}
	return k
}

// Run asks endpoints that are due until ctx ends, and returns when the challenges in progress are
// recorded.
func (k *Keeper) Run(ctx context.Context) {
	var asking sync.WaitGroup
	for range k.bounds.AtOnce {
		asking.Go(func() {
			for {
				select {
				case id := <-k.due:
					k.scheduled(ctx, id)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for backoff.Wait(ctx.Done(), k.bounds.Every) {
		k.Round(ctx)
	}
	asking.Wait()
}

// Due has an endpoint asked soon if it waits for that. If too many others wait, Round finds it.
func (k *Keeper) Due(id string) {
	select {
	case k.due <- id:
	default:
	}
}

// Round finds the endpoints whose next challenge is due, no more of a tenant than its budget has,
// and releases those whose tenant requires no consent any more.
func (k *Keeper) Round(ctx context.Context) {
	if !k.o.Engine.Leads() {
		return
	}
	now, left := k.now(), map[string]int{}
	var release []string
	k.o.Engine.EachEndpoint(store.Everyone(), func(ep *grapnel.Endpoint) bool {
		if !ep.AwaitsConsent() {
			return true
		}
		if _, known := left[ep.Tenant]; !known {
			left[ep.Tenant] = k.left(ep.Tenant, now)
		}
		switch {
		case k.o.Engine.Consent(ep.Tenant) != grapnel.ConsentRequired:
			release = append(release, ep.ID)
		case k.isDue(ep, now) && left[ep.Tenant] > 0:
			left[ep.Tenant]--
			k.Due(ep.ID)
		}
		return ctx.Err() == nil
	})
	for _, id := range release {
		k.release(ctx, id)
	}
}

func (k *Keeper) isDue(ep *grapnel.Endpoint, now time.Time) bool {
	c := ep.Consent
	return ep.HeldForConsent() && ep.AwaitsConsent() && !c.Next.IsZero() && !backoff.Early(now, c.Next, k.bounds.Longest)
}

// scheduled asks an endpoint if it is due.
func (k *Keeper) scheduled(ctx context.Context, id string) {
	ep, there := k.o.Engine.Endpoint(store.Everyone(), id)
	if !there || !k.isDue(&ep, k.now()) || k.o.Engine.Consent(ep.Tenant) != grapnel.ConsentRequired {
		return
	}
	_, err := k.ask(ctx, ep, grapnel.By{Actor: grapnel.ActorItself})
	switch grapnel.CodeOf(err) {
	case "", grapnel.CodeConflict, grapnel.CodeUnavailable, grapnel.CodeRateLimited, grapnel.CodeNotFound, grapnel.CodeTenantEnds:
		// it will be due again: another node was quicker, or the store, the budget or the node that
		// counts refuses for now
	default:
		k.o.Log.Warn("asking an address for consent failed; retrying", "endpoint", id, "tenant", ep.Tenant, "err", err)
	}
}

// release ends the wait for consent that is required no more.
func (k *Keeper) release(ctx context.Context, id string) {
	ep, there := k.o.Engine.Endpoint(store.Everyone(), id)
	if !there || !ep.AwaitsConsent() {
		return
	}
	ep.Consent, ep.UpdatedAt = nil, k.moment()
	ep.FollowConsent()
	entry := entry(&ep, grapnel.VerbResume, grapnel.By{Actor: grapnel.ActorItself, Reason: "its tenant requires no consent any more"}, ep.UpdatedAt)
	if _, err := k.o.Engine.PutEndpoint(ctx, store.Everyone(), ep, store.With{Audit: entry}); err == nil {
		k.o.Log.Info("endpoint no longer waits for consent: its tenant requires none", "endpoint", id, "tenant", ep.Tenant)
	}
}
