package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/policy"
)

// search is what the search box asks for, in the words of the API's filter:
//
//	status:failed endpoint:ep_… type:invoice.* key:inv_123 code:5xx error:timeout since:6h "in the body"
//
// A word without a name is an id, or part of the event's data.
type search struct {
	Text   string // as it was typed
	Filter client.DeliveryFilter
	Jump   string // a path to go to: the search is an id
	Faults []string
}

// searchNames are the names that can stand before a colon, in the order of the help.
var searchNames = []string{"status", "endpoint", "type", "key", "code", "error", "reason", "tenant", "since", "from", "to"}

// statusWords are words for statuses besides their own names.
var statusWords = map[string][]grapnel.Status{
	"waiting":  {grapnel.Pending, grapnel.Held},
	"retrying": {grapnel.Pending},
	"dead":     {grapnel.Failed},
	"finished": {grapnel.Delivered, grapnel.Failed, grapnel.Dropped, grapnel.Discarded, grapnel.Skipped},
}

// codeClasses are the error classes that stand for a range of status codes.
var codeClasses = map[string]policy.Class{"3xx": policy.ClassStatus3xx, "4xx": policy.ClassStatus4xx, "5xx": policy.ClassStatus5xx}

// parseSearch reads a search. What it cannot read is named in Faults, and the rest still counts.
func parseSearch(text string, now time.Time) search {
	s := search{Text: strings.TrimSpace(text)}
	var words []string
	for _, t := range tokens(s.Text) {
		if t.name == "" {
			words = append(words, t.value)
			continue
		}
		if fault := s.set(t.name, t.value, now); fault != "" {
			s.Faults = append(s.Faults, fault)
		}
	}
	if len(words) == 1 && s.Text == words[0] {
		s.Jump = jump(words[0])
	}
	if s.Jump == "" {
		s.Filter.Text = strings.Join(words, " ")
	}
	return s
}

// jump is the page of a thing by its id; empty: it is not an id that has a page.
func jump(word string) string {
	for prefix, path := range map[string]string{grapnel.DeliveryPrefix + "_": "/deliveries/", grapnel.EndpointPrefix + "_": "/endpoints/",
		grapnel.EventPrefix + "_": "/events/", grapnel.ReplayPrefix + "_": "/replays/", grapnel.SourcePrefix + "_": "/sources/",
		grapnel.QueuePrefix + "_": "/queues/", grapnel.PolicyPrefix + "_": "/policies/", grapnel.AsidePrefix + "_": "/inbox/"} {
		if strings.HasPrefix(word, prefix) && grapnel.ValidID(word) {
			return path + word
		}
	}
	return ""
}

func (s *search) set(name, value string, now time.Time) (fault string) {
	f := &s.Filter
	if value == "" {
		return fmt.Sprintf("%s: needs a value, such as %s.", name, examples[name])
	}
	switch name {
	case "status":
		for _, word := range strings.Split(value, ",") {
			switch known := statusWords[word]; {
			case known != nil:
				f.Status = append(f.Status, known...)
			case slices.Contains(grapnel.Statuses(), grapnel.Status(word)):
				f.Status = append(f.Status, grapnel.Status(word))
			default:
				return fmt.Sprintf("There is no status %q; try pending, held, delivered, failed, dropped, discarded or skipped.", word)
			}
		}
	case "endpoint":
		f.Endpoint = value
	case "type":
		if !grapnel.ValidPattern(value) {
			return fmt.Sprintf("%q is no event type; a whole segment may be *, as in invoice.*.", value)
		}
		f.Type = value
	case "key":
		f.Key = value
	case "tenant":
		f.Tenant = value
	case "reason":
		f.ReasonCode = grapnel.ReasonCode(value)
	case "error":
		f.ErrorClass = policy.Class(value)
	case "code":
		if class, ok := codeClasses[strings.ToLower(value)]; ok {
			f.ErrorClass = class
			return ""
		}
		code, err := strconv.Atoi(value)
		if err != nil || code < 100 || code > 599 {
			return fmt.Sprintf("%q is no status code; try 503 or 5xx.", value)
		}
		f.StatusCode = code
	case "since":
		d, err := policy.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Sprintf("%q is no duration; try 30m, 6h or 7d.", value)
		}
		f.From = now.Add(-d).Truncate(time.Minute)
	case "from", "to":
		at, err := time.Parse(time.RFC3339, value)
		if err != nil {
			return fmt.Sprintf("%q is no time; try %s.", value, now.UTC().Format("2006-01-02T15:04:05Z"))
		}
		if name == "from" {
			f.From = at
		} else {
			f.To = at
		}
	}
	return ""
}

// examples are values for the help.
var examples = map[string]string{
	"status": "failed", "endpoint": "ep_…", "type": "invoice.*", "key": "inv_123", "code": "5xx", "error": "timeout",
	"reason": "exhausted", "tenant": "acme", "since": "6h", "from": "2026-05-06T08:00:00Z", "to": "2026-05-06T14:00:00Z",
}

// token is a word of a search.
type token struct{ name, value string }

// tokens splits a search at spaces outside quotation marks. A name counts only before an unquoted
// colon, so that "status:failed" in quotation marks is text.
func tokens(text string) (all []token) {
	var word strings.Builder
	name, quoted, inside := "", false, false
	end := func() {
		if word.Len() > 0 || name != "" || quoted {
			if word.Len() > 0 || name != "" {
				all = append(all, token{name, word.String()})
			}
		}
		word.Reset()
		name, quoted = "", false
	}
	for _, c := range text {
		switch {
		case c == '"':
			inside, quoted = !inside, true
		case c == ' ' && !inside:
			end()
		case c == ':' && !inside && !quoted && name == "" && slices.Contains(searchNames, word.String()):
			name = word.String()
			word.Reset()
		default:
			word.WriteRune(c)
		}
	}
	end()
	return all
}

// with is the search with one condition more, in the place of one of the same name.
func (s search) with(name, value string) string {
	var words []string
	for _, t := range tokens(s.Text) {
		if t.name != name {
			words = append(words, t.String())
		}
	}
	if value != "" {
		words = append(words, token{name, value}.String())
	}
	return strings.Join(words, " ")
}

// String writes the word as it would be typed.
func (t token) String() string {
	value := strings.ReplaceAll(t.value, `"`, "")
	if strings.ContainsAny(value, ` :`) && t.name == "" || strings.Contains(value, " ") {
		value = `"` + value + `"`
	}
	if t.name == "" {
		return value
	}
	return t.name + ":" + value
}
