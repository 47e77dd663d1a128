package decide

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// Found is the delivery that a change names, as a store has loaded it.
type Found struct {
	Pending *Pending // nil: it is finished or absent

	// Of a finished delivery; an absent one has no status.
	Status         grapnel.Status
	Event, Created int64
	Endpoint       string
}

// Judge says whether a change applies, and begins its result. The caller applies the change, if it
// does, and adds the head of the lane (Next) unless the row is Foreign.
func (f *Found) Judge(c *store.Change) store.Changed {
	d := f.Pending
	switch {
	case d == nil && f.Status == "":
		return store.Changed{}
	case d == nil && !c.Identity.Is(f.Event, f.Endpoint, f.Created), d != nil && !c.Identity.Is(d.Event, d.Endpoint, d.Created):
		return store.Changed{Foreign: true}
	case d == nil:
		return store.Changed{Status: f.Status}
	case c.Expect != d.Attempts && c.Expect != store.AnyAttempts && !(c.Expect == store.OfHead && d.Head) || !c.Yields(d.Token, Moment(d.Due)):
		return store.Changed{Status: grapnel.Pending}
	case c.Status.Final():
		return store.Changed{Applied: true, Status: c.Status}
	}
	return store.Changed{Applied: true, Status: grapnel.Pending}
}

// Apply makes a change of d that applies. attempt says that the change has one. A delivery that the
// change finishes only counts its attempt: its end is the change's Ending.
//
// A delivery behind the head of its lane has no schedule to change; it gets one as the head. A test
// stays a test when an operator asks for its attempt.
func (d *Pending) Apply(c *store.Change, attempt bool) {
	if attempt {
		d.Attempts++
	}
	d.Token = ""
	if c.Status.Final() {
		return
	}
	d.Code, d.Reason = c.ReasonCode, c.Reason
	if d.Trigger.Counts() {
		d.Trigger = c.Trigger
	} else {
		d.Code = grapnel.ReasonTest
	}
	if !d.Head {
		return
	}
	if attempt {
		d.Wide = None
		if c.EndpointWide {
			d.Wide = codec.Micros(c.At)
		}
	}
	if !c.Anchor.IsZero() {
		d.Anchor = codec.Micros(c.Anchor)
	}
	d.Due, d.Blocked = codec.Micros(c.Due), c.Blocked
	if c.Blocked {
		d.Due = None
	}
}

// Ending is the end of the delivery that a change finishes.
func Ending(c *store.Change) store.Ending {
	return store.Ending{Status: c.Status, ReasonCode: c.ReasonCode, Reason: c.Reason, At: c.At, Uncounted: c.Uncounted}
}

// Tried is what the totals count of a change's attempt.
func Tried(c *store.Change) grapnel.Tried {
	a := c.Attempt
	return grapnel.Tried{Class: a.Class, Answered: a.StatusCode > 0, Duration: a.Duration, Again: !c.Status.Final()}
}
