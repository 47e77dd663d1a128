package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func promiseRules() []rule {
	return []rule{
		{"endings-differ", "exhausted deliveries are said to be deleted, and to be retained", endingsDiffer},
		{"discard-untraced", "exhausted deliveries are discarded: no dead letter, no record", discardUntraced},
		{"notice-unheard", "other endpoints are told, and there may be none", func(c *Claims) []string {
			return when(c.Ending.Notice == "other_endpoints" && c.Ending.Fallback == "",
				"no notice reports a tenant's only endpoint, and the notices themselves can fail")
		}},
		{"success-differs", "an answer is a success and a failure", successDiffers},
		{"permanent-too-wide", "all of 4xx is permanent, although 408, 425 and 429 ask for another try", permanentTooWide},
		{"permanent-silent", "nothing is said about answers that no retry can change, 410 among them", func(c *Claims) []string {
			return when(c.Sender && len(c.Answers.Permanent) == 0 && !slices.Contains(c.Answers.Retried, "4xx"),
				"every answer but "+strings.Join(c.Answers.Success, ", ")+" is treated alike")
		}},
		{"disable-silent", "nothing is said about an endpoint that never answers again", func(c *Claims) []string {
			return when(c.Sender && c.Disable == nil, "it is attempted for ever, event after event")
		}},
		{"timeouts-count", "timeouts are shown as a status of those that disable", timeoutsCount},
		{"dead-never-disabled", "an endpoint that only ever times out or answers 5xx is never disabled", deadNeverDisabled},
		{"unit-unclear", "it is open whether a delivery counts once or with each attempt", unitUnclear},
		{"dropped-inspected", "pending deliveries are dropped, and to be inspected", func(c *Claims) []string {
			d := c.Disable
			return when(
				d != nil && d.Pending == PendingDrop && d.Inspect && !d.Recorded,
				"a dropped delivery needs a status of its own that can be found",
			)
		}},
		{"drop-breaks-order", "dropping pending deliveries leaves holes in an order that is promised", func(c *Claims) []string {
			d := c.Disable
			return when(d != nil && d.Pending == PendingDrop && c.Ordering.Guarantee == "per_key",
				"after the endpoint is enabled again its keys go on behind events that it never got")
		}},
		{"order-until-exhausted", "the order never breaks, and breaks when an event is given up", func(c *Claims) []string {
			o := &c.Ordering
			return when(
				o.Guarantee == "per_key" && o.Never && o.Exhausted == Advance,
				"the next event of the key follows one that was never delivered",
			)
		}},
		{"skip-missing", "a stuck event is to be got out of the way, and there is no call for it", func(c *Claims) []string {
			return when(c.Ordering.Skip != "" && !c.Ordering.SkipAPI, c.Ordering.Skip)
		}},
		{"percentiles-equal", "two percentiles of one latency have the same bound", percentilesEqual},
		{"retention-clock", "it is open whether dead letters are kept from their dispatch or from their death", retentionClock},
		{"retention-short", "records retained from their dispatch are deleted before their last attempt", retentionShort},
	}
}

func endingsDiffer(c *Claims) []string {
	gone := slices.ContainsFunc(c.Ending.Words, func(w string) bool { return w == "abandoned" || w == "discarded" })
	return when(gone && slices.Contains(c.Ending.Words, "dead_letter"), strings.Join(c.Ending.Words, ", "))
}

func discardUntraced(c *Claims) []string {
	words := c.Ending.Words
	lost := slices.Contains(words, string(Discard)) || slices.Contains(words, "discarded")
	kept := slices.Contains(words, string(DeadLetter)) || c.Ending.Recorded
	detail := "and no one is notified"
	if c.Ending.Notice != "" {
		detail = "only " + c.Ending.Notice + " are told"
	}
	return when(lost && !kept, detail)
}

func successDiffers(c *Claims) []string {
	var found []string
	for _, f := range c.Answers.Failures {
		s, ok := parseSpan(f.Status)
		if ok && contains(c.Answers.Success, s.from) {
			found = append(found, fmt.Sprintf("%s is a success, %s with %s a failure", strings.Join(c.Answers.Success, ", "), f.Status, f.With))
		}
	}
	return found
}

func permanentTooWide(c *Claims) []string {
	var missing []string
	for _, status := range []string{"408", "425", "429"} {
		if !slices.Contains(c.Answers.Retried, status) {
			missing = append(missing, status)
		}
	}
	return when(slices.Contains(c.Answers.Permanent, "4xx") && len(missing) > 0, "no exception for "+strings.Join(missing, ", "))
}

func timeoutsCount(c *Claims) []string {
	d, status := c.Disable, c.Answers.TimeoutAs
	if d == nil || status == "" || d.CountsTimeouts != nil {
		return nil
	}
	n, err := strconv.Atoi(status)
	return when(
		err == nil && contains(d.Of, n),
		fmt.Sprintf("a timeout is shown as %s; a slow receiver is disabled if that counts, and the log misleads if not", status),
	)
}

func deadNeverDisabled(c *Claims) []string {
	d := c.Disable
	if d == nil || d.After > 0 {
		return nil
	}
	for _, of := range d.Of {
		if of == "5xx" || of == string(ClassStatus5xx) || of == string(ClassTimeout) || of == string(ClassConnect) {
			return nil
		}
	}
	detail := "only " + strings.Join(d.Of, ", ") + " counts, and no time without success"
	if reach, ok := c.Schedule.reach(); ok {
		detail += fmt.Sprintf("; each of its keys is blocked for %s per event", Duration(reach.Nominal))
	}
	return []string{detail}
}

func unitUnclear(c *Claims) []string {
	d := c.Disable
	if d == nil || d.Consecutive == 0 || d.CountsAttempts != nil {
		return nil
	}
	detail := fmt.Sprintf("%d in a row", d.Consecutive)
	if reach, ok := c.Schedule.reach(); ok && reach.Attempts > 1 {
		detail += fmt.Sprintf(
			" are about %d deliveries if each of the %d attempts counts",
			(d.Consecutive+reach.Attempts-1)/reach.Attempts,
			reach.Attempts,
		)
	}
	return []string{detail}
}

func percentilesEqual(c *Claims) []string {
	var found []string
	for i, a := range c.Latency {
		for _, b := range c.Latency[:i] {
			if a.Of == b.Of && a.Percentile != b.Percentile && a.Within == b.Within {
				found = append(found, fmt.Sprintf("%s: p%g and p%g are both %s", a.Of, b.Percentile, a.Percentile, a.Within))
			}
		}
	}
	return found
}

func retentionClock(c *Claims) []string {
	k := &c.Keeping
	reach, ok := c.Schedule.reach()
	return when(k.DeadLetters > 0 && k.From == "" && ok,
		fmt.Sprintf("kept %s; the last attempt is up to %s after the first", k.DeadLetters, Duration(reach.Nominal)))
}

func retentionShort(c *Claims) []string {
	k := &c.Keeping
	kept := k.DeadLetters
	if kept == 0 {
		kept = k.Log
	}
	reach, ok := c.Schedule.reach()
	return when(k.From == "dispatch" && kept > 0 && ok && kept.Std() <= reach.Nominal,
		fmt.Sprintf("kept %s, the last attempt is %s after the first", kept, Duration(reach.Nominal)))
}
