package web

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

// TestFaultsSelectNothing: a search with a word that cannot be read lists nothing, and replays
// nothing; the text stays in the box, and the fault names the word and the allowed ones.
func TestFaultsSelectNothing(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	for _, path := range []string{"/deliveries", "/dead-letters", "/replays/new"} {
		body := s.ask("GET", path+"?q=key%3Aa+stauts%3Afailed", nil).Body.String()
		if strings.Contains(body, "data-row") || strings.Contains(body, `name="order"`) {
			t.Errorf("%s lists something", path)
		}
		for _, want := range []string{`value="key:a stauts:failed"`, "stauts:failed: unknown name; use status, endpoint"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: the page lacks %s", path, want)
			}
		}
	}
	w := s.ask("POST", "/deliveries/retry", url.Values{"token": {s.token("/deliveries")}, "all": {"1"}, "q": {"stauts:failed"}})
	if w.Code != http.StatusBadRequest {
		t.Errorf("retrying all that match: answered %d", w.Code)
	}
}

// TestAPageIsNotTheList: a number in a verdict is of the page if there are other pages.
func TestAPageIsNotTheList(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	next := any(nil)
	s.api.edit = func(name string, answer any) any {
		a, is := answer.(map[string]any)
		if all, _ := a["data"].([]any); is && slices.Contains([]string{"keys", "channels", "sources", "queues", "event_types", "policies", "replays"}, name) {
			a["next"] = next
			if name == "keys" {
				a["data"] = all[:1]
			}
			if name == "replays" {
				for _, r := range all {
					r.(map[string]any)["status"] = "completed"
				}
			}
		}
		return answer
	}
	said := regexp.MustCompile(`<h1 class="answer">.*</h1>`)
	for path, want := range map[string][2]string{
		"/keys":        {"There is one API key", "1 API key on this page"},
		"/channels":    {"Alerts ", "on this page"},
		"/sources":     {"", "These are not all sources"},
		"/queues":      {"", "These are not all queues"},
		"/event-types": {"registered.", "on this page"},
		"/policies":    {"own", "on this page"},
		"/replays":     {"No replay is running", "No replay on this page is running"},
	} {
		for target, of := range map[string]any{path: nil, path + " ": "c", path + "?cursor=c": nil} {
			next = of
			body := s.ask("GET", strings.TrimSpace(target), nil).Body.String()
			if whole := target == path; !strings.Contains(body, want[0]) && whole || strings.Contains(body, want[1]) == whole {
				t.Errorf("%s, next %v: %s", target, of, said.FindString(body))
			}
		}
	}
}

// TestCompletions: names, values, endpoints by name, event types and keys, from a few cheap
// requests; without a session, nothing.
func TestCompletions(t *testing.T) {
	s := newSite(t, nil)
	if w := s.ask("GET", "/complete?word=st", nil); w.Code != http.StatusUnauthorized {
		t.Errorf("without a session: answered %d", w.Code)
	}
	s.signIn()
	words := func(word string) (all []string) {
		before := s.api.calls.Load()
		var found []suggestion
		w := s.ask("GET", "/complete?"+url.Values{"word": {word}}.Encode(), nil)
		if err := json.Unmarshal(w.Body.Bytes(), &found); err != nil {
			t.Fatalf("%s: %v in %s", word, err, w.Body)
		}
		for _, f := range found {
			all = append(all, f.Word)
		}
		if n := s.api.calls.Load() - before; n > 3 { // one of them is of the session
			t.Errorf("%s took %d requests", word, n)
		}
		return all
	}
	for word, want := range map[string]string{"st": "status:", "": "endpoint:", "status:fa": "status:failed", "status:held,fa": "status:held,failed",
		"error:ti": "error:timeout", "reason:ex": "reason:exhausted", "code:5": "code:5xx", "since:6": "since:6h"} {
		if got := words(word); !slices.Contains(got, want) {
			t.Errorf("%q is completed by %q, not %s", word, got, want)
		}
	}
	if got := words("endpoint:"); len(got) == 0 || !strings.HasPrefix(got[0], "endpoint:ep_") {
		t.Errorf("endpoints are completed by %q", got)
	}
	if got := words("nonsense:x"); len(got) != 0 {
		t.Errorf("an unknown name is completed by %q", got)
	}
	for _, name := range []string{"type:", "key:"} {
		if got := words(name); len(got) == 0 {
			t.Errorf("%s has no completion", name)
		}
	}
}

// TestHistogramSelectsTime: each column is a link that keeps the other conditions, and works
// without a script.
func TestHistogramSelectsTime(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	body := s.ask("GET", "/deliveries?"+url.Values{"q": {"endpoint:ep_1 status:failed since:24h"}}.Encode(), nil).Body.String()
	if n := strings.Count(body, "from%3A2026-11-2"); n < 24 {
		t.Errorf("%d links select a time", n)
	}
	for _, want := range []string{`data-search="endpoint:ep_1 status:failed"`, "Any time", "whatever else the search says", "hit chosen"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(body, "since%3A24h+from") {
		t.Error("a link has two times")
	}
}

// TestEmptyLists: nothing yet, nothing matches, and deleted by retention are three different pages.
func TestEmptyLists(t *testing.T) {
	s := newSite(t, nil)
	totals := true
	s.api.edit = func(name string, answer any) any {
		a, _ := answer.(map[string]any)
		switch name {
		case "deliveries":
			a["data"], a["next"] = []any{}, nil
		case "stats", "endpoint_stats":
			if !totals {
				a["data"] = []any{}
			}
		}
		return answer
	}
	s.signIn()
	page := func(q string) string { return s.ask("GET", "/deliveries"+withQuery("q", q), nil).Body.String() }
	if body := page("status:failed key:x"); !strings.Contains(body, "No delivery matches") || !strings.Contains(body, "Clear the search") {
		t.Error("the page of a search without a match does not say so")
	}
	if body := page("since:24h"); !strings.Contains(body, "Retention has deleted the deliveries of this time.") || !strings.Contains(body, "totals above remain") {
		t.Error("the page of deleted deliveries does not say so")
	}
	totals = false
	if body := page(""); !strings.Contains(body, "No event was published yet.") {
		t.Error("the page before the first event does not say so")
	}
}

// TestActingOnAllThatMatch retries the deliveries that the search finds, not the ticked ones.
func TestActingOnAllThatMatch(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	token := s.token("/deliveries")
	before := s.api.calls.Load()
	w := s.ask("POST", "/deliveries/retry", url.Values{"token": {token}, "all": {"1"}, "q": {"status:failed"}, "back": {"/deliveries"}})
	if w.Code != http.StatusSeeOther || s.api.calls.Load()-before < 3 {
		t.Errorf("answered %d after %d requests", w.Code, s.api.calls.Load()-before)
	}
	if body := s.ask("GET", "/deliveries", nil).Body.String(); !strings.Contains(body, "being retried") {
		t.Error("the next page does not say what happened")
	}
}

// TestDifference: the lines of a comparison give back both texts, in order; equal texts have none
// that differ.
func TestDifference(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), 1, 12)
		a, b := strings.Join(lines.Draw(t, "a"), "\n"), strings.Join(lines.Draw(t, "b"), "\n")
		all, differs := difference(a, b)
		var first, second []string
		for _, l := range all {
			if l.Tone != "more" {
				first = append(first, l.Text)
			}
			if l.Tone != "less" {
				second = append(second, l.Text)
			}
		}
		if strings.Join(first, "\n") != a || strings.Join(second, "\n") != b || differs != (a != b) {
			t.Fatalf("%q and %q: %v, %t", a, b, all, differs)
		}
	})
	long := strings.Repeat("x\n", 5000)
	all, _ := difference("a\n"+long+"b", "c\n"+long+"d") // too many lines to align
	if few := folded(all); len(few) > mostDiffLines+2 {
		t.Errorf("%d lines are shown", len(few))
	}
}

// TestDownloadsAreTheAPIs: a download is the answer of the API's export to the session's key, under
// the page's search; without a session there is none.
func TestDownloadsAreTheAPIs(t *testing.T) {
	var asked []string
	s := newSite(t, nil)
	recorded := s.web.API
	s.web.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/export") {
			token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			p, _ := s.web.Passes.Open(token, then)
			asked = append(asked, p.Maker.Key+" "+r.URL.RequestURI())
			w.Header().Set("Content-Disposition", "attachment")
		}
		recorded.ServeHTTP(w, r)
	})
	const target = "/deliveries/export?format=csv&q=status%3Afailed"
	if w := s.ask("GET", target, nil); w.Code != http.StatusSeeOther || len(asked) > 0 {
		t.Errorf("without a session: answered %d, asked for %q", w.Code, asked)
	}
	s.signIn()
	w := s.ask("GET", target, nil)
	want := pass.Mark(sha256.Sum256([]byte(goodKey))) + " /v1/deliveries/export?filter=status%3Afailed&format=csv"
	if w.Code != http.StatusOK || len(asked) != 1 || asked[0] != want || w.Header().Get("Content-Disposition") != "attachment" {
		t.Errorf("answered %d %v, asked for %q", w.Code, w.Header(), asked)
	}
}
