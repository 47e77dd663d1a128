package web

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/wire"
)

var heading = regexp.MustCompile(`(?s)<h1 class="answer">(.*?)</h1>`)

// answer is the sentence that a page opens with.
func (s *site) answer(target string) string {
	s.t.Helper()
	body := s.ask("GET", target, nil).Body.String()
	found := heading.FindStringSubmatch(body)
	if found == nil {
		s.t.Fatalf("%s has no answer: %s", target, body)
	}
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(found[1], ""))
}

func TestAnswersOfReplays(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	for target, want := range map[string]string{
		"/dead-letters": "6 deliveries have failed for good at 2 endpoints.",
		"/replays/new":  "824 deliveries will be delivered again to 2 endpoints.",
		"/replays":      "1 replay is running: 281 of 412 deliveries have arrived; 2 failed.",
		"/replays/x":    "281 of 412 deliveries arrived; 2 failed.",
		"/events/evt_1": "3 endpoints wanted it: ",
	} {
		if got := s.answer(target); !strings.HasPrefix(got, want) {
			t.Errorf("%s says %q, want %q", target, got, want)
		}
	}
	s.api.edit = func(name string, answer any) any {
		if name == "dead_letters" || name == "replays" || name == "events" {
			return map[string]any{"data": []any{}, "next": nil}
		}
		return answer
	}
	for target, want := range map[string]string{
		"/dead-letters": "There are no dead letters.", "/dead-letters?q=type:a": "No dead letters match.", "/replays/new": "There is nothing to replay.",
		"/replays": "No replay is listed here.", "/events": "No event was published yet.",
	} {
		if got := s.answer(target); got != want {
			t.Errorf("empty, %s says %q, want %q", target, got, want)
		}
	}
	if body := s.ask("GET", "/replays/new", nil).Body.String(); strings.Contains(body, "/replays/start") {
		t.Error("a replay of nothing can be started")
	}
	// A count that was cut short has not shown that there is nothing.
	s.api.edit = func(name string, answer any) any {
		if name == "plan" {
			return map[string]any{"dry_run": true, "total": 0, "partial": true}
		}
		return answer
	}
	if got := s.answer("/replays/new"); got != "Nothing was found in the time that a preview has." {
		t.Errorf("cut short, /replays/new says %q", got)
	}
	if body := s.ask("GET", "/replays/new", nil).Body.String(); !strings.Contains(body, "count=all") {
		t.Error("nothing offers to count all")
	}
}

// A replay leaves out deliveries that another order has delivered again meanwhile.
func TestReplayThatLeftSomeOutDoesNotSayThatAllArrived(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	for delivered, want := range map[int]string{2: "2 of 10 deliveries arrived.", 10: "All 10 deliveries have arrived."} {
		s.api.edit = func(name string, answer any) any {
			if name == "replay" {
				m := answer.(map[string]any)
				m["status"], m["total"], m["made"], m["done"], m["delivered"], m["failed"] = "completed", 10, delivered, delivered, delivered, 0
			}
			return answer
		}
		if got := s.answer("/replays/x"); got != want {
			t.Errorf("with %d of 10, the page says %q, want %q", delivered, got, want)
		}
	}
}

// watched keeps the requests that an API gets.
type watched struct {
	http.Handler
	mu  sync.Mutex
	all []seen
}

type seen struct{ path, once, body string }

func (w *watched) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		text, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		w.mu.Lock()
		w.all = append(w.all, seen{r.URL.Path, r.Header.Get("Idempotency-Key"), string(text)})
		w.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/replay") && !strings.Contains(string(text), "dry_run") {
			_, _ = rw.Write([]byte(`{"id":"rpl_` + r.Header.Get("Idempotency-Key") + `"}`))
			return
		}
	}
	w.Handler.ServeHTTP(rw, r)
}

// TestPreviewIsWhatStarts: the button starts the counted replays, with the settings of the form; a
// second click sends the same idempotency keys, and another preview has others.
func TestPreviewIsWhatStarts(t *testing.T) {
	api := &watched{}
	s := newSite(t, func(o *Options) { api.Handler = o.API; o.API = api })
	s.signIn()
	field := func(body, name string) (all []string) {
		for _, found := range regexp.MustCompile(`name="`+name+`" value="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			all = append(all, html.UnescapeString(found[1]))
		}
		return all
	}
	target := "/replays/new?" + url.Values{"q": {"type:invoice.* key:inv_1 from:2026-11-01T00:00:00Z"}}.Encode()
	body := s.ask("GET", target, nil).Body.String()
	planned := api.all
	if len(planned) != 2 {
		t.Fatalf("%d previews, want one of each endpoint: %+v", len(planned), planned)
	}
	api.all = nil
	form := url.Values{"token": field(body, "token")[:1], "back": {target}, "once": field(body, "once"), "order": field(body, "order"),
		"rate": {"2.5"}, "stop_after": {"7"}, "canary": {"1"}, "reason": {"mended"}}
	var to []string
	for range 2 {
		w := s.ask("POST", "/replays/start", form)
		if w.Code != http.StatusSeeOther {
			t.Fatalf("answered %d %s", w.Code, w.Body)
		}
		to = append(to, w.Header().Get("Location"))
	}
	if to[0] != to[1] || !strings.HasPrefix(to[0], "/replays?id=rpl_") {
		t.Errorf("the clicks lead to %v", to)
	}
	if len(api.all) != 4 || api.all[0] != api.all[2] || api.all[1] != api.all[3] ||
		api.all[0].once == "" || api.all[0].once == api.all[1].once {
		t.Fatalf("the starts are %+v", api.all)
	}
	for i, started := range api.all[:2] {
		var asked, got wire.NewReplay
		if json.Unmarshal([]byte(planned[i].body), &asked) != nil || json.Unmarshal([]byte(started.body), &got) != nil {
			t.Fatal(planned[i].body, started.body)
		}
		asked.CountFor, asked.DryRun, asked.Rate, asked.StopAfter, asked.Canary, asked.Reason = 0, false, 2.5, 7, true, "mended"
		want, _ := json.Marshal(asked)
		if have, _ := json.Marshal(got); string(have) != string(want) || started.path != planned[i].path {
			t.Errorf("previewed %s, started %s", want, have)
		}
	}
	if again := field(s.ask("GET", target, nil).Body.String(), "once"); again[0] == form["once"][0] {
		t.Error("two previews have the same idempotency key")
	}
	form.Set("rate", "fast")
	form.Del("canary")
	w := s.ask("POST", "/replays/start", form)
	if w.Code != http.StatusUnprocessableEntity {
		t.Errorf("a rate that is none: answered %d", w.Code)
	}
	again := w.Body.String()
	if !slices.Equal(field(again, "order"), form["order"]) || strings.Contains(again, `name="canary" value="1" checked`) ||
		!slices.Equal(field(again, "back")[:1], field(body, "back")[:1]) {
		t.Errorf("the preview that is drawn again is another: %s", again)
	}
	for name, want := range map[string]string{"rate": "fast", "stop_after": "7", "reason": "mended"} {
		if !strings.Contains(again, `name="`+name+`" value="`+want+`"`) {
			t.Errorf("the form that is drawn again has lost %s", name)
		}
	}
}

// TestSelectionsOfReplays: conditions that the API's replay knows are sent as they are; for others
// the deliveries are named.
func TestSelectionsOfReplays(t *testing.T) {
	api := &watched{}
	s := newSite(t, func(o *Options) { api.Handler = o.API; o.API = api })
	s.signIn()
	for q, want := range map[string]string{
		"endpoint:ep_1":                         `{"dry_run":true,"count_for":"5ms"}`,
		"endpoint:ep_1 status:skipped":          `{"status":["skipped"],"dry_run":true,"count_for":"5ms"}`,
		"endpoint:ep_1 status:pending":          `{"dry_run":true,"count_for":"5ms"}`,
		"endpoint:ep_1 to:2026-11-01T00:00:00Z": `{"to":"2026-11-01T00:00:00Z","dry_run":true,"count_for":"5ms"}`,
		"endpoint:ep_1 code:503":                `{"status_code":503,"dry_run":true,"count_for":"5ms"}`,
		"endpoint:ep_1 error:timeout":           `{"error_class":"timeout","dry_run":true,"count_for":"5ms"}`,
		"endpoint:ep_1 reason:expired":          `{"deliveries":[`,
		"reason:expired":                        `{"deliveries":[`,
		"text":                                  `{"deliveries":[`,
	} {
		api.all = nil
		s.ask("GET", "/replays/new?"+url.Values{"q": {q}}.Encode(), nil)
		if len(api.all) == 0 || !strings.HasPrefix(api.all[0].body, want) {
			t.Errorf("%s: asked %+v, want %s", q, api.all, want)
		}
	}
}

func TestWhyAnEndpointDidNotGetAnEvent(t *testing.T) {
	e := &client.Event{Type: "invoice.paid", AcceptedAt: then}
	old := then.Add(-time.Hour)
	with := func(change func(*client.Endpoint)) *client.Endpoint {
		ep := &client.Endpoint{CreatedAt: old, UpdatedAt: old}
		change(ep)
		return ep
	}
	for want, ep := range map[string]*client.Endpoint{
		"It was created after the event.":            with(func(ep *client.Endpoint) { ep.CreatedAt = then.Add(time.Second) }),
		"It wants order.* and customer.*.":           with(func(ep *client.Endpoint) { ep.EventTypes = []string{"order.*", "customer.*"} }),
		"It wants events of the source shop.":        with(func(ep *client.Endpoint) { ep.Source = "src_1" }),
		"It wants events of the source src_2.":       with(func(ep *client.Endpoint) { ep.Source = "src_2" }),
		"Its filter did not match: event.data.n > 1": with(func(ep *client.Endpoint) { ep.Filter, ep.EventTypes = "event.data.n > 1", []string{"invoice.*"} }),
		"It is disabled.":                            with(func(ep *client.Endpoint) { ep.Status = grapnel.EndpointDisabled }),
		"Its settings have changed since.":           with(func(ep *client.Endpoint) { ep.UpdatedAt = then.Add(time.Second) }),
		"Its delivery is not stored any more.":       with(func(*client.Endpoint) {}),
	} {
		if got := whyNot(e, ep, map[string]string{"src_1": "shop"}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestEventsNameQueuesAndSources: a queue that did not get an event is among those that did not,
// and sources go by their names, in the list and on the event's page.
func TestEventsNameQueuesAndSources(t *testing.T) {
	const source = "src_01m83zt91aemhtzad2cp8havks"
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		e, _ := answer.(map[string]any)
		switch name {
		case "events":
			e = e["data"].([]any)[0].(map[string]any)
			fallthrough
		case "event":
			e["source"], e["source_name"] = source, "shop"
		}
		return answer
	}
	s.signIn()
	body := s.ask("GET", "/events/evt_1", nil).Body.String()
	for _, want := range []string{`<a href="/queues/que_01m83zt927em5vj6mpsvrc1wjf">orders</a></td><td class="soft because">It was created after the event.`,
		`<a class="link" href="/sources/` + source + `">shop</a>`} {
		if !strings.Contains(strings.ReplaceAll(body, "\n  ", ""), want) {
			t.Errorf("the event's page lacks %s", want)
		}
	}
	if body := s.ask("GET", "/events", nil).Body.String(); !strings.Contains(body, ">from shop<") {
		t.Error("the list of events does not name the source")
	}
}

// TestReplaysNameTheirEvents: the rows of a replay have the type and key of their events; one whose
// delivery is deleted has its id.
func TestReplaysNameTheirEvents(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	const id = "dlv_01m83zjttpeepjektrv56p5000"
	if body := s.ask("GET", "/replays/rpl_1", nil).Body.String(); !strings.Contains(body, `title="`+id+`">order.made</a> <span class="key mono">inv_0</span>`) {
		t.Error("the rows have no type and key")
	}
	s.api.edit = func(name string, answer any) any {
		if name == "items" {
			one := answer.(map[string]any)["data"].([]any)[0].(map[string]any)
			one["type"], one["key"] = nil, nil
		}
		return answer
	}
	if body := s.ask("GET", "/replays/rpl_1", nil).Body.String(); !strings.Contains(body, ">"+id+"</a></td>") {
		t.Error("a row without an event has no id")
	}
}

// TestRetentionIsNamedWhereItCouldBeTheCause: a young event has lost no delivery to retention.
func TestRetentionIsNamedWhereItCouldBeTheCause(t *testing.T) {
	young, old := then.Add(time.Second), then
	for want, until := range map[string]*time.Time{
		"No endpoint wanted it.": &young,
		"No endpoint wanted it, or retention has deleted its deliveries.": &old,
	} {
		if got := unwanted(&client.Event{RetainedUntil: until}, then); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFormsAreStill: the wizard has no live updates, which would change it under the hand.
func TestFormsAreStill(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	if body := s.ask("GET", "/replays/new", nil).Body.String(); strings.Contains(body, "data-live") {
		t.Error("the wizard is live")
	}
	if w := s.ask("GET", "/replays/new", nil, "Accept", "text/event-stream"); w.Code != http.StatusNoContent {
		t.Errorf("its stream: answered %d", w.Code)
	}
}

// TestSelectionsAsSearches: what a replay selects, as a search, selects the same again.
func TestSelectionsAsSearches(t *testing.T) {
	from := then.Add(-time.Hour - time.Millisecond)
	r := &client.Replay{EndpointID: "ep_1", Selection: client.Selection{Status: []grapnel.Status{"failed", "skipped"}, EventTypes: []string{"a.*"},
		Keys: []string{"k 1:2"}, From: &from}}
	f := parseSearch(selection(r), then).Filter
	if f.Endpoint != "ep_1" || len(f.Status) != 2 || f.Type != "a.*" || f.Key != "k 1:2" || !f.From.Equal(from) || !f.To.IsZero() || f.Text != "" {
		t.Errorf("%s selects %+v", selection(r), f)
	}
	r.Selection.Keys = append(r.Selection.Keys, "another")
	if q := selection(r); q != "" {
		t.Errorf("two keys became %s", q)
	}
}

// TestTheCommandOfAPreviewSelectsTheSame: the command counts what the page shows, and not more.
func TestTheCommandOfAPreviewSelectsTheSame(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	for q, want := range map[string]string{
		"endpoint:ep_1 error:timeout":          "grapnel replay plan ep_1 --error-class timeout",
		"endpoint:ep_1 code:503 status:dead":   "grapnel replay plan ep_1 --status-code 503 --status failed",
		"endpoint:ep_1 reason:exhausted":       "grapnel dlq list --filter 'endpoint:ep_1 reason:exhausted'",
		"endpoint:ep_1 took:2s":                "grapnel dlq list --filter 'endpoint:ep_1 took:2s'",
		"endpoint:ep_1 type:a.* \"some text\"": "grapnel dlq list --filter 'endpoint:ep_1 type:a.* \"some text\"'",
	} {
		if got := wizardCommand(s.visitOf("/replays/new?q=" + url.QueryEscape(q))); got != want {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
	}
}

// TestDeadLettersThatWereNotAllSearched: the page that ends early may have found all, and an older
// page has newer ones before it.
func TestDeadLettersThatWereNotAllSearched(t *testing.T) {
	s := newSite(t, nil)
	next := any("c")
	s.api.edit = func(name string, answer any) any {
		if m, is := answer.(map[string]any); is && name == "dead_letters" {
			m["next"] = next
		}
		return answer
	}
	s.signIn()
	for _, more := range []any{"c", nil} {
		next = more
		body := s.ask("GET", "/dead-letters?q=took:2s&cursor=x", nil).Body.String()
		if !strings.Contains(body, "At least 6 deliveries have failed for good") {
			t.Errorf("with next %v the page does not say that these may not be all", more)
		}
	}
	next = "c"
	body := s.ask("GET", "/dead-letters?q=took:2s", nil).Body.String()
	if !strings.Contains(body, "At least 6 deliveries have failed for good") {
		t.Error("a search that goes on says more than it knows")
	}
}

// TestThePurgeIsNamed: in days, of which the begun one counts; 0 is today.
func TestThePurgeIsNamed(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	for days, want := range map[int]string{0: " today.", 1: " in 1 day.", 30: " in 30 days."} {
		s.api.edit = func(name string, answer any) any {
			doc, _ := answer.(map[string]any)
			all, _ := doc["data"].([]any)
			switch name {
			case "delivery":
				all, doc["status"], doc["purge_at"] = []any{doc}, "failed", "2026-12-23T10:35:17Z"
				fallthrough
			case "dead_letters":
				for _, d := range all {
					d.(map[string]any)["days_left"] = days
				}
			}
			return answer
		}
		for path, says := range map[string]string{"/dead-letters": "deletes the first one", "/deliveries/dlv_1": "deletes it"} {
			if body := s.ask("GET", path, nil).Body.String(); !strings.Contains(body, "Retention "+says+want) {
				t.Errorf("%s does not say %s%s: %s", path, says, want, body)
			}
		}
	}
}

// TestAGroupOfDeadLettersIsDiscarded: its button, pressed as a browser without scripts does,
// discards the dead letters of its endpoint and its reason alone. With scripts it asks before. A
// session without the scope has no button, nor have letters without a reason: no search finds those
// alone.
func TestAGroupOfDeadLettersIsDiscarded(t *testing.T) {
	s := newSite(t, nil)
	var q url.Values
	var discarded []string
	s.api.asked = func(r *http.Request) {
		if r.URL.Path == "/v1/dead-letters" {
			q = r.URL.Query()
		}
		if id, is := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/v1/deliveries/"), "/discard"); is {
			discarded = append(discarded, id)
		}
	}
	scope := "admin"
	s.api.edit = func(name string, answer any) any {
		doc, _ := answer.(map[string]any)
		switch name {
		case "whoami":
			doc["scopes"] = []string{scope}
		case "dead_letters":
			var found []any
			for i, d := range doc["data"].([]any) {
				d := d.(map[string]any)
				d["reason_code"] = []string{"exhausted", "exhausted", "permanent", "exhausted", "exhausted", ""}[i]
				ep, reason := q.Get("endpoint"), q.Get("reason_code")
				if (ep == "" || ep == d["endpoint_id"]) && (reason == "" || reason == d["reason_code"]) {
					found = append(found, d)
				}
			}
			doc["data"] = found
		}
		return answer
	}
	s.signIn()
	forms := func() [][]string {
		return regexp.MustCompile(`(?s)<form method="post" action="(/dead-letters/discard)">(.*?)</form>`).
			FindAllStringSubmatch(s.ask("GET", "/dead-letters", nil).Body.String(), -1)
	}
	var all []string
	for _, form := range forms() {
		values := url.Values{}
		for _, in := range regexp.MustCompile(`name="(\w+)" value="([^"]*)"`).FindAllStringSubmatch(form[2], -1) {
			values.Add(in[1], html.UnescapeString(in[2]))
		}
		discarded = nil
		w := s.ask("POST", form[1], values)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/dead-letters" || !strings.Contains(form[2], ` data-sure="Dead letters of `) {
			t.Errorf("%s: answered %d %v", form[2], w.Code, w.Header())
		}
		all = append(all, strings.Join(discarded, " "))
	}
	want := []string{"dlv_01m83zjttpeepjektrv56p5000 dlv_01m83zdk5d5b3d6h8kn7ckn000",
		"dlv_01m83zjttgqbg3c84e3r331000 dlv_01m83zdk5d9k2p9p14d6337000", "dlv_01m83zdk5dgdb2b003w74rq000"}
	if !slices.Equal(all, want) {
		t.Errorf("the buttons discarded %q, want %q", all, want)
	}
	scope = "read"
	s.cookies = nil
	s.signIn()
	if left := forms(); len(left) > 0 {
		t.Errorf("a session that may only read has %q", left)
	}
}

// TestAReplayNamesItsErrorClassAndStatusCode: in words, and in the preview of the rest.
func TestAReplayNamesItsErrorClassAndStatusCode(t *testing.T) {
	r := &client.Replay{EndpointID: "ep_1"}
	r.Selection = client.Selection{Status: []grapnel.Status{grapnel.Failed}, ErrorClass: "timeout", StatusCode: 503}
	if got := selection(r); got != "endpoint:ep_1 status:failed error:timeout code:503" {
		t.Errorf("the rest is %s", got)
	}
	if got := selected(&r.Selection); got != "Failed deliveries, whose last attempt ended with timeout, answered with 503" {
		t.Errorf("in words: %s", got)
	}
	r.Selection = client.Selection{ErrorClass: "internal"} // which no search has
	if got := selection(r); got != "" {
		t.Errorf("the rest is %s", got)
	}
}
