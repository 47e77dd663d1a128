package consent

import (
	"cmp"
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Ask sends the endpoint's address a challenge now, for a person, and returns the endpoint as it is
// then. It fails with grapnel.CodeConflict if the endpoint waits for no consent, and with
// grapnel.CodeRateLimited if a budget is used up.
func (k *Keeper) Ask(ctx context.Context, id string, by grapnel.By) (grapnel.Endpoint, error) {
	ep, there := k.o.Engine.Endpoint(store.Everyone(), id)
	if !there {
		return ep, store.ErrNotFound("endpoint")
	}
	if !ep.AwaitsConsent() {
		return ep, grapnel.Errorf(grapnel.CodeConflict, "The endpoint does not wait for the consent of its address.")
	}
	return k.ask(ctx, ep, by)
}

// ask makes one challenge: it is stored, sent, and its result is stored. Once it is sent, the end
// of a caller's ctx no longer matters: the receiver's answer would be lost.
func (k *Keeper) ask(ctx context.Context, ep grapnel.Endpoint, by grapnel.By) (grapnel.Endpoint, error) {
	now := k.moment()
	if err := k.spend(ctx, &ep, false); err != nil {
		return ep, err
	}
	ep, err := k.begin(ctx, ep, by, now)
	ctx = context.WithoutCancel(ctx)
	if err != nil {
		_ = k.spend(ctx, &ep, true) // where it fails, the tenant gets one challenge fewer in this hour
		return ep, err
	}
	return k.end(ctx, &ep, k.challenge(ctx, &ep, now), by)
}

// begin stores that a challenge begins.
func (k *Keeper) begin(ctx context.Context, ep grapnel.Endpoint, by grapnel.By, now time.Time) (grapnel.Endpoint, error) {
	c := *ep.Consent
	c.Asked, c.AskedAt, c.Next = c.Asked+1, now, time.Time{}
	if c.Asked < k.bounds.Tries {
		c.Next = now.Add(backoff.Steps{First: k.bounds.First, Longest: k.bounds.Longest}.After(c.Asked))
	}
	ep.Consent = &c
	with := store.With{}
	if by.Actor != grapnel.ActorItself {
		with.Audit = entry(&ep, grapnel.VerbTest, grapnel.By{Actor: by.Actor, Reason: cmp.Or(by.Reason, "asked its address for consent")}, now)
	}
	put, err := k.o.Engine.PutEndpoint(ctx, store.Everyone(), ep, with)
	ep.Revision = put.Revision
	return ep, err
}

// end stores the result of a challenge, unless the endpoint waits for no answer of that address any
// more, or a later challenge has begun.
func (k *Keeper) end(ctx context.Context, asked *grapnel.Endpoint, cause string, by grapnel.By) (grapnel.Endpoint, error) {
	for {
		ep, there := k.o.Engine.Endpoint(store.Everyone(), asked.ID)
		if !there {
			return ep, store.ErrNotFound("endpoint")
		}
		if !ep.AwaitsConsent() || !ep.SameAddress(asked) || !ep.Consent.Since.Equal(asked.Consent.Since) ||
			cause != "" && ep.Consent.Asked != asked.Consent.Asked {
			return ep, nil
		}
		c, now := *ep.Consent, k.moment()
		c.Cause = cause
		with := store.With{}
		if cause == "" {
			c.GivenAt, c.Next, ep.UpdatedAt = now, time.Time{}, now
			with.Audit = entry(&ep, grapnel.VerbResume, grapnel.By{Actor: by.Actor, Reason: "its address has consented"}, now)
		}
		ep.Consent = &c
		ep.FollowConsent()
		put, err := k.o.Engine.PutEndpoint(ctx, store.Everyone(), ep, with)
		if grapnel.CodeOf(err) == grapnel.CodeConflict {
			continue // it was changed meanwhile: does the answer still count?
		}
		if err == nil {
			k.o.Log.Info("address asked for consent", "endpoint", ep.ID, "tenant", ep.Tenant, "asked", c.Asked, "consents", cause == "", "cause", cause)
		}
		ep.Revision = put.Revision
		return ep, err
	}
}

// moment is now, as stores have times.
func (k *Keeper) moment() time.Time { return k.now().UTC().Truncate(time.Microsecond) }

func entry(ep *grapnel.Endpoint, verb grapnel.Verb, by grapnel.By, at time.Time) *grapnel.AuditEntry {
	return &grapnel.AuditEntry{At: at, Tenant: ep.Tenant, Actor: by.Actor, Verb: verb, Endpoint: ep.ID, Reason: by.Reason}
}
