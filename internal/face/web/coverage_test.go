package web

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

// settable are the kinds of objects that the API has settings of, with their forms, the page that
// shows one, and the recorded answer that this page is made from.
func settable() []struct {
	kind    string
	forms   []*blank
	page    string
	answer  string
	element string // where the object is in the answer; empty: it is all of it
} {
	sources := []*blank{sourceBlank(outboxScheme, nil), sourceBlank(brokerScheme, nil)}
	for _, s := range scheme.All() {
		sources = append(sources, sourceBlank(s.Name, &s))
	}
	return []struct {
		kind    string
		forms   []*blank
		page    string
		answer  string
		element string
	}{
		{"endpoint", []*blank{&endpointBlank}, "/endpoints/ep_1", "endpoint", ""},
		{"queue", []*blank{&queueBlank}, "/queues/q_1", "queue", ""},
		{"source", sources, "/sources/src_1", "source", ""},
		{"channel", []*blank{&channelBlank}, "/channels", "channels", "data/0/"},
		{"event type", []*blank{&typeBlank}, "/event-types/typ_1", "event_type", ""},
		{"key", []*blank{&keyBlank}, "/keys", "keys", "data/0/"},
		{"policy", []*blank{&policyBlank}, "/policies/pol_own", "own_policy", ""},
	}
}

// withoutRow are the fields of requests that no form sets, each with the reason.
var withoutRow = map[string]string{
	"endpoint status":       "Pause, Resume and Enable are buttons, which take a reason for the audit",
	"queue status":          "Pause and Resume are buttons, which take a reason for the audit",
	"source status":         "Pause and Resume are buttons",
	"channel status":        "Pause and Resume are buttons",
	"source verify/scheme":  "each scheme has its own form, whose address names it",
	"source verify/secrets": "the form of a rotation takes another secret",
	"policy shape":          "a copy of a preset keeps the preset's; no person sets it",
}

// withoutPlace are the fields that no page shows, each with the reason.
var withoutPlace = map[string]string{
	"endpoint oauth2/client_secret": "it is never shown",
	"endpoint tls/client_key":       "it is never shown",
	"endpoint target/password":      "it is never shown",
	"endpoint tls/client_cert":      "the page says when it ends",
	"endpoint tls/ca":               "the page says whether the endpoint has its own authorities",
	"endpoint secret":               "it is shown once, when it is created; the page says how old it is",
	"endpoint status":               "the verdict is made of the health, which says paused and disabled as well",
	"source verify/scheme":          "the page has the provider's title, which the answer says as well",
	"source verify/secret":          "it is never shown; the page says how old it is",
	"source verify/secrets":         "they are never shown; the page says how old they are",
	"source outbox/dsn":             "it has a password; the page shows the place",
	"source broker/password":        "it is never shown",
	"source tls/client_key":         "it is never shown",
	"source tls/client_cert":        "the page says that the source has one",
	"source tls/ca":                 "the page says whether the source has its own authorities",
	"policy shape":                  "a copy of a preset keeps the preset's",
}

// places are the fields that an answer has elsewhere than the request.
var places = map[string]string{
	"event type schema": "versions/1/schema", "event type example": "versions/1/example", "event type note": "versions/1/note",
	"policy schedule/base": "schedule", "policy schedule/tail": "schedule", "policy disable/of": "disable", "policy schedule/factor": "schedule", "policy schedule/max": "schedule",
	"source verify/secrets": "verify/none", "source verify/secret": "verify/none",
}

// values are two values of the fields whose type does not say which ones are possible.
var values = map[string][2]any{
	"policy schedule/mode":   {"since_previous", "since_first"},
	"policy schedule/delays": {[]any{"0s"}, []any{"0s", "5s"}},
	"policy schedule/tail":   {tabled("stop"), tabled("repeat")},
	"policy max_attempts":    {3, 4},
	"key expires_at":         {"2031-01-01T00:00:00Z", "2032-01-01T00:00:00Z"},
	"policy schedule/base":   {doubling("1s", 2, "1h"), doubling("2s", 2, "1h")},
	"policy schedule/factor": {doubling("1s", 2, "1h"), doubling("1s", 3, "1h")},
	"policy schedule/max":    {doubling("1s", 2, "1h"), doubling("1s", 2, "10s")},
	"policy jitter":          {0.1, 0.2},
	"policy success":         {[]any{"2xx"}, []any{"200"}},
	"policy classify":        {map[string]any{"410": "disable"}, map[string]any{"410": "fail"}},
	"policy limits": {[]any{map[string]any{"codes": []any{"422"}, "attempts": 2, "within": "1m"}},
		[]any{map[string]any{"codes": []any{"422"}, "attempts": 3, "within": "1m"}}},
	"policy retry_after":     {"extend", "ignore"},
	"policy on_exhausted":    {"dead_letter", "discard"},
	"policy then":            {"advance", "block"},
	"policy disable/of":      {map[string]any{"consecutive": 3, "of": "status_4xx"}, map[string]any{"consecutive": 3, "of": "timeout"}},
	"policy disable/pending": {"hold", "drop"},
	"policy breaker":         {map[string]any{"failures": 3}, map[string]any{"failures": 4}},
}

func tabled(tail string) any {
	return map[string]any{"mode": "since_previous", "delays": []any{"0s", "5s"}, "tail": tail}
}

func doubling(base string, factor int, most string) any {
	return map[string]any{"mode": "exponential", "base": base, "factor": factor, "max": most}
}

// TestFormsCoverTheAPI: every field that the API takes has a row in a form, or is in withoutRow.
func TestFormsCoverTheAPI(t *testing.T) {
	used := map[string]bool{}
	for _, s := range settable() {
		for _, field := range leaves(s.forms[0].of, "", s.forms) {
			where := s.kind + " " + field
			has := slices.ContainsFunc(s.forms, func(b *blank) bool { return b.has(field) })
			if why := withoutRow[where]; !has && why == "" {
				t.Errorf("%s: no row of a form sets %s: add one to its blank, or to withoutRow with the reason", s.kind, field)
			} else if why != "" {
				if used[where] = true; has {
					t.Errorf("%s has a row: take it out of withoutRow", where)
				}
			}
		}
	}
	for where := range withoutRow {
		if !used[where] {
			t.Errorf("withoutRow names %s, which no request has", where)
		}
	}
}

func (b *blank) has(field string) bool {
	return slices.ContainsFunc(b.rows, func(in input) bool { return in.at == field })
}

// leaves are the fields of a request, with those of its parts as "part/field". A part that a row
// sets as a whole is one field.
func leaves(of reflect.Type, prefix string, forms []*blank) (all []string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		at, inner := prefix+name, f.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		whole := slices.ContainsFunc(forms, func(b *blank) bool { return b.has(at) })
		var parts []string
		if inner.Kind() == reflect.Struct && !whole {
			parts = leaves(inner, at+"/", forms)
		}
		if len(parts) == 0 {
			parts = []string{at}
		}
		all = append(all, parts...)
	}
	return all
}

var ofThisVisit = regexp.MustCompile(`name="(token|once|was)" value="[^"]*"`)

// TestPagesShowEverySetting: with another value of a setting the page of the thing is another.
func TestPagesShowEverySetting(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	draw := func(target string) string {
		w := s.ask("GET", target, nil)
		if w.Code != http.StatusOK {
			t.Errorf("%s: answered %d", target, w.Code)
		}
		return ofThisVisit.ReplaceAllString(w.Body.String(), "")
	}
	used := map[string]bool{}
	for _, kind := range settable() {
		for _, field := range leaves(kind.forms[0].of, "", kind.forms) {
			where := kind.kind + " " + field
			m, known := member(kind.forms[0].of, field)
			if !known {
				t.Fatalf("%s is no field", where)
			}
			at := kind.element + field
			if other := places[where]; other != "" {
				at = other
			}
			pair, has := values[where]
			if !has {
				pair = [2]any{another(m, 0), another(m, 1)}
			}
			seen := map[string]bool{}
			for n := range 2 { // one of two values may be the recorded one
				s.api.edit = func(name string, answer any) any {
					if name == kind.answer {
						put(answer, strings.Split(at, "/"), pair[n])
					}
					return answer
				}
				seen[draw(kind.page)] = true
			}
			s.api.edit = nil
			why := withoutPlace[where]
			if used[where] = true; len(seen) == 1 && why == "" {
				t.Errorf("%s does not show %s: it is the same page with %v and %v", kind.page, where, pair[0], pair[1])
			} else if len(seen) > 1 && why != "" {
				t.Errorf("%s shows %s: take it out of withoutPlace", kind.page, where)
			}
		}
	}
	for where := range withoutPlace {
		if !used[where] {
			t.Errorf("withoutPlace names %s, which no request has", where)
		}
	}
}

// put sets a value inside an answer, and makes the parts that it lacks.
func put(answer any, path []string, value any) {
	for len(path) > 1 {
		switch in := answer.(type) {
		case []any:
			i, _ := strconv.Atoi(path[0])
			answer = in[i]
		case map[string]any:
			if in[path[0]] == nil {
				in[path[0]] = map[string]any{}
			}
			answer = in[path[0]]
		}
		path = path[1:]
	}
	if in, is := answer.(map[string]any); is {
		in[path[0]] = value
	}
}

// another is one of two values of a field.
func another(f reflect.StructField, n int) any {
	of := f.Type
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	one := fmt.Sprint("other-", n)
	if enum := f.Tag.Get("enum"); enum != "" {
		words := strings.Split(enum, ",")
		one = words[n%len(words)]
	}
	switch {
	case of == rawType:
		return map[string]any{"type": "object", "title": one}
	case of == durationType:
		return fmt.Sprint(17+n, "s")
	case of.Kind() == reflect.Bool:
		return n == 0
	case of.Kind() == reflect.Slice:
		return []any{one}
	case of.Kind() == reflect.Map:
		return map[string]any{one: "x"} // the values of headers may be secrets
	case of.Kind() == reflect.String || of.Kind() == reflect.Interface:
		return one
	default:
		return 17 + n
	}
}
