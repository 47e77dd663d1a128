// Package decide says what the writes of a store mean: what a change does to a delivery, and if it
// applies. The stores use it: they load the rows that a decision needs, ask for the decision,
// and write the rows that follow from it.
//
// Every function is pure: it reads and changes nothing but its arguments. It knows no database and
// no clock. Times are microseconds, as in rows. A rule holds only if no other writer changes the
// loaded rows before the store writes them.
//
// It does not promise that a store writes the decided rows; the suite in storetest checks that with
// a model of its own.
package decide

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// None is an absent time; in rows it is NULL.
const None = -1 << 62

// Moment converts a time that may be absent.
func Moment(micros int64) time.Time {
	if micros == None {
		return time.Time{}
	}
	return codec.Moment(micros)
}

// Pending is a pending delivery as decisions read and change it. A store embeds it in its rows.
type Pending struct {
	Seq, Event        int64
	Endpoint          string
	Key               string // of its lane; empty: it has no lane
	Position          int64  // in its lane; 0: it has no lane
	Created, ReplayOf int64
	Due               int64 // None: it is blocked, or behind the head of its lane
	Anchor            int64 // when it became the head of its lane; before: Incoming.NotBefore, None: zero
	Wide              int64 // when the endpoint delayed it (Change.EndpointWide); None: it did not
	Attempts          int
	Head, Blocked     bool
	Trigger           grapnel.Trigger // of the next attempt
	Code              grapnel.ReasonCode
	Reason            string
	Token             string // of its lease, which ends at Due; empty: it has none
}

// Shown is the part of a pending delivery that scheduling needs.
func (d *Pending) Shown() store.Head {
	return store.Head{
		Delivery: d.Seq, Event: d.Event, Endpoint: d.Endpoint, Lane: d.Key, Position: d.Position, Due: Moment(d.Due), Blocked: d.Blocked,
		Attempts: d.Attempts, Anchor: Moment(d.Anchor), Trigger: d.Trigger, CreatedAt: codec.Moment(d.Created),
	}
}

// Enter makes d a new pending delivery, whose schedule begins at notBefore; zero: at once. first
// says that no pending delivery of its lane is before it; the delay applies only then.
func (d *Pending) Enter(first bool, delay time.Duration, notBefore time.Time) {
	d.Due, d.Anchor, d.Wide = None, None, None
	if !notBefore.IsZero() {
		d.Anchor, d.Code = codec.Micros(notBefore), grapnel.ReasonLater
	}
	if !d.Trigger.Counts() {
		d.Code = grapnel.ReasonTest
	}
	if first {
		d.Lead(d.Created, delay)
	}
}

// Lead makes d the head of its lane and starts its policy's clock, but not before d was created,
// even if the clock that finished its predecessor was behind. Its first attempt is not due before
// its NotBefore and the delay. The anchor stays a time of the past: the core takes one in the future
// for that of a clock that was wrong.
func (d *Pending) Lead(at int64, delay time.Duration) {
	notBefore := d.Anchor
	d.Anchor = max(at, d.Created)
	d.Head, d.Blocked, d.Due = true, false, codec.Micros(codec.Moment(max(d.Anchor, notBefore)).Add(delay))
}

// Counts says whether the totals count an attempt that c records, d being as it was before.
func (d *Pending) Counts(c *store.Change) bool { return !c.Uncounted && d.Trigger.Counts() }

// End is how d ends: the end of a test counts nowhere, and its reason code says that it was one.
func (d *Pending) End(e store.Ending) store.Ending {
	if !d.Trigger.Counts() {
		e.ReasonCode, e.Uncounted = grapnel.ReasonTest, true
	}
	return e
}

// Ended is what the totals count of d when it is finished.
func (d *Pending) Ended(e *store.Ending) grapnel.Ended {
	return grapnel.Ended{Status: e.Status, Reason: e.ReasonCode, Attempts: d.Attempts, Took: codec.Took(d.Created, codec.Micros(e.At))}
}
