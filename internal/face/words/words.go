// Package words says states to people: deliveries, failures, issues, causes, the health of
// endpoints, and the verdict of an overview; package say has its numbers and durations. API,
// dashboard and command line use it, so that they say the same about the same fact. It is pure: the
// time is an argument.
//
// It does not escape anything: names of endpoints come from outside.
package words

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

var instant = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z`)

// Instants are the instants of a text as people write them: "23 Nov, 14:45 UTC" for
// 2026-11-23T14:45:29Z.
func Instants(text string) string {
	return instant.ReplaceAllStringFunc(text, func(written string) string {
		at, err := time.Parse(time.RFC3339, written)
		if err != nil {
			return written
		}
		return at.Format("2 Jan, 15:04 UTC")
	})
}

// Sentence begins with a capital, ends with a full stop, and has instants as people write them.
func Sentence(text string) string { return Literal(Instants(text)) }

// Literal begins with a capital and ends with a full stop. Instants stay, as in the example of what
// an input takes.
func Literal(text string) string {
	if text == "" {
		return ""
	}
	_, size := utf8.DecodeRuneInString(text)
	text = strings.ToUpper(text[:size]) + text[size:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}
