package strict

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel/policy"
)

// Form is the form of a text. A field of a body names its form with the tag `form`, a
// parameter of the query has one. The reader checks the forms and the API's document describes
// them, so the document says exactly what strict checks.
type Form struct {
	Must    string            // what the caller is told about a text of another form
	Pattern *regexp.Regexp    // of the whole text
	Format  string            // in the document
	Example string            // in the document
	Least   int               // characters; of a number its value
	Most    int               // the same; 0: no limit, or that of every string of a body
	Number  bool              // a whole number from least to most, in decimal digits
	Span    []time.Duration   // from, to: a duration between these, both included
	One     []string          // the only texts that are possible
	Check   func(string) bool // what the pattern cannot say; nil: nothing
	Later   bool              // the handler checks it, and says more than must
}

// Forms has the forms that tags name. The form of a field without a form is that of the empty name.
type Forms map[string]Form

// Of is the form that a tag names. A tag that begins with ^ is the pattern of a form by itself.
func (f Forms) Of(tag string) Form {
	if strings.HasPrefix(tag, "^") {
		return Form{Must: "must match " + tag, Pattern: regexp.MustCompile(tag)}
	}
	form, known := f[tag]
	if !known {
		panic("strict: form " + strconv.Quote(tag) + " is unknown") // the zero Form would accept every text
	}
	return form
}

var lasts = regexp.MustCompile(`^(0|` + upTo(4, "d") + upTo(6, "h") + upTo(7, "m") + upTo(9, "s") +
	upTo(12, "ms") + upTo(15, "[uµ]s") + upTo(18, "ns") + `)$`)

// upTo is a part of a duration: some digits and a unit. All parts together stay below the longest
// time.Duration.
func upTo(digits int, unit string) string {
	return fmt.Sprintf(`([0-9]{1,%d}(\.[0-9]{1,9})?%s)?`, digits, unit)
}

// TimeRule is what callers are told about a text that is not a time.
const TimeRule = "must be a time as in 2026-01-31T12:00:00Z"

// Lasting is the form of a duration.
func Lasting(from, to time.Duration, example string) Form {
	return Form{Must: fmt.Sprintf("must be a duration from %s to %s, as in %s", policy.Duration(from), policy.Duration(to), example),
		Pattern: lasts, Least: 1, Span: []time.Duration{from, to}, Example: example}
}

// WholeNumber is the form of a whole number in a query.
func WholeNumber(least, most int) Form {
	return Form{Must: fmt.Sprintf("must be a whole number from %d to %d", least, most), Number: true, Least: least, Most: most}
}

// Fits says whether a text has the form.
func (f *Form) Fits(text string) bool {
	switch {
	case f.Later:
		return true
	case f.Number:
		n, err := strconv.Atoi(text)
		return err == nil && n >= f.Least && n <= f.Most
	case len(f.Span) > 0:
		d, err := policy.ParseDuration(text)
		return err == nil && d >= f.Span[0] && d <= f.Span[1]
	case len(f.One) > 0:
		return slices.Contains(f.One, text)
	case f.Check != nil && !f.Check(text) || f.Pattern != nil && !f.Pattern.MatchString(text):
		return false
	}
	length := utf8.RuneCountInString(text)
	return length >= f.Least && (f.Most == 0 || length <= f.Most)
}

// IsTime says whether a text is a time of the years 1 to 9999, which databases can hold.
func IsTime(text string) bool {
	t, err := ParseTime(text)
	return err == nil && t.Year() >= 1 && t.Year() <= 9999
}

// ParseTime takes a space for a plus sign: one that is not escaped in a query arrives so.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, strings.Replace(text, " ", "+", 1))
	return t.UTC(), err
}
