package decide

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// Lease is what scheduling does not need of a delivery's lease. Its token is in the delivery, and
// its end is when the delivery is due.
type Lease struct {
	Consumer           string
	Scheduled, Granted int64
}

// Grant leases d, which has no lease.
func (d *Pending) Grant(w *store.Want, now time.Time) Lease {
	l := Lease{w.Consumer, d.Due, codec.Micros(now)}
	d.Token, d.Due = w.Token, codec.Micros(now.Add(w.For))
	return l
}

// Leased is the lease of d, which has one, as consumers see it.
func (d *Pending) Leased(l *Lease) grapnel.Lease {
	return grapnel.Lease{
		Token: d.Token, Queue: d.Endpoint, Consumer: l.Consumer, Delivery: d.Seq, CreatedAt: codec.Moment(d.Created), Anchor: Moment(d.Anchor),
		Event: d.Event, Number: d.Attempts + 1, Trigger: d.Trigger, Scheduled: codec.Moment(l.Scheduled), GrantedAt: codec.Moment(l.Granted),
		Until: Moment(d.Due),
	}
}

// Served are the wants that are not skipped; held is how many leases a consumer has.
func Served(wants []store.Want, held func(consumer string) int) []store.Want {
	more := make(map[string]int)
	return slices.DeleteFunc(slices.Clone(wants), func(w store.Want) bool {
		if w.Most > 0 && held(w.Consumer)+more[w.Consumer] >= w.Most {
			return true
		}
		more[w.Consumer]++
		return false
	})
}

// Heads are a queue's heads as counted up to a limit, by due time; those of leased deliveries are
// included. Over is how many leases have expired.
type Heads struct{ Limit, Due, Later, Blocked, Leased, Over int64 }

// Counts are the counts of a queue with a number of pending deliveries. Deliveries that were not
// counted belong to the kind that reached the limit; otherwise they are behind heads.
func (h *Heads) Counts(pending int64) grapnel.QueueCounts {
	n := grapnel.QueueCounts{Ready: h.Due - h.Over, Leased: h.Leased, Delayed: h.Later - (h.Leased - h.Over), Blocked: h.Blocked}
	rest := pending - n.Ready - n.Leased - n.Delayed - n.Blocked
	switch h.Limit {
	case h.Due:
		n.Ready += rest
	case h.Later:
		n.Delayed += rest
	case h.Blocked:
		n.Blocked += rest
	default:
		n.Waiting = rest
	}
	return n
}

// ErrLeaseOver refuses to extend a lease.
func ErrLeaseOver() error {
	return grapnel.Errorf(grapnel.CodeConflict, "the lease has expired or is settled")
}

// Late says whether the endpoint delayed d to a time after at, and did so before a time.
func (d *Pending) Late(at, before int64) bool {
	return d.Token == "" && d.Due != None && d.Due > at && d.Wide != None && d.Wide < before
}

// MakeDue makes d due.
func (d *Pending) MakeDue(at int64) { d.Due, d.Wide = at, None }
