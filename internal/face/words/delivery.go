package words

import (
	"cmp"
	"fmt"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/wire"
)

// Delivery is the state of a delivery. A pending one that was attempted is being retried.
func Delivery(status grapnel.Status, attempts int) Pill {
	switch status {
	case grapnel.Delivered:
		return Pill{OK, "delivered"}
	case grapnel.Failed:
		return Pill{Bad, "failed"}
	case grapnel.Held:
		return Pill{Hold, "held"}
	case grapnel.Pending:
		if attempts > 0 {
			return Pill{Wait, "retrying"}
		}
		return Pill{Wait, "pending"}
	}
	return Pill{None, string(status)}
}

// DeliveredAfter is how long a delivery took, and since when.
func DeliveredAfter(d *wire.Delivery) string {
	long, since := "some time", "the event was accepted"
	if d.FinishedAt != nil {
		long = say.Took(d.FinishedAt.Sub(d.CreatedAt))
	}
	if d.ReplayOf != nil {
		since = "this redelivery was created"
	}
	return long + " after " + since
}

// Ended is what became of a delivery that was not delivered.
func Ended(d *wire.Delivery) string {
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

// reasons are why deliveries failed: in a list, and as a sentence ends.
var reasons = map[grapnel.ReasonCode]struct{ short, long string }{
	grapnel.ReasonNone:         {"unknown reason", "no reason was recorded"},
	grapnel.ReasonExhausted:    {"attempts used up", "its attempts are used up"},
	grapnel.ReasonPermanent:    {"permanent error", "the policy treats its outcome as permanent"},
	grapnel.ReasonRejected:     {"rejected by the receiver", "its receiver rejected it"},
	grapnel.ReasonExpired:      {"expired", "the next attempt would have been later than the policy allows"},
	grapnel.ReasonEndpointGone: {"endpoint deleted", "its endpoint was deleted"},
	grapnel.ReasonDamaged:      {"outcome not recorded", "the store refused the record of its last outcome"},
	grapnel.ReasonErased:       {"event erased", "its event was erased before it could be delivered"},
}

// Reason is why a delivery failed, in a list: "attempts used up".
func Reason(code grapnel.ReasonCode) string { return cmp.Or(reasons[code].short, string(code)) }

// FailedBecause is why a delivery failed, as a sentence ends: "its attempts are used up".
func FailedBecause(code grapnel.ReasonCode) string { return reasons[code].long }

// Tried is what happened to a delivery so far: "It answered 503 three times and timed out once."
func Tried(d *wire.Delivery) string {
	switch {
	case len(d.Attempts) == 0 && d.Status.Final():
		return "No attempt was made."
	case len(d.Attempts) == 0:
		return "Nothing was sent yet."
	}
	var ways []string
	times := map[string]int{}
	for i := range d.Attempts {
		way := Did(d.Attempts[i].StatusCode, d.Attempts[i].ErrorClass)
		if times[way]++; times[way] == 1 {
			ways = append(ways, way)
		}
	}
	if len(ways) > 3 {
		return fmt.Sprintf("%d attempts ended in %d different ways.", len(d.Attempts), len(ways))
	}
	for i, way := range ways {
		ways[i] += " " + say.Times(times[way])
	}
	return "The endpoint " + say.List(ways) + "."
}
