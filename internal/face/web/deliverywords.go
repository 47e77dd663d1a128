package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
)

// deliveryVerdict says the reason for the delivery's state, and the next step.
func (v *visit) deliveryVerdict(d *client.Delivery, ep *client.Endpoint, m *deliveryModel) verdict {
	out := verdict{Pieces: []piece{{attemptsSaid(d), ""}}}
	switch {
	case d.Status == grapnel.Delivered:
		out.Pieces = []piece{{"Delivered", toneOK}, {fmt.Sprintf(" at attempt %d, %s.", d.AttemptsMade, deliveredAfter(d)), ""}}
	case d.Status.Final():
		out.Pieces = append(out.Pieces, piece{" " + ended(d), ""})
		out.Next = sentence(d.Reason)
	case d.NextAttemptAt != nil && d.NextAttemptAt.After(v.now):
		out.Pieces = append(out.Pieces, piece{" The next attempt is in " + spoken(d.NextAttemptAt.Sub(v.now)) + ".", ""})
		out.Next = v.plan(d, ep)
	case d.NextAttemptAt != nil:
		out.Pieces = append(out.Pieces, piece{" The next attempt is due now.", ""})
		out.Next = v.plan(d, ep)
	default:
		reason := strings.TrimPrefix(strings.TrimPrefix(d.Reason, "held: "), "pending: ")
		out.Pieces = append(out.Pieces, piece{" " + sentence(reason), ""})
	}
	if n := len(m.Behind); n > 0 {
		number, wait := many(n, "later event", "later events"), "wait"
		if m.More {
			number = "At least " + number
		} else if n == 1 {
			wait = "waits"
		}
		out.Next += fmt.Sprintf(" %s of key %s %s behind this one, in order. Other keys are not affected.", number, d.Key, wait)
	}
	out.Next = strings.TrimSpace(out.Next)
	if d.PurgeAt != nil && d.DaysLeft != nil && d.Status != grapnel.Delivered {
		out.Next += fmt.Sprintf(" Retention deletes it in %s.", many(*d.DaysLeft, "day", "days"))
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
		words.Policy(ep.Policy, ep.PolicyChanges), last.Number, spoken(max(last.At.Sub(v.now), time.Second)))
}

func deliveredAfter(d *client.Delivery) string {
	long, since := "some time", "the event was accepted"
	if d.FinishedAt != nil {
		long = took(d.FinishedAt.Sub(d.CreatedAt))
	}
	if d.ReplayOf != nil {
		since = "this redelivery was created"
	}
	return long + " after " + since
}

// ended is what became of a delivery that was not delivered.
func ended(d *client.Delivery) string {
	switch d.Status {
	case grapnel.Failed:
		switch {
		case d.ReplayResult == grapnel.Delivered:
			return "It failed, and was delivered again with success since."
		case d.DiscardedAt != nil:
			return "It failed, and an operator has put it away."
		}
		return "It failed for good and is stored as a dead letter."
	case grapnel.Skipped:
		return "An operator skipped it."
	case grapnel.Dropped:
		return "It was dropped."
	}
	return "It was discarded."
}

// attemptsSaid is what happened so far: "It answered 503 three times and timed out once."
func attemptsSaid(d *client.Delivery) string {
	if len(d.Attempts) == 0 {
		if d.Status.Final() {
			return "No attempt was made."
		}
		return "Nothing was sent yet."
	}
	var by tally[string]
	for i := range d.Attempts {
		a := &d.Attempts[i]
		said := "ended with: " + result(0, string(a.ErrorClass))
		switch {
		case a.StatusCode != 0:
			said = fmt.Sprintf("answered %d", a.StatusCode)
		case a.ErrorClass == policy.ClassTimeout:
			said = "timed out"
		case a.ErrorClass == policy.ClassConnect:
			said = "refused the connection"
		case a.ErrorClass == policy.ClassReset:
			said = "broke the connection off"
		case a.ErrorClass == policy.ClassDNS:
			said = "could not be found by its name"
		case a.ErrorClass == policy.ClassTLS:
			said = "failed the TLS handshake"
		}
		by.add(said)
	}
	order := by.order
	if len(order) > 3 {
		return fmt.Sprintf("%d attempts ended in %d different ways.", len(d.Attempts), len(order))
	}
	for i, said := range order {
		order[i] = said + times(by.n[said])
	}
	return "The endpoint " + list(order) + "."
}

func times(n int) string {
	words := []string{"", " once", " twice", " three times", " four times", " five times", " six times"}
	if n < len(words) {
		return words[n]
	}
	return fmt.Sprintf(" %d times", n)
}

// plannedClock is the label of a planned attempt, in UTC: as exact as people need.
func plannedClock(now, at time.Time) string {
	switch d := at.Sub(now); {
	case d < time.Hour:
		return at.UTC().Format("15:04:05")
	case d < 20*time.Hour:
		return at.UTC().Format("15:04")
	case d < 6*24*time.Hour:
		return at.UTC().Format("Mon 15:04")
	}
	return at.UTC().Format("2 Jan 15:04")
}
