package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Limit narrows max_attempts and max_age after an answer with one of its codes. All attempts of a
// delivery count, whatever they were answered: a limit says how much longer such an answer is worth
// another try, not how often it was heard.
type Limit struct {
	Codes    []string `json:"codes"` // statuses and error classes, as in Classify
	Attempts int      `json:"attempts"`
	Within   Duration `json:"within,omitempty"` // of the first attempt; 0: no limit
}

// covers says whether the limit applies after an outcome.
func (l *Limit) covers(o Outcome) bool {
	return o.Status > 0 && o.complete() && contains(l.Codes, o.Status) || slices.Contains(l.Codes, string(o.Class))
}

// String says the limit: "400, 422: 3 attempts within 10m".
func (l Limit) String() string {
	text := fmt.Sprintf("%s: %d attempts", strings.Join(l.Codes, ", "), l.Attempts)
	if l.Attempts == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	if l.Within > 0 {
		text += " within " + l.Within.String()
	}
	return text
}

// outcome is one that the limit covers, for tables.
func (l *Limit) outcome() Outcome {
	if s, isStatus := parseSpan(l.Codes[0]); isStatus {
		return Outcome{Status: s.from, Class: ClassStatus4xx}
	}
	return Outcome{Class: Class(l.Codes[0])}
}

// under is the policy as its limits narrow it after an outcome.
func (p *Policy) under(o Outcome) (narrowed *Policy, limited bool) {
	narrowed = p
	for i := range p.Limits {
		l := &p.Limits[i]
		if !l.covers(o) {
			continue
		}
		if !limited {
			clone := *p
			narrowed, limited = &clone, true
		}
		narrowed.MaxAttempts = least(narrowed.MaxAttempts, l.Attempts)
		narrowed.MaxAge = least(narrowed.MaxAge, l.Within)
	}
	return narrowed, limited
}

// least is the smaller of two limits, of which 0 is none.
func least[T int | Duration](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
