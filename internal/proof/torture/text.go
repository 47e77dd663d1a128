package torture

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel/internal/base/say"
)

// Paint colours a text by its tone: ok, bad, faint or bold.
type Paint func(tone, text string) string

// Line is one case for people, with its findings below it.
func (r *Result) Line(paint Paint) string {
	var b strings.Builder
	facts := say.Many(len(r.History.Requests), "request", "requests")
	if effects, read := r.Effects(); read {
		facts += "  " + say.Many(effects, "effect", "effects")
	}
	mark, tone := "✓", "ok"
	switch r.Verdict {
	case Failing:
		mark, tone = "✗", "bad"
	case NotJudged:
		mark, tone, facts = "–", "faint", "not judged: "+r.Reason
	}
	fmt.Fprintf(&b, " %s %s %s  %s\n", paint(tone, mark), r.ID, pad(r.Name, 26), facts)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "      %s %s\n", paint("bad", f.Invariant+" broken:"), f.Defect)
		for _, line := range f.Proof {
			fmt.Fprintf(&b, "        %s\n", paint("faint", line))
		}
		fmt.Fprintf(&b, "        %s\n", f.Shown)
		for i, line := range f.Fix {
			fmt.Fprintf(&b, "      %s %s\n", []string{"fix:", "    "}[min(i, 1)], line)
		}
	}
	return b.String()
}

// Summary is the last line: the score and the grade.
func (r *Report) Summary(paint Paint) string {
	text := fmt.Sprintf("score %d/%d", r.Passed, r.Passed+r.Failed)
	if r.Skipped > 0 {
		text += fmt.Sprintf("  (%d not judged)", r.Skipped)
	}
	if r.Grade != "" {
		text += "  grade " + r.Grade
	}
	tone := "ok"
	if r.Failed > 0 {
		tone = "bad"
	}
	return paint(tone, text) + fmt.Sprintf("  %d requests in %v", r.Requests, round(r.Took))
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}
