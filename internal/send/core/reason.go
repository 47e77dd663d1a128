package core

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// ReasonDamaged is the reason for which a delivery with an untrustworthy payload fails.
const ReasonDamaged = "the stored payload is missing, was erased or does not match its checksum, so it can't be sent"

// ReasonErased is the reason for which a delivery ends whose event was erased.
const ReasonErased = "its event was erased before it could be delivered"

func reasonDelivered(attempts int) string {
	if attempts == 1 {
		return "delivered at the first attempt"
	}
	return fmt.Sprintf("delivered at attempt %d", attempts)
}

func reasonRetry(attempts int, in Finished) string {
	return fmt.Sprintf("attempt %d failed: %s", attempts, whatHappened(in))
}

func reasonPermanent(p policy.Progress, in Finished) string {
	return fmt.Sprintf("failed: the policy treats the outcome of attempt %d as permanent: %s", p.Attempts, whatHappened(in))
}

func reasonExhausted(p policy.Progress, s policy.Step, in Finished, now time.Time) string {
	if s.Limited {
		return fmt.Sprintf("the policy limits further attempts after such an answer, attempt %d, %s after the first; last: %s",
			p.Attempts, age(p, now), whatHappened(in))
	}
	if s.Expired {
		return fmt.Sprintf("the next attempt would have been later than the policy allows, %s after the first; last: %s",
			age(p, now), whatHappened(in))
	}
	return fmt.Sprintf("all attempts are used up, %d in %s; last: %s", p.Attempts, age(p, now), whatHappened(in))
}

// reasonExpired is the reason for ending a delivery that its endpoint has held for too long.
func reasonExpired(ep *endpoint, h *head) string {
	waited := fmt.Sprintf("its endpoint held it for longer than the policy's max_age, %s", ep.config.Policy.MaxAge)
	if h.Attempts == 0 {
		waited += "; it was never attempted"
	}
	if cause := ep.gate.standing.Cause; cause != "" {
		waited += "; last: " + cause
	}
	return waited
}

func age(p policy.Progress, now time.Time) time.Duration { return now.Sub(p.Anchor).Round(time.Second) }

// whatHappened describes an attempt's outcome as part of a sentence.
func whatHappened(in Finished) string {
	switch in.Outcome.Wish {
	case policy.WishStop:
		return fmt.Sprintf("the receiver asked to stop this delivery, with %d and webhook-delivery: stop", in.Outcome.Status)
	case policy.WishDisable:
		return fmt.Sprintf("the receiver asked to disable the endpoint, with %d and webhook-delivery: disable", in.Outcome.Status)
	}
	switch in.Outcome.Class {
	case policy.ClassStatus4xx, policy.ClassStatus429, policy.ClassStatus5xx, policy.ClassRedirect:
		return fmt.Sprintf("the endpoint answered %d", in.Outcome.Status)
	}
	if in.Attempt.Error != "" {
		return in.Attempt.Error
	}
	return string(in.Outcome.Class)
}
