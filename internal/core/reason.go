package core

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// reasonDamaged is why a delivery fails whose payload cannot be trusted any more.
const reasonDamaged = "failed: the stored payload is missing or does not match its checksum, so it can't be sent"

func reasonDelivered(attempts int) string {
	if attempts == 1 {
		return "delivered at the first attempt"
	}
	return fmt.Sprintf("delivered at attempt %d", attempts)
}

func reasonRetry(attempts int, in Finished) string {
	return fmt.Sprintf("attempt %d failed: %s", attempts, whatHappened(in))
}

func reasonFailed(p policy.Progress, s policy.Step, in Finished, now time.Time) string {
	switch {
	case s.Expired:
		return fmt.Sprintf("failed: the next attempt would have been later than the policy allows, %s after the first; last: %s",
			age(p, now), whatHappened(in))
	case s.Exhausted:
		return fmt.Sprintf("failed: all attempts are used up, %d in %s; last: %s", p.Attempts, age(p, now), whatHappened(in))
	}
	return fmt.Sprintf("failed: the policy takes the outcome of attempt %d as permanent: %s", p.Attempts, whatHappened(in))
}

func reasonDiscarded(p policy.Progress, in Finished, now time.Time) string {
	return fmt.Sprintf("discarded: %d attempts in %s did not reach it and the policy keeps no dead letter; last: %s",
		p.Attempts, age(p, now), whatHappened(in))
}

func reasonDisabled(in Finished) string {
	return "a delivery ended with an outcome for which the policy disables: " + whatHappened(in)
}

func age(p policy.Progress, now time.Time) time.Duration { return now.Sub(p.Anchor).Round(time.Second) }

// whatHappened says what an attempt met, for a sentence.
func whatHappened(in Finished) string {
	switch in.Outcome.Class {
	case policy.ClassStatus4xx, policy.ClassStatus429, policy.ClassStatus5xx, policy.ClassRedirect:
		return fmt.Sprintf("the endpoint answered %d", in.Outcome.Status)
	}
	if in.Attempt.Error != "" {
		return in.Attempt.Error
	}
	return string(in.Outcome.Class)
}
