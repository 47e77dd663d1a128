package policy

// Finding is one contradiction or gap.
type Finding struct {
	Code   string `json:"code"`
	Rule   string `json:"rule"`   // the rule that is broken
	Detail string `json:"detail"` // with the figures of this document
}

// Lint compares claims with each other and returns contradictions and gaps, in the order of the
// rules. Claims that are merely unwise are not reported.
func Lint(c Claims) []Finding {
	var findings []Finding
	for _, rules := range [][]rule{scheduleRules(), promiseRules(), replayRules(), receiverRules(), queueRules()} {
		for _, r := range rules {
			for _, detail := range r.check(&c) {
				findings = append(findings, Finding{r.code, r.text, detail})
			}
		}
	}
	return findings
}

// LintCodes lists every code with its meaning.
func LintCodes() [][2]string {
	var codes [][2]string
	for _, rules := range [][]rule{scheduleRules(), promiseRules(), replayRules(), receiverRules(), queueRules()} {
		for _, r := range rules {
			codes = append(codes, [2]string{r.code, r.text})
		}
	}
	return codes
}
