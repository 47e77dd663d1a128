package policy

import (
	"fmt"
	"slices"
	"strings"
)

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

// BreakerRules is the breaker in force. Its Off says that there is none.
func (p *Policy) BreakerRules() Breaker {
	if p.Breaker == nil {
		return DefaultBreaker()
	}
	return *p.Breaker
}
