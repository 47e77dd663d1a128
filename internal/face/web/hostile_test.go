package web

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	grammar "github.com/grapnelhq/grapnel/internal/base/search"
)

// polyglot breaks out of text, attributes, URLs, scripts, styles and comments, wherever one of them
// forgets to escape.
const polyglot = "jaVasCript:/*-/*`/*\\`/*'/*\"/**/(/* */oNcliCk=alert() )//%0D%0A%0d%0a//</stYle/</titLe/</teXtarEa/</scRipt/--!>\\x3csVg/<sVg/oNloAd=alert()//>\\x3e {{.}} ${1} \u202e\u2066"

// hostile puts the polyglot into every text of an answer, except times, durations, and the words
// that programs switch on. Names of headers and the like get it too.
func hostile(answer any) any {
	switch a := answer.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range a {
			switch name {
			case "state", "decision", "trigger", "bucket", "ordering", "schedule", "jitter", "classify", "retry_after", "on_exhausted", "then", "disable", "breaker":
				out[name] = value
			case "request_headers", "response_headers", "headers", "metadata":
				out[name] = map[string]any{polyglot: polyglot, "x-header": polyglot}
				if list, ok := value.([]any); ok { // of a request to a source: names and values
					out[name] = hostile(list)
				}
			case "data":
				if list, ok := value.([]any); ok {
					out[name] = hostile(list)
				} else {
					out[name] = map[string]any{polyglot: polyglot}
				}
			case "policy":
				out[name] = polyglot
			default:
				out[name] = hostile(value)
			}
		}
		return out
	case []any:
		for i := range a {
			a[i] = hostile(a[i])
		}
		return a
	case string:
		if _, err := time.Parse(time.RFC3339Nano, a); err == nil {
			return a
		}
		if _, err := time.ParseDuration(a); err == nil {
			return a
		}
		return polyglot
	case nil:
		return nil
	}
	return answer
}

// plainForms are pages that show nothing of what the API answers.
var plainForms = []string{"/event-types/new", "/keys/new", "/sources/new", "/policies/new", "/incidents/new", "/channels/new", "/contacts/new", "/customers/acme/portal", "/customers/acme/brand"}

// TestHostileText: text from outside is text on every page, wherever it stands. The policy would
// stop a script; this holds that there is none to stop.
func TestHostileText(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	s.api.edit = func(_ string, answer any) any {
		h, ok := hostile(answer).(map[string]any)
		if !ok {
			return answer
		}
		for _, name := range []string{"key", "note", "error", "disabled_reason", "filter", "source", "transform", "replay_of", "replayed_as", "reason"} {
			if _, has := h[name]; has {
				h[name] = polyglot
			}
		}
		return h
	}
	s.web.Dev.Coach = &story{scene: Scene{
		Asked: true, Refuser: polyglot, KeyFile: polyglot, Program: polyglot, Steps: []Step{{polyglot, polyglot, false}},
	}}
	seen, own := 0, targets()
	pages := slices.Clone(own)
	for _, name := range grammar.Names {
		for _, path := range []string{"/deliveries?", "/dead-letters?", "/events?", "/replays/new?"} {
			pages = append(pages, path+url.Values{"q": {name + ":" + polyglot}}.Encode())
		}
	}
	hostileIDs := url.Values{"id": {polyglot, "x"}, "endpoint": {polyglot}, "source": {polyglot}, "tenant": {polyglot}}.Encode()
	for _, path := range []string{"/replays?", "/replays/new?", "/events?", "/events/evt_1?", "/replays/rpl_1?"} {
		pages = append(pages, path+hostileIDs)
	}
	pages = append(pages, "/deliveries?"+url.Values{"q": {polyglot}, "cursor": {polyglot}}.Encode(), "/login/once?code="+url.QueryEscape(polyglot), "/login?next="+url.QueryEscape(polyglot),
		"/deliveries/"+url.PathEscape(polyglot), "/deliveries/dlv_1?attempt="+url.QueryEscape(polyglot))
	for _, target := range pages {
		w := s.ask("GET", target, nil)
		body := w.Body.String()
		if slices.Contains(plainForms, target) && w.Code == http.StatusOK {
			continue
		}
		if slices.Contains(own, target) && (w.Code != http.StatusOK || !strings.Contains(body, "oNloAd")) {
			t.Errorf("%s: answered %d without the text", target, w.Code)
		}
		seen += strings.Count(body, "oNloAd")
		for _, fault := range faults(body) {
			t.Errorf("%s: %s", target, fault)
		}
	}
	if seen < 100 {
		t.Errorf("the text was seen %d times only: the pages do not show it", seen)
	}
	for _, target := range own { // errors say what the API says
		s.api.status = map[string]int{"delivery": 422, "endpoints": 422, "endpoint": 422, "deliveries": 422}
		for _, fault := range faults(s.ask("GET", target, nil).Body.String()) {
			t.Errorf("%s, refused: %s", target, fault)
		}
	}
}

var (
	tags      = regexp.MustCompile(`(?s)<(/?)([a-zA-Z][^\s/>]*)((?:[^>"']|"[^"]*"|'[^']*')*)>`)
	attribute = regexp.MustCompile(`(?s)([^\s=/>"']+)(?:="([^"]*)")?`)
)

// knownTags and knownAttributes are those that the templates and pictures have.
var (
	knownTags = strings.Fields("html head meta title link script body a div nav details summary span p b br form fieldset legend label input button main dialog " +
		"h1 h2 dl dt dd kbd table thead tbody tr th td time section pre code ol ul li footer small svg path g rect circle line polyline text i !doctype " +
		"select option textarea")
	knownAttributes = strings.Fields("lang data-theme data-times data-locale data-base data-tenant charset name content rel type href src defer class id tabindex role aria-label aria-hidden " +
		"aria-live aria-current data-count data-go data-act data-js data-nojs data-keep data-plain data-live data-copy data-key data-once data-sure data-row data-relative data-clock title method " +
		"action value checked placeholder autocomplete spellcheck maxlength autofocus required for hidden scope datetime width height viewbox preserveaspectratio " +
		"formaction data-search data-from data-step data-two inputmode points d x y x1 x2 y1 y2 cx cy r rx fill stroke stroke-width stroke-linecap stroke-linejoin text-anchor " +
		"selected rows aria-describedby aria-invalid data-preview")
)

// faults finds what no template has: other elements, other attributes, addresses that are no paths.
func faults(body string) (all []string) {
	var rest strings.Builder
	seen, end := map[string]bool{}, 0 // a page repeats most of its tags
	for _, at := range tags.FindAllStringSubmatchIndex(body, -1) {
		rest.WriteString(body[end:at[0]])
		end = at[1]
		if tag := body[at[0]:end]; !seen[tag] {
			seen[tag] = true
			all = append(all, tagFaults(body[at[2]:at[3]], body[at[4]:at[5]], body[at[6]:at[7]])...)
		}
	}
	rest.WriteString(body[end:])
	text := rest.String()
	if i := strings.IndexAny(strings.TrimPrefix(text, "<!doctype html>"), "<"); i >= 0 {
		all = append(all, fmt.Sprintf("a bare < in %.80q", text[max(0, i-20):]))
	}
	return all
}

func tagFaults(slash, name, attributes string) (all []string) {
	if !slices.Contains(knownTags, strings.ToLower(name)) {
		all = append(all, "the element "+name)
	}
	if slash == "" && strings.EqualFold(name, "script") && !strings.Contains(attributes, ` src="/`) {
		all = append(all, "a script inside the page")
	}
	for _, a := range attribute.FindAllStringSubmatch(attributes, -1) {
		of, value := strings.ToLower(a[1]), a[2]
		if !slices.Contains(knownAttributes, of) {
			all = append(all, fmt.Sprintf("the attribute %s of %s", of, name))
		}
		if (of == "href" || of == "src" || of == "action" || of == "formaction") && !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "#") {
			all = append(all, fmt.Sprintf("the address %q", value))
		}
		if (of == "href" || of == "action" || of == "formaction") && strings.HasPrefix(value, "//") {
			all = append(all, fmt.Sprintf("the address %q of another site", value))
		}
	}
	return all
}
