package byhand

import (
	"time"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

// Explain verifies a request as of a time. If it does not verify, Explain undoes the usual changes,
// one at a time and then two, until it does: those are the reasons.
func Explain(v *scheme.Settings, r *scheme.Webhook, now time.Time) (*Report, error) {
	checks, ok, err := v.Check(r, now)
	if err != nil || ok {
		return &Report{Verified: ok, Checks: checks, Reasons: []Reason{}}, err
	}
	report := &Report{Checks: checks}
	start := attempt{verify: *v, request: *r}
	if found := search(start, len(r.Body) <= pairsUpTo); found != nil {
		report.Reasons = append(found.undone, found.clock(now)...)
		return report, nil
	}
	report.Reasons = append([]Reason{start.unknown(checks)}, start.clock(now)...)
	return report, nil
}

func search(a attempt, pairs bool) *attempt {
	if a.verified() {
		return &a // it is the clock alone
	}
	type reached struct {
		attempt
		next int
	}
	var first []reached
	for i, undo := range undoings {
		for _, one := range undo(a) {
			if one.verified() {
				return &one
			}
			first = append(first, reached{one, i + 1})
		}
	}
	for _, one := range first {
		for _, undo := range undoings[one.next:] {
			if !pairs {
				break
			}
			for _, two := range undo(one.attempt) {
				if two.verified() {
					return &two
				}
			}
		}
	}
	return nil
}
