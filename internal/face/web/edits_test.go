package web

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/client"
)

var (
	inputTags  = regexp.MustCompile(`(?s)<input[^>]*>|<textarea[^>]*>.*?</textarea>|<select[^>]*>.*?</select>`)
	optionTags = regexp.MustCompile(`<option value="([^"]*)"( selected)?>`)
)

// submitted is the form of a page as a browser sends it without a change by a person.
func (s *site) submitted(target string) url.Values {
	s.t.Helper()
	body := s.ask("GET", target, nil).Body.String()
	_, body, found := strings.Cut(body, `class="card form"`)
	if !found {
		s.t.Fatalf("%s has no form", target)
	}
	form := url.Values{}
	for _, tag := range inputTags.FindAllString(body, -1) {
		of := func(name string) string {
			_, rest, _ := strings.Cut(tag, " "+name+`="`)
			text, _, _ := strings.Cut(rest, `"`)
			return html.UnescapeString(text)
		}
		switch {
		case strings.HasPrefix(tag, "<textarea"):
			_, text, _ := strings.Cut(tag, ">\n")
			form.Add(of("name"), strings.ReplaceAll(html.UnescapeString(strings.TrimSuffix(text, "</textarea>")), "\n", "\r\n"))
		case strings.HasPrefix(tag, "<select"):
			options := optionTags.FindAllStringSubmatch(tag, -1)
			chosen := options[0][1] // which a browser chooses if no other is
			for _, o := range options {
				if o[2] != "" {
					chosen = o[1]
				}
			}
			form.Add(of("name"), html.UnescapeString(chosen))
		case !strings.Contains(tag, "checkbox") || strings.Contains(tag, " checked"):
			form.Add(of("name"), of("value"))
		}
	}
	return form
}

// TestUntouchedFormsChangeNothing: a form for a change that is sent as the browser shows it asks
// the API for nothing.
func TestUntouchedFormsChangeNothing(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if a, _ := answer.(map[string]any); name == "source" {
			a["dedupe"] = map[string]any{"by": []any{"content", "event_id"}, "window": "192h", "ignore": []any{}}
		} else if name == "channel" {
			a["severities"] = []any{"warning", "page"}
		}
		return answer
	}
	s.signIn()
	got := answering(s)
	for _, at := range []string{"/endpoints/ep_1/edit", "/sources/src_1/edit", "/queues/q_1/edit", "/channels/ch_1/edit", "/policies/pol_own/edit",
		"/event-types/typ_1/edit", "/alert-rules/endpoint_failing/edit"} {
		form := s.submitted(at)
		*got = nil // a page may ask for a backtest
		if w := s.ask("POST", at, form); w.Code != http.StatusSeeOther || len(*got) > 0 {
			t.Errorf("%s: answered %d, and the API got %v", at, w.Code, *got)
		}
	}
}

// TestTicksKeepTheOrderOfTheirList: a box that is ticked or cleared leaves the order of the others.
func TestTicksKeepTheOrderOfTheirList(t *testing.T) {
	for _, c := range [][3]string{{"event_id content", "content event_id", "content event_id"}, {"content", "content event_id", "content"},
		{"event_id delivery_id content", "content event_id", "content event_id delivery_id"}, {"", "content", ""}, {"b a", "", "b a"}} {
		if got := inOrder(c[0], c[1]); got != c[2] {
			t.Errorf("%s after %s is %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// TestClearedPartsOfASetting: the last part of a setting that is cleared removes the setting if a
// thing can be without it; else the part alone, so that the rest of it stays.
func TestClearedPartsOfASetting(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if name == "source" {
			answer.(map[string]any)["verify"] = map[string]any{"scheme": "none", "id_header": "X-Id"}
		}
		return answer
	}
	s.signIn()
	got := answering(s)
	for _, c := range []struct {
		at     string
		parts  []string
		remain map[string]any
	}{
		{"/sources/src_1/edit", []string{"verify/id_header"}, map[string]any{"verify": map[string]any{"id_header": nil}}},
		{"/channels/ch_1/edit", []string{"quiet_hours/from", "quiet_hours/to", "quiet_hours/tz"}, map[string]any{"quiet_hours": nil}},
	} {
		form := s.submitted(c.at)
		for _, name := range c.parts {
			form.Set(name, "")
		}
		*got = nil
		if s.ask("POST", c.at, form); len(*got) != 1 || !reflect.DeepEqual((*got)[0].body, c.remain) {
			t.Errorf("%s: the API got %v, want %v", c.at, *got, c.remain)
		}
	}
}

// TestKeysOfButtonsPressThem: each key that a button shows is one that the script presses it with,
// and that the list of keys names.
func TestKeysOfButtonsPressThem(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	seen := map[string]bool{}
	for _, at := range []string{"/deliveries", "/deliveries/dlv_1", "/endpoints/ep_1", "/dead-letters", "/replays/new", "/replays/rpl_1", "/queues/q_1",
		"/alerts/alr_1"} {
		body := s.ask("GET", at, nil).Body.String()
		for _, found := range regexp.MustCompile(`data-key="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			seen[found[1]] = true
			if !strings.Contains(string(s.web.assets.files["app.js"]), `press("`+found[1]+`")`) ||
				!strings.Contains(body, "<dt><kbd>"+found[1]+"</kbd></dt>") {
				t.Errorf("%s: the key %s of a button presses nothing, or is not in the list of keys", at, found[1])
			}
		}
	}
	if len(seen) < 3 {
		t.Errorf("the pages have the keys %v", seen)
	}
}

// TestANameOnTwoLinesIsRefused: the form of an object of texts loses no line of it.
func TestANameOnTwoLinesIsRefused(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	got := answering(s)
	form := s.submitted("/endpoints/ep_1/edit")
	form.Set("headers", "X-A: 1\r\nX-B: 2\r\nX-A : 3")
	w := s.ask("POST", "/endpoints/ep_1/edit", form)
	if body := w.Body.String(); w.Code != 422 || !refusable(*got) || !strings.Contains(body, "Line 3 gives X-A again") ||
		!strings.Contains(body, "X-A: 1\nX-B: 2\nX-A : 3</textarea>") {
		t.Errorf("answered %d; the API got %v", w.Code, *got)
	}
}

// TestAFormThatPublishesDoesItOnce: a second click sends the same event, which the API stores once;
// a form that is drawn again after a look is for an event of its own.
func TestAFormThatPublishesDoesItOnce(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	got := answering(s)
	form := s.submitted("/playground")
	form.Set("then", "publish")
	for range 2 {
		s.ask("POST", "/playground", form)
	}
	if len(*got) != 2 || (*got)[0].path != "/v1/events" || (*got)[0].body["id"] == nil || (*got)[0].body["id"] != (*got)[1].body["id"] {
		t.Errorf("the API got %v", *got)
	}
	form.Del("then")
	if body := s.ask("POST", "/playground", form).Body.String(); strings.Contains(body, form.Get("once")) {
		t.Error("the form after a look has the key of the form before it")
	}
}

// refuseChanges makes the API refuse every request that is no look.
func (s *site) refuseChanges(status int, code string) {
	s.web.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			s.api.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"code":%q,"title":"Refused","detail":"Try again","status":%d,"errors":[],"request_id":"req_9"}`, code, status)
	})
}

// TestAFormIsKeptWhenTheServerIsBusy: a request that the API cannot do now comes again with the
// texts that were typed, as a refused one does. After a failure it has the same idempotency key:
// the request may have been done.
func TestAFormIsKeptWhenTheServerIsBusy(t *testing.T) {
	for _, status := range []int{403, 421, 500, 503} {
		s := newSite(t, nil)
		s.signIn()
		form := s.submitted("/endpoints/new")
		form.Set("url", "https://typed.example")
		s.refuseChanges(status, "overloaded")
		w := s.ask("POST", "/endpoints/new", form)
		if strings.Contains(w.Body.String(), "req_9.") != (status >= 500) {
			t.Errorf("answered %d, and the page names no request of the log, or one without need", w.Code)
		}
		if kept := strings.Contains(w.Body.String(), form.Get("once")); kept != (status >= 500) {
			t.Errorf("answered %d: the idempotency key is kept: %v", status, kept)
		}
		if body := w.Body.String(); w.Code != status || !strings.Contains(body, `value="https://typed.example"`) || !strings.Contains(body, "Try again") {
			t.Errorf("answered %d, and the text is lost", w.Code)
		}
	}
}

// TestASecondClickMeetsTheFirst: if the first click is still being done, the form comes again with
// the same idempotency key, so that sending it once more does nothing twice.
func TestASecondClickMeetsTheFirst(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	form := s.submitted("/endpoints/new")
	form.Set("url", "https://typed.example")
	s.refuseChanges(http.StatusConflict, "idempotency_in_flight")
	if w := s.ask("POST", "/endpoints/new", form); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), form.Get("once")) {
		t.Errorf("answered %d, and the idempotency key is another one", w.Code)
	}
}

// TestANumberOfAReplayIsNamed: the refusal of a number says which input it was in, and the rule.
func TestANumberOfAReplayIsNamed(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	got := answering(s, client.Field{Pointer: "/stop_after", Detail: "must be a whole number"})
	refuse := s.web.API
	s.web.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		if bytes.Contains(text, []byte("dry_run")) {
			s.api.ServeHTTP(w, r)
			return
		}
		refuse.ServeHTTP(w, r)
	})
	w := s.ask("POST", "/replays/start", url.Values{"token": {s.token("/")}, "back": {"/replays/new"}, "rate": {"fast"}, "stop_after": {"1.5"},
		"order": {`{"endpoint":"ep_1","replay":{"dry_run":true}}`, `{"endpoint":"ep_2","replay":{}}`}})
	for _, want := range []string{`id="wrong-rate" role="alert">&#34;fast&#34; is no number.`, `id="wrong-stop_after" role="alert">Must be a whole number.`} {
		if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), want) {
			t.Errorf("answered %d without %s: %s", w.Code, want, w.Body)
		}
	}
	if !refusable(*got) || (*got)[0].body["stop_after"] != 1.5 || (*got)[0].body["dry_run"] != nil {
		t.Errorf("the API got %v", *got)
	}
}

// TestTheNoteOfAnIssueLeavesItsOwner: a text that a person did not change is not sent, so that it
// does not undo the change of another person.
func TestTheNoteOfAnIssueLeavesItsOwner(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if name == "issue" {
			answer.(map[string]any)["owner"] = "ann"
		}
		return answer
	}
	s.signIn()
	got := answering(s)
	body := s.ask("GET", "/issues/iss_1", nil).Body.String()
	form := url.Values{"token": {s.token("/")}, "back": {"/issues"}, "owner": {"ann"}, "note": {"mended"}}
	for _, found := range regexp.MustCompile(`name="(was-\w+)" value="([^"]*)"`).FindAllStringSubmatch(body, -1) {
		form.Set(found[1], found[2])
	}
	if s.ask("POST", "/issues/iss_1/set", form); len(*got) != 1 || !reflect.DeepEqual((*got)[0].body, map[string]any{"note": "mended"}) {
		t.Errorf("the API got %v", *got)
	}
}

// TestAButtonThatPublishesDoesItOnce: the second click on a button that publishes sends the same
// event as the first, which the API stores once; the page that is drawn anew sends another.
func TestAButtonThatPublishesDoesItOnce(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	key := regexp.MustCompile(`name="once" value="([^"]+)"`)
	for page, button := range map[string]string{"/events/evt_1": "/events/evt_1/publish", "/event-types/typ_1": "/event-types/typ_1/send?version=1"} {
		var ids []any
		for range 2 {
			once := key.FindStringSubmatch(s.ask("GET", page, nil).Body.String())
			if once == nil {
				t.Fatalf("%s has no idempotency key", page)
			}
			got := answering(s)
			for range 2 {
				s.ask("POST", button, url.Values{"token": {s.token("/")}, "once": {once[1]}})
			}
			for _, one := range *got {
				ids = append(ids, one.body["id"])
			}
		}
		if len(ids) != 4 || ids[0] == nil || ids[0] != ids[1] || ids[2] != ids[3] || ids[0] == ids[2] {
			t.Errorf("%s: the API got events with the ids %v", button, ids)
		}
	}
}

// TestAnAttemptIsOrderedOnce: the second click on a button that retries or tests has the
// idempotency keys of the first, one for each delivery, or what the first has delivered would be
// delivered again.
func TestAnAttemptIsOrderedOnce(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	key := regexp.MustCompile(`name="once" value="([^"]+)"`)
	for _, c := range []struct {
		page, button string
		ids          []string
	}{{"/deliveries/dlv_1", "/deliveries/dlv_1/retry", nil}, {"/deliveries", "/deliveries/retry", []string{"dlv_1", "dlv_2"}},
		{"/channels", "/channels/chn_1/test", nil}, {"/endpoints/ep_1", "/endpoints/ep_1/test", nil}} {
		once := key.FindStringSubmatch(s.ask("GET", c.page, nil).Body.String())
		if once == nil {
			t.Fatalf("%s has no idempotency key", c.page)
		}
		got := answering(s)
		for range 2 {
			s.ask("POST", c.button, url.Values{"token": {s.token("/")}, "once": {once[1]}, "id": c.ids})
		}
		half := len(*got) / 2
		if half != max(len(c.ids), 1) || !reflect.DeepEqual((*got)[:half], (*got)[half:]) || (*got)[0].once == "" ||
			half > 1 && (*got)[0].once == (*got)[1].once {
			t.Errorf("%s: the API got %+v", c.button, *got)
		}
	}
}
