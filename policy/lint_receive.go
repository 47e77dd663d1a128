package policy

import (
	"fmt"
	"slices"
	"strings"
)

func replayRules() []rule {
	return []rule{
		{"replay-payload", "a replay sends the frozen payload, and one that the caller gives", func(c *Claims) []string {
			return when(slices.Contains(c.Replay.Payload, "frozen") && slices.Contains(c.Replay.Payload, "caller"),
				strings.Join(c.Replay.Payload, ", "))
		}},
		{"replay-order-silent", "nothing is said about the order of replayed deliveries", func(c *Claims) []string {
			return when(c.Sender && c.Replay.Offered && c.Replay.Order == "", "neither among themselves nor against new events")
		}},
		{"replay-twice", "a replay can run twice at the same time", replayTwice},
		{"credentials-kept", "headers are stored with the credentials and signatures in them", func(c *Claims) []string {
			return when(c.Replay.Headers == "all", "authorization, cookies and signatures included")
		}},
		{"paths-differ", "paths are written in two styles", pathsDiffer},
	}
}

func replayTwice(c *Claims) []string {
	work, claim := slices.Index(c.Replay.Steps, "work"), slices.Index(c.Replay.Steps, "claim")
	return when(work >= 0 && (claim < 0 || claim > work), "nothing claims the entry before the work: "+strings.Join(c.Replay.Steps, ", "))
}

func pathsDiffer(c *Claims) []string {
	braces := slices.ContainsFunc(c.Replay.Routes, func(r string) bool { return strings.Contains(r, "/{") })
	colons := slices.ContainsFunc(c.Replay.Routes, func(r string) bool { return strings.Contains(r, "/:") })
	return when(braces && colons, strings.Join(c.Replay.Routes, ", "))
}

func receiverRules() []rule {
	return []rule{
		{"ack-before-work", "the answer is sent before the event is safe; a crash in between loses it", each(ackBeforeWork)},
		{"check-then-record", "two copies that arrive together both pass the check", each(func(r *ReceiveClaims) (bool, string) {
			return r.step("check") >= 0 && r.step("record") > r.step("check") && !r.Atomic, strings.Join(r.Steps, ", ")
		})},
		{
			"record-before-work",
			"the event is marked before its work is done; a failure in between hides it from its retries",
			each(recordBeforeWork),
		},
		{"work-before-record", "a crash between the work and its record repeats the work", each(func(r *ReceiveClaims) (bool, string) {
			return r.step("work") >= 0 && r.recorded() > r.step("work") && !r.Atomic, strings.Join(r.Steps, ", ")
		})},
		{"dedupe-too-short", "duplicates are forgotten while retries still come", dedupeTooShort},
		{"cleanup-differs", "records are not kept as long as they are looked for", each(cleanupDiffers)},
		{"windows-differ", "duplicates are remembered for different times", windowsDiffer},
		{"stuck-records", "records in other states are never cleaned up", each(func(r *ReceiveClaims) (bool, string) {
			return r.Cleans != "" && r.Cleans != "all", "only " + r.Cleans + " ones are"
		})},
		{"conflict-is-error", "a duplicate becomes an error, an error a retry", each(func(r *ReceiveClaims) (bool, string) {
			return r.Conflict == "error", ""
		})},
		{"key-per-delivery", "the id of a delivery is used as that of the event", each(func(r *ReceiveClaims) (bool, string) {
			return r.KeyIs == "delivery", r.Key
		})},
		{"hash-partial", "the content key does not cover the content, so different events are taken for one",
			each(func(r *ReceiveClaims) (bool, string) {
				return r.Covers != "" && r.Covers != "all", "it covers " + r.Covers + " only"
			})},
		{"retry-count-differs", "one header has two defaults, and no sender has to send it", retryCountDiffers},
		{"rank-of-finals", "of two statuses that both end the matter one overrules the other", rankOfFinals},
		{"equal-times-dropped", "of two events with the same timestamp the second is dropped", func(c *Claims) []string {
			return when(c.Ordering.Newer == "strict", "only newer events are applied")
		}},
	}
}

// each applies a check to every recommended way to receive.
func each(check func(r *ReceiveClaims) (found bool, detail string)) func(c *Claims) []string {
	return func(c *Claims) []string {
		var found []string
		for i := range c.Receive {
			if ok, detail := check(&c.Receive[i]); ok {
				found = append(found, strings.TrimSuffix(c.Receive[i].Name+": "+detail, ": "))
			}
		}
		return found
	}
}

func (r *ReceiveClaims) step(name string) int { return slices.Index(r.Steps, name) }

// recorded is the step in which the event is marked as received.
func (r *ReceiveClaims) recorded() int { return max(r.step("record"), r.step("claim")) }

func ackBeforeWork(r *ReceiveClaims) (bool, string) {
	ack, safe := r.step("ack"), r.step("store")
	if safe < 0 {
		safe = r.step("work")
	}
	return ack >= 0 && safe > ack, strings.Join(r.Steps, ", ")
}

func recordBeforeWork(r *ReceiveClaims) (bool, string) {
	found := r.recorded() >= 0 && r.step("work") > r.recorded() && !r.Atomic
	if r.Forgets {
		return found, "the record is removed after an error, not after a crash"
	}
	return found, "the record stays after an error and after a crash"
}

func dedupeTooShort(c *Claims) []string {
	reach, ok := c.Schedule.reach()
	if !ok {
		return nil
	}
	last := max(c.Schedule.Longest, Duration(reach.Nominal))
	return each(func(r *ReceiveClaims) (bool, string) {
		return r.Window > 0 && r.Window < last,
			fmt.Sprintf("remembered for %s, the last retry comes up to %s after the first attempt by its schedule, later if the endpoint was away",
				r.Window, last)
	})(c)
}

func cleanupDiffers(r *ReceiveClaims) (bool, string) {
	if r.Window == 0 || r.Cleanup == 0 || r.Window == r.Cleanup {
		return false, ""
	}
	if r.Cleanup < r.Window {
		return true, fmt.Sprintf("deleted after %s, looked for within %s", r.Cleanup, r.Window)
	}
	return true, fmt.Sprintf("kept %s, %.1f times as long as the %s they are used", r.Cleanup, float64(r.Cleanup)/float64(r.Window), r.Window)
}

func windowsDiffer(c *Claims) []string {
	var windows []string
	for _, r := range c.Receive {
		if w := r.Window.String(); r.Window > 0 && !slices.Contains(windows, w) {
			windows = append(windows, w)
		}
	}
	return when(len(windows) > 1, strings.Join(windows, ", "))
}

func retryCountDiffers(c *Claims) []string {
	var defaults []int
	for _, r := range c.Receive {
		defaults = append(defaults, r.Defaults...)
	}
	slices.Sort(defaults)
	defaults = slices.Compact(defaults)
	return when(len(defaults) > 1, fmt.Sprintf("its defaults are %v", defaults))
}

func rankOfFinals(c *Claims) []string {
	o := &c.Ordering
	var finals []string
	for _, status := range o.Rank {
		if slices.Contains(o.Finals, status) {
			finals = append(finals, status)
		}
	}
	if len(finals) < 2 {
		return nil
	}
	low, high := finals[0], finals[len(finals)-1]
	return []string{fmt.Sprintf("a late %s overwrites %s, a late %s is ignored after %s", high, low, low, high)}
}
