package core

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// Changes of a queue's deliveries without an attempt, because no consumer has settled the lease.
// Settle handles a consumer's answer, and the expiry of a lease.

// GiveBack undoes a lease that reached no consumer: the delivery is pending as before, and no
// attempt counts.
func GiveBack(ep *grapnel.Endpoint, l grapnel.Lease, now time.Time) Change {
	ch := store.Change{Status: grapnel.Pending, Due: l.Scheduled, Trigger: l.Trigger, At: now,
		Reason: "returned: its consumer did not get it"}
	return ended(ep, l, ch, nil)
}

// Damaged ends the delivery of a lease whose payload cannot be handed out, now or ever.
func Damaged(ep *grapnel.Endpoint, l grapnel.Lease, now time.Time) Change {
	ch := store.Change{Status: grapnel.Failed, ReasonCode: grapnel.ReasonPermanent, Reason: "failed: " + ReasonDamaged, At: now}
	return ended(ep, l, ch, []News{{Type: grapnel.EventDeliveryFailed, Reason: "failed: " + ReasonDamaged}})
}

// Erased ends the delivery of a lease whose event was erased.
func Erased(ep *grapnel.Endpoint, l grapnel.Lease, now time.Time) Change {
	return ended(ep, l, erased(now, store.Change{}), nil)
}

// Outlived ends the delivery of a lease that should not have been granted: the delivery is older
// than the policy allows.
func Outlived(ep *grapnel.Endpoint, l grapnel.Lease, now time.Time) Change {
	ch, news := spent(ep, grapnel.ReasonExpired, reasonOutlived(ep, l.Number-1), now)
	return ended(ep, l, ch, news)
}

// Expired ends a delivery that was pending in its queue for longer than the policy allows.
func Expired(ep *grapnel.Endpoint, h store.Head, now time.Time) Change {
	ch, news := spent(ep, grapnel.ReasonExpired, reasonOutlived(ep, h.Attempts), now)
	return changed(ep, &h, ch, news, Named{})
}

// Ahead says whether a clock that was ahead and has been set right has planned a queue's delivery.
func Ahead(now time.Time, h store.Head) bool { return !h.Blocked && ahead(now, &h) }

// Recalled makes such a delivery due.
func Recalled(ep *grapnel.Endpoint, h store.Head, now time.Time) Change {
	ch := store.Change{Status: grapnel.Pending, Due: now, Anchor: now, Trigger: h.Trigger, At: now,
		Reason: "due now; it was planned by a clock that was ahead"}
	return changed(ep, &h, ch, nil, Named{})
}

// Overdue says whether a delivery that has been pending in a queue since anchor has to end: it may
// be leased until max_age has passed. An attempt that an operator asked for has no age.
func Overdue(p *policy.Policy, trigger grapnel.Trigger, anchor, now time.Time) bool {
	return p.MaxAge > 0 && !Ageless(trigger) && now.After(anchor.Add(p.MaxAge.Std()))
}

// Ageless says whether a delivery never becomes too old, because an operator has asked for its next
// attempt.
func Ageless(trigger grapnel.Trigger) bool {
	return trigger == grapnel.TriggerManual || trigger == grapnel.TriggerTest
}

// ended is a change that ends a lease without an attempt.
func ended(ep *grapnel.Endpoint, l grapnel.Lease, ch store.Change, news []News) Change {
	h := leased(ep, l)
	ch.Lease = &store.Settlement{Token: l.Token}
	return changed(ep, &h, ch, news, Named{})
}

func reasonOutlived(ep *grapnel.Endpoint, attempts int) string {
	waited := fmt.Sprintf("not settled within the policy's max_age, %s", ep.Policy.MaxAge)
	if attempts == 0 {
		waited += "; it was never leased"
	}
	return waited
}
