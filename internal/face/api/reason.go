package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/internal/send/egress"
)

// hidden stands for a value that the caller may not see.
const hidden = "[hidden]"

// situation is everything that a sentence about a delivery depends on.
type situation struct {
	delivery *grapnel.Delivery
	endpoint *grapnel.Endpoint // nil: there is none any more
	health   grapnel.Health
	now      time.Time
	ids      *grapnel.IDs
	payloads bool // the caller may see them
	urgent   bool // a person has just asked for it: a breaker that is open does not hold it
}

// status tells held from pending, which the store keeps as one.
func (s situation) status() grapnel.Status {
	d := s.delivery
	if !d.Status.Final() && (!d.Waiting.Head || d.Waiting.Blocked || s.closed() || s.tripped()) {
		return grapnel.Held
	}
	if d.Status == grapnel.Held {
		return grapnel.Pending
	}
	return d.Status
}

// closed says whether the endpoint takes nothing at present because a person or its policy wants it
// so.
func (s situation) closed() bool {
	return s.endpoint != nil && s.endpoint.Status != grapnel.EndpointEnabled
}

// tripped says whether the endpoint's breaker is open. Then every head is held, due or not, running
// or not: it is what lists find as held, which cannot know more.
func (s situation) tripped() bool {
	return s.endpoint != nil && !s.closed() && !s.urgent && s.health.State == grapnel.HealthOpen
}

// next is the earliest time of the next attempt; zero: unknown.
func (s situation) next() time.Time {
	next := s.scheduled()
	switch {
	case next.IsZero(), s.urgent:
	case s.tripped() && !s.health.NextProbeAt.After(s.now):
		return time.Time{} // it depends on a probe that is on its way or about to be
	case s.tripped():
		return latest(next, s.health.NextProbeAt)
	case s.health.State == grapnel.HealthThrottled:
		return latest(next, s.health.NextAttemptAt)
	}
	return next
}

// scheduled is when the delivery's own schedule has its next attempt, whatever its endpoint is
// like; zero: it has none.
func (s situation) scheduled() time.Time {
	w := s.delivery.Waiting
	if s.delivery.Status.Final() || s.endpoint == nil || s.closed() || !w.Head || w.Blocked {
		return time.Time{}
	}
	return w.Due
}

func latest(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// reason is one true sentence about why the delivery is where it is.
func (s situation) reason() string {
	d := s.delivery
	if d.Status.Final() {
		return s.ended()
	}
	next := s.next()
	number := d.AttemptsMade + 1
	switch {
	case s.endpoint == nil:
		return "pending: its endpoint was deleted; it is about to end as dropped"
	case s.endpoint.Status == grapnel.EndpointPaused:
		return "held: its endpoint is paused" + because(s.endpoint.DisabledReason)
	case s.endpoint.Status == grapnel.EndpointDisabled:
		return "held: its endpoint is disabled" + because(s.endpoint.DisabledReason)
	case !d.Waiting.Head:
		return fmt.Sprintf("held: it waits behind earlier events of the key %q", d.Key) + notBefore(d.Waiting.Anchor, s.now)
	case d.Waiting.Blocked:
		return "held: the policy blocks its key until an operator retries it with success or skips it" + after(d.Reason)
	case d.ReasonCode == grapnel.ReasonLater && d.Waiting.Due.After(s.now):
		return fmt.Sprintf("pending: it waits until %s because its publisher asked for a later time (deliver_at)", clock(d.Waiting.Due))
	case s.tripped():
		return "held: " + explain(s.health, s.now)
	case s.endpoint.Queue != nil && !next.After(s.now):
		return fmt.Sprintf("pending: it waits for a consumer since %s", clock(next)) + after(d.Reason)
	case s.endpoint.Queue != nil:
		return fmt.Sprintf("pending: it can be leased from %s on; until then it is delayed, or a consumer has it", clock(next)) +
			after(d.Reason)
	case next.After(d.Waiting.Due):
		return "pending: " + explain(s.health, s.now)
	case !next.After(s.now) && s.health.State == grapnel.HealthRecovering:
		return fmt.Sprintf("pending: attempt %d has been due since %s; %s", number, clock(next), explain(s.health, s.now))
	case !next.After(s.now):
		return fmt.Sprintf("pending: attempt %d has been due since %s; it is in progress or next in turn",
			number, clock(next)) + after(d.Reason)
	case d.AttemptsMade == 0:
		return "pending: the first attempt is scheduled for " + clock(next)
	}
	return fmt.Sprintf("pending: attempt %d is scheduled for %s", number, clock(next)) + after(d.Reason)
}

// ended is the reason of a final delivery: the one recorded when it ended, or what its status alone
// says.
func (s situation) ended() string {
	d := s.delivery
	switch {
	case d.Reason != "" && d.Status == grapnel.Skipped:
		return "skipped: " + d.Reason // a person's own words
	case !s.payloads && strings.Contains(d.Reason, egress.Bodiless):
		return "failed: " + egress.Bodiless + hidden
	case d.Reason != "":
		return d.Reason
	}
	switch d.Status {
	case grapnel.Delivered:
		return fmt.Sprintf("delivered: attempt %d succeeded", d.AttemptsMade)
	case grapnel.Failed:
		return "failed: " + words.FailedBecause(d.ReasonCode)
	case grapnel.Dropped:
		return "dropped: its endpoint accepted no deliveries when it was due"
	case grapnel.Discarded:
		return "discarded: its attempts are used up and the policy stores no dead letters"
	case grapnel.Skipped:
		return "skipped: an operator acknowledged it"
	}
	return string(d.Status)
}

// notBefore is what the publisher of a delivery behind its key has asked for.
func notBefore(at, now time.Time) string {
	if !at.After(now) {
		return ""
	}
	return ", and then until " + clock(at) + " because its publisher asked for a later time (deliver_at)"
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func after(reason string) string {
	if reason == "" {
		return ""
	}
	return "; " + reason
}
