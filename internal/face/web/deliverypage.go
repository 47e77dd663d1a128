package web

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

func delivery(v *visit, d *client.Delivery) (deliveryModel, error) {
	event, err := optional(v.client.EventOf(v.Context(), d.Tenant, d.EventID))
	if err != nil {
		return deliveryModel{}, err
	}
	var ep *client.Endpoint
	if !isQueue(d.EndpointID) && !isChannel(d.EndpointID) {
		if ep, err = optional(v.client.Endpoint(v.Context(), d.EndpointID)); err != nil {
			return deliveryModel{}, err
		}
	}
	m := deliveryModel{ID: d.ID, Type: d.Type, Pill: pillOf(d), At: v.ownerLink(d.EndpointID), Key: d.Key,
		Endpoint: cmp.Or(d.EndpointName, d.EndpointID)}
	v.title = m.Type + " to " + m.Endpoint
	if d.Key != "" && !d.Status.Final() {
		if err := m.behind(v, d); err != nil {
			return m, err
		}
	}
	m.attempts(v, d)
	m.Verdict = v.deliveryVerdict(d, ep, &m)
	m.timeline(v, d)
	m.messages(v, d, ep)
	m.facts(v, d, event, ep)
	m.tools(v, d, event, ep)
	switch {
	case ep != nil:
		v.offerEdit(&m.Verdict, event, ep.ID)
	case isQueue(d.EndpointID): // which the form does not name
		v.offerEdit(&m.Verdict, event, "")
	}
	m.check(v, d, event)
	m.others(v, d, event)
	return m, m.audit(v, d)
}

// deliveryVerdict says the reason for the delivery's state, and the next step.
func (v *visit) deliveryVerdict(d *client.Delivery, ep *client.Endpoint, m *deliveryModel) verdict {
	out := verdict{Pieces: []piece{{words.Tried(d), ""}}}
	switch {
	case d.Status == grapnel.Delivered:
		out.Pieces = []piece{{"Delivered", toneOK}, {fmt.Sprintf(" at attempt %d, %s.", d.AttemptsMade, words.DeliveredAfter(d)), ""}}
	case d.Status.Final():
		out.Pieces = append(out.Pieces, piece{" " + words.Ended(d), ""})
		out.Next = sentence(d.Reason)
	case d.NextAttemptAt != nil && d.NextAttemptAt.After(v.now):
		out.Pieces = append(out.Pieces, piece{" The next attempt is in " + say.Spoken(d.NextAttemptAt.Sub(v.now)) + ".", ""})
		out.Next = v.plan(d, ep)
	case d.NextAttemptAt != nil:
		out.Pieces = append(out.Pieces, piece{" The next attempt is due now.", ""})
		out.Next = v.plan(d, ep)
	default:
		out.Pieces = append(out.Pieces, piece{" " + whyStuck(d), ""})
	}
	if n := len(m.Behind); n > 0 {
		out.Next += fmt.Sprintf(" %s of key %s %s behind this one, in order. Other keys are not affected.",
			say.AtLeast(n, m.More, "later event", "later events"), d.Key, map[bool]string{true: "waits", false: "wait"}[n == 1 && !m.More])
	}
	out.Next = strings.TrimSpace(out.Next)
	if d.PurgeAt != nil && d.DaysLeft != nil && d.Status != grapnel.Delivered {
		out.Next += " Retention deletes it " + purgedIn(d.DaysLeft) + "."
	}
	offer := func(a act, verb string) { v.offer(&out, "/deliveries/{id}/"+verb, d.ID, a) }
	switch {
	case d.Status == grapnel.Delivered:
		offer(act{Label: "Deliver again", Key: "r"}, "retry")
	case d.Status.Final():
		offer(act{Label: "Deliver again", Main: true, Key: "r"}, "retry")
		if d.Status == grapnel.Failed && d.DiscardedAt == nil {
			offer(act{Label: "Discard"}, "discard")
		}
	default:
		if m.Ahead != "" {
			out.Acts = append(out.Acts, act{Label: "Look at the first one", Href: m.Ahead, Main: true})
		} else if !isQueue(d.EndpointID) {
			offer(act{Label: "Retry now", Main: true, Key: "r"}, "retry")
		}
		offer(act{Label: "Skip", Sure: "It will not be delivered."}, "skip")
	}
	return out
}

// plan says how far the schedule goes on.
func (v *visit) plan(d *client.Delivery, ep *client.Endpoint) string {
	if len(d.Planned) == 0 || ep == nil {
		return ""
	}
	last := d.Planned[len(d.Planned)-1]
	return fmt.Sprintf("The policy is %s. If every attempt fails, number %d is the last one, in %s.",
		words.Policy(ep.Policy, ep.PolicyChanges), last.Number, say.Spoken(max(last.At.Sub(v.now), time.Second)))
}
