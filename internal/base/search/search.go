// Package search reads the search grammar, which the pages' search box, the API's filter= and the
// command line's --filter share:
//
//	status:dead endpoint:acme type:invoice.* key:inv_1 code:5xx reason:exhausted since:6h "a text"
//
// A word with a name before its colon is a condition; the other words are text in the event's data.
// One word without quotation marks (Search.Bare) may be an id, a key, a type or a name instead: the
// API looks which it is.
// A word that cannot be read is a Fault, which names the word and the allowed ones. A
// caller selects nothing while a search has faults: a condition that is misspelt must not select
// everything.
//
// Package search is pure. It knows no endpoint and no source: Filter has them as typed, and One
// finds the id by a name.
package search

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// Search is a search that was read.
type Search struct {
	Text   string // as it was typed, without spaces around it
	Filter Filter
	Bare   string // the only word that is no condition, if it has no quotation marks; Filter.Text is the same
	Faults []Fault
}

// Filter are the conditions of a search; zero values are none.
type Filter struct {
	Status            []grapnel.Status
	Endpoint, Source  string // an id or a name
	Type, Key, Tenant string
	Code              int // of the last attempt; 4: 4xx
	Class             policy.Class
	Reason            grapnel.ReasonCode
	Took              time.Duration // at least, of the last attempt
	Again             bool          // repeats another delivery
	Attempts          *Range        // made so far; nil: any number
	From, To          time.Time
	Text              string
}

// Range are the whole numbers from From to To, both included.
type Range struct{ From, To int }

// Has says whether a number is in the range; a nil range has all.
func (r *Range) Has(n int) bool { return r == nil || r.From <= n && n <= r.To }

// Fault is a word that cannot be read.
type Fault struct{ Word, Says string }

func (f Fault) String() string { return f.Word + ": " + f.Says }

// Examples are values for the help, by name.
var Examples = map[string]string{
	"status": "failed", "endpoint": "ep_…", "source": "stripe", "type": "invoice.*", "key": "inv_123", "code": "5xx", "error": "timeout",
	"reason": "exhausted", "took": "2s", "replayed": "yes", "attempts": ">1", "tenant": "acme", "since": "6h",
	"from": "2026-05-06T08:00:00Z", "to": "2026-05-06T14:00:00Z",
}

const mostAttempts = 1_000_000 // that attempts: compares with

// statusWords are words for statuses besides their own names.
var statusWords = map[string][]grapnel.Status{
	"waiting":  {grapnel.Pending, grapnel.Held},
	"retrying": {grapnel.Pending},
	"dead":     {grapnel.Failed},
	"finished": {grapnel.Delivered, grapnel.Failed, grapnel.Dropped, grapnel.Discarded, grapnel.Skipped},
}

// codeClasses are the error classes that stand for a range of status codes. 4xx has two.
var codeClasses = map[string]policy.Class{"3xx": policy.ClassRedirect, "5xx": policy.ClassStatus5xx}

// Classes are the error classes that an attempt or a lease can end in.
func Classes() []policy.Class {
	return []policy.Class{policy.ClassDNS, policy.ClassConnect, policy.ClassTLS, policy.ClassTimeout, policy.ClassReset,
		policy.ClassProtocol, policy.ClassRedirect, policy.ClassBlocked, policy.ClassStatus3xx, policy.ClassStatus4xx,
		policy.ClassStatus429, policy.ClassStatus5xx, policy.ClassNack, policy.ClassReject, policy.ClassLease, policy.ClassProxy, policy.ClassToken,
		policy.ClassNone}
}

// Reasons are the reasons for which a delivery fails.
func Reasons() []grapnel.ReasonCode {
	return []grapnel.ReasonCode{grapnel.ReasonExhausted, grapnel.ReasonPermanent, grapnel.ReasonRejected, grapnel.ReasonExpired,
		grapnel.ReasonEndpointGone, grapnel.ReasonDamaged, grapnel.ReasonErased}
}

// Values are the words that a name can have, if they are few; else nil.
func Values(name string) (all []string) {
	switch name {
	case "status":
		for _, s := range grapnel.Statuses() {
			all = append(all, string(s))
		}
		return append(all, "dead", "finished", "retrying", "waiting")
	case "error":
		return texts(Classes())
	case "reason":
		return texts(Reasons())
	case "code":
		return []string{"3xx", "4xx", "5xx", "429", "500", "502", "503", "504"}
	case "since":
		return []string{"15m", "1h", "6h", "24h", "7d", "30d"}
	case "took":
		return []string{"500ms", "2s", "10s"}
	case "replayed":
		return []string{"yes"}
	case "attempts":
		return []string{"1", ">1", ">=3"}
	}
	return nil
}

func texts[T ~string](of []T) (all []string) {
	for _, one := range of {
		all = append(all, string(one))
	}
	return all
}

// Parse reads a search. now is what since: is counted from.
func Parse(text string, now time.Time) Search {
	s := Search{Text: strings.TrimSpace(text)}
	var words []string
	seen := map[string]bool{}
	for _, t := range Tokens(s.Text) {
		if t.Name == "" {
			words = append(words, t.Value)
			continue
		}
		says := s.set(t.Name, t.Value, now)
		if seen[t.Name] && says == "" {
			says = "the condition is given twice; give it once"
		}
		if seen[t.Name] = true; says != "" {
			s.Faults = append(s.Faults, Fault{t.String(), says})
		}
	}
	if f := &s.Filter; !f.From.IsZero() && !f.To.IsZero() && f.To.Before(f.From) {
		s.Faults = append(s.Faults, Fault{"to:" + f.To.UTC().Format(time.RFC3339), "must not be before from: or since:"})
	}
	if len(words) == 1 && slices.Contains(strings.Fields(s.Text), words[0]) {
		s.Bare = words[0]
	}
	s.Filter.Text = strings.Join(words, " ")
	return s
}

// set reads one condition and returns the fault of its value.
func (s *Search) set(name, value string, now time.Time) (fault string) {
	f := &s.Filter
	switch {
	case !slices.Contains(Names, name):
		return "unknown name; use " + strings.Join(Names, ", ") + ", or put text into quotation marks"
	case value == "":
		return "needs a value, such as " + name + ":" + Examples[name]
	}
	switch name {
	case "status":
		return f.statuses(value)
	case "endpoint":
		f.Endpoint = value
	case "source":
		f.Source = value
	case "type":
		if !grapnel.ValidPattern(value) {
			return "no event type; a whole segment may be *, as in invoice.*"
		}
		f.Type = value
	case "key":
		f.Key = value
	case "tenant":
		f.Tenant = value
	case "reason":
		if f.Reason = grapnel.ReasonCode(value); !slices.Contains(Reasons(), f.Reason) {
			return "unknown reason; use " + strings.Join(Values("reason"), ", ")
		}
	case "error":
		if f.Class != "" {
			return "cannot be used together with code:"
		}
		if f.Class = policy.Class(value); !slices.Contains(Classes(), f.Class) {
			return "unknown error class; use " + strings.Join(Values("error"), ", ")
		}
	case "code":
		return f.code(value)
	case "took":
		d, err := policy.ParseDuration(value)
		if err != nil || d <= 0 {
			return "no duration; use 500ms, 2s or 1m"
		}
		f.Took = d
	case "replayed":
		if f.Again = value == "yes"; !f.Again {
			return "use replayed:yes"
		}
	case "attempts":
		return f.attempts(value)
	default:
		return f.time(name, value, now)
	}
	return ""
}

func (f *Filter) statuses(value string) (fault string) {
	for word := range strings.SplitSeq(value, ",") {
		switch known := statusWords[word]; {
		case known != nil:
			f.Status = append(f.Status, known...)
		case slices.Contains(grapnel.Statuses(), grapnel.Status(word)):
			f.Status = append(f.Status, grapnel.Status(word))
		default:
			return fmt.Sprintf("unknown status %q; use %s", word, strings.Join(Values("status"), ", "))
		}
	}
	return ""
}

func (f *Filter) attempts(value string) (fault string) {
	digits := strings.TrimLeft(value, "<>=")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > mostAttempts {
		return fmt.Sprintf("no number of attempts; use 1, >1, >=3, <3 or <=3, at most %d", mostAttempts)
	}
	switch sign := strings.TrimSuffix(value, digits); sign {
	case "", "=":
		f.Attempts = &Range{n, n}
	case ">":
		f.Attempts = &Range{n + 1, math.MaxInt}
	case ">=":
		f.Attempts = &Range{n, math.MaxInt}
	case "<":
		f.Attempts = &Range{0, n - 1}
	case "<=":
		f.Attempts = &Range{0, n}
	default:
		return "unknown comparison " + sign + "; use 1, >1, >=3, <3 or <=3"
	}
	return ""
}

func (f *Filter) code(value string) (fault string) {
	if class, ok := codeClasses[strings.ToLower(value)]; ok {
		if f.Class != "" {
			return "cannot be used together with error:"
		}
		f.Class = class
		return ""
	}
	if strings.EqualFold(value, "4xx") {
		f.Code = 4
		return ""
	}
	code, err := strconv.Atoi(value)
	if err != nil || code < 100 || code > 599 {
		return "no status code; use 100 to 599, or 3xx, 4xx, 5xx"
	}
	f.Code = code
	return ""
}

func (f *Filter) time(name, value string, now time.Time) (fault string) {
	if name == "since" {
		d, err := policy.ParseDuration(value)
		if err != nil || d <= 0 {
			return "no duration; use 30m, 6h or 7d"
		}
		f.after(now.Add(-d).Truncate(time.Minute))
		return ""
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return "no time; use " + now.UTC().Format("2006-01-02T15:04:05Z")
	}
	if name == "from" {
		f.after(at)
	} else {
		f.To = at
	}
	return ""
}

// after adds the condition of from: or since:. Of both the later time holds.
func (f *Filter) after(at time.Time) {
	if at.After(f.From) {
		f.From = at
	}
}
