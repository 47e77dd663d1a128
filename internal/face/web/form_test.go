package web

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
)

// allBlanks are the forms whose rows name members of requests.
func allBlanks() map[string]*blank {
	all := map[string]*blank{"endpoint": &endpointBlank, "rotation": &rotationBlank, "consent": consentBlank("x", ""),
		"type": &typeBlank, "version": &versionBlank, "queue": &queueBlank, "key": &keyBlank, "trial": &trialBlank, "policy": &policyBlank, "outbox": sourceBlank(outboxScheme, nil),
		"broker": sourceBlank(brokerScheme, nil)}
	for _, s := range scheme.All() {
		all["source of "+s.Name] = sourceBlank(s.Name, &s)
	}
	return all
}

// TestRowsOfFormsAreMembers: each row of a form names a member of its request, once.
func TestRowsOfFormsAreMembers(t *testing.T) {
	for name, b := range allBlanks() {
		seen := map[string]bool{}
		for _, in := range b.rows {
			if _, known := member(b.of, in.at); !known || seen[in.at] || in.label == "" {
				t.Errorf("%s: the row %q names no member of %v, or is there twice, or has no label", name, in.at, b.of)
			}
			seen[in.at] = true
		}
		if b.rows[0].group == "" && slices.ContainsFunc(b.rows, func(in input) bool { return in.group != "" }) {
			t.Errorf("%s: the first row has no heading", name)
		}
	}
}

// TestSourcesHaveTheirSettings: every setting that a scheme reads has a row in its form.
func TestSourcesHaveTheirSettings(t *testing.T) {
	for _, s := range scheme.All() {
		b := sourceBlank(s.Name, &s)
		for _, name := range s.Settings {
			if !slices.ContainsFunc(b.rows, func(in input) bool { return in.at == "verify/"+name }) {
				t.Errorf("%s: the form has no input for %s", s.Name, name)
			}
		}
	}
}

// TestCustomersSetTheirOwn: the rows for customers exist, and none lets a customer reach the
// operator's policies, sources or tenants.
func TestCustomersSetTheirOwn(t *testing.T) {
	b := endpointBlank.only(customerRows)
	if len(b.rows) != len(customerRows) {
		t.Errorf("%d of %d rows exist", len(b.rows), len(customerRows))
	}
	for _, in := range b.rows {
		if slices.Contains([]string{"policy", "source", "tenant", "transform", "filter"}, in.at) {
			t.Errorf("customers may set %s", in.at)
		}
	}
}

// sent is a request that the API got.
type sent struct {
	method, path string
	body         map[string]any
	once         string // the idempotency key
}

// answering has the API keep what it is sent, and refuse it with fields if there are any.
func answering(s *site, fields ...client.Field) *[]sent {
	var got []sent
	s.web.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/simulate") {
			s.api.ServeHTTP(w, r)
			return
		}
		text, _ := io.ReadAll(r.Body)
		rq := sent{method: r.Method, path: r.URL.Path, once: r.Header.Get("Idempotency-Key")}
		_ = json.Unmarshal(text, &rq.body)
		got = append(got, rq)
		if len(fields) == 0 {
			r.Method = http.MethodGet
			s.api.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		problem, _ := json.Marshal(map[string]any{"code": "invalid", "title": "A field is invalid", "status": 422, "errors": fields, "request_id": "req_3"})
		_, _ = w.Write(problem)
	})
	return &got
}

// refusable says whether the API got one request, which it has to refuse: the form has faults of
// its own.
func refusable(all []sent) bool { return len(all) == 1 && all[0].body[unread] == true }

func bodiesOf(all []sent) (bodies []any) {
	for _, rq := range all {
		bodies = append(bodies, rq.body)
	}
	return bodies
}

// filled is a form as a browser would send it: the values of the page, and those given.
func (s *site) filled(target string, values url.Values) url.Values {
	s.t.Helper()
	body := s.ask("GET", target, nil).Body.String()
	form := url.Values{"token": {s.token(target)}, "back": {target}}
	for _, name := range []string{"was", "once"} {
		_, rest, found := strings.Cut(body, `name="`+name+`" value="`)
		if !found {
			s.t.Fatalf("%s has no %s", target, name)
		}
		text, _, _ := strings.Cut(rest, `"`)
		form.Set(name, html.UnescapeString(text))
	}
	was := map[string]string{}
	_ = json.Unmarshal([]byte(form.Get("was")), &was)
	for name, value := range was {
		if value == "false" { // a box that is not ticked is not sent
			continue
		}
		form.Set(name, strings.ReplaceAll(strings.ReplaceAll(value, "\r\n", "\n"), "\n", "\r\n"))
	}
	for name, value := range values {
		form[name] = value
	}
	return form
}

// TestFormsSendWhatWasChanged: a form that is sent as it came changes nothing; one with changes
// sends these and nothing else, in the types of the API.
func TestFormsSendWhatWasChanged(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if name == "endpoint" {
			a := answer.(map[string]any)
			a["headers"], a["labels"] = map[string]any{"X-Old": "1", "X-Stays": "2"}, map[string]any{"team": "a"}
			a["rate_limit"] = map[string]any{"per_second": 5, "burst": 5}
			a["policy"] = map[string]any{"max_attempts": 3}
			a["transform"], a["filter"] = ".data\r\n| .text\n", "  true\n" // as files have them
		}
		return answer
	}
	s.signIn()
	got := answering(s)
	const at = "/endpoints/ep_1/edit"
	if w := s.ask("POST", at, s.filled(at, nil)); w.Code != http.StatusSeeOther || len(*got) != 0 {
		t.Errorf("nothing changed: answered %d %s, and the API got %v", w.Code, w.Body, *got)
	}
	w := s.ask("POST", at, s.filled(at, url.Values{"description": {"new name"}, "event_types": {"a.b\r\n\r\n c.* \r\n"}, "headers": {"X-New: a: b\r\nX-Stays: 2"},
		"rate_limit/per_second": {""}, "rate_limit/burst": {""}, "max_concurrency": {"7"}, "policy": {"standard"}}))
	want := map[string]any{"description": "new name", "event_types": []any{"a.b", "c.*"},
		"headers":    map[string]any{"X-New": "a: b", "X-Old": nil, "X-Stays": "2"},
		"rate_limit": nil, "max_concurrency": 7.0, "policy": "standard"}
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/endpoints/ep_1" || len(*got) != 1 ||
		!reflect.DeepEqual((*got)[0].body, want) {
		t.Errorf("answered %d %s; the API got %v, want %v", w.Code, w.Body, *got, want)
	}
	*got = nil
	if s.ask("POST", at, s.filled(at, url.Values{"rate_limit/per_second": {"2.5"}})); len(*got) != 1 ||
		!reflect.DeepEqual((*got)[0].body, map[string]any{"rate_limit": map[string]any{"per_second": 2.5}}) {
		t.Errorf("a part of a setting: the API got %v", *got)
	}
}

// TestRefusedForms: each fault stands at its input, the input keeps its text, and faults of the
// form itself come together with those that the API finds in the rest of it.
func TestRefusedForms(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	got := answering(s, client.Field{Pointer: "/url", Detail: "is no URL"}, client.Field{Pointer: "/headers/X-A", Detail: "is reserved"},
		client.Field{Pointer: "/rate_limit", Detail: "is odd"}, client.Field{Pointer: "/no/input", Detail: "is unknown"})
	const typed = `<b>"typed" & kept`
	w := s.ask("POST", "/endpoints/new", s.filled("/endpoints/new", url.Values{"url": {typed}, "description": {"kept too"}, "headers": {"X-A: 1"}, "secret": {"whsec_typed"}}))
	body := w.Body.String()
	for _, want := range []string{`value="` + html.EscapeString(typed) + `"`, `value="kept too"`, "X-A: 1</textarea>",
		`id="wrong-url" role="alert">Is no URL.`, `id="wrong-headers" role="alert">X-A: is reserved.`, `id="wrong-rate_limit/per_second" role="alert">Is odd.`,
		`role="alert">/no/input: is unknown.`, `aria-invalid="true"`} {
		if !strings.Contains(body, want) {
			t.Errorf("answered %d without %s", w.Code, want)
		}
	}
	if w.Code != http.StatusUnprocessableEntity || len(*got) != 1 || strings.Contains(body, `<b>"typed`) {
		t.Errorf("answered %d; the API got %v", w.Code, *got)
	}
	for _, fault := range faults(body) {
		t.Error(fault)
	}
	*got = nil
	w = s.ask("POST", "/endpoints/new", s.filled("/endpoints/new", url.Values{"url": {"https://a.example"}, "headers": {"no colon"}, "max_concurrency": {"many"}}))
	for _, want := range []string{`value="https://a.example"`, "Line 1 has no colon; write name: value.", `&#34;many&#34; is no number.`,
		`id="wrong-url" role="alert">Is no URL.`, `id="wrong-headers" role="alert">Line 1`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("answered %d without %s", w.Code, want)
		}
	}
	if w.Code != http.StatusUnprocessableEntity || !refusable(*got) {
		t.Errorf("answered %d; the API got %v", w.Code, *got)
	}
	if w := s.ask("POST", "/endpoints/ep_1/edit", url.Values{"token": {s.token("/")}, "was": {"{"}}); w.Code != http.StatusBadRequest {
		t.Errorf("a form without its values: answered %d", w.Code)
	}
}

// TestWhereJSONIsWrong: an error names the line and the column.
func TestWhereJSONIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"{\n  \"a\": 1,\n  b\n}": "line 3, column 3: ", `{"a":1`: "line 1, column ", "[1,]": "line 1, column 4: ", `{"a":1} x`: "line 1, column 9: ",
	} {
		if _, err := checkedJSON(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if raw, err := checkedJSON(" {\"n\": 1.00} "); err != nil || string(raw) != " {\"n\": 1.00} " {
		t.Errorf("became %s, %v", raw, err)
	}
}

// TestSecretsAreShownOnce: the answer to the form shows the secret, no page does, and destructive
// forms need their word.
func TestSecretsAreShownOnce(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if name == "endpoint" || name == "endpoints" {
			answer.(map[string]any)["secret"] = "whsec_shownonce"
			answer.(map[string]any)["id"] = "ep_9"
		}
		return answer
	}
	s.signIn()
	got := answering(s)
	form := s.filled("/endpoints/ep_1/rotate", url.Values{"overlap": {"1h"}, "confirm": {"yes"}})
	if w := s.ask("POST", "/endpoints/ep_1/rotate", form); w.Code != 422 || !refusable(*got) || strings.Contains(w.Body.String(), "whsec_shownonce") {
		t.Errorf("without its word: answered %d, the API got %v", w.Code, *got)
	}
	*got = nil
	form.Set("confirm", "rotate")
	w := s.ask("POST", "/endpoints/ep_1/rotate", form)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "whsec_shownonce") || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	if len(*got) != 1 || (*got)[0].path != "/v1/endpoints/ep_1/rotate-secret" || !reflect.DeepEqual((*got)[0].body, map[string]any{"overlap": "1h"}) {
		t.Errorf("the API got %v", *got)
	}
	for _, target := range targets() {
		if w := s.ask("GET", target, nil); strings.Contains(w.Body.String(), "whsec_shownonce") {
			t.Errorf("%s shows the secret", target)
		}
	}
	const deletes = "/endpoints/ep_1/delete"
	for _, word := range []string{"", "Delete", "delete it"} {
		*got = nil
		if w := s.ask("POST", deletes, s.filled(deletes, url.Values{"confirm": {word}})); w.Code != 422 || len(*got) != 0 {
			t.Errorf("confirmed by %q: answered %d, the API got %v", word, w.Code, *got)
		}
	}
	if w := s.ask("POST", deletes, s.filled(deletes, url.Values{"confirm": {"delete"}})); w.Code != 303 || len(*got) != 1 {
		t.Errorf("answered %d, the API got %v", w.Code, *got)
	}
}

// TestWhatFormsCreate: each form that creates something sends its inputs in the types of the API,
// with the idempotency key of the form; sending it twice sends the same key.
func TestWhatFormsCreate(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	got := answering(s)
	for _, c := range []struct {
		at     string
		values url.Values
		path   string
		body   map[string]any
	}{
		{"/endpoints/new", url.Values{"url": {"https://a.example/x"}, "event_types": {"a.*"}, "labels": {"team: b"}}, "/v1/endpoints",
			map[string]any{"url": "https://a.example/x", "event_types": []any{"a.*"}, "labels": map[string]any{"team": "b"}, "ordering": "key", "format": "standard",
				"signature_headers": "standard"}},
		{"/keys/new", url.Values{"name": {"ci"}, "scopes": {"publish", "read"}}, "/v1/keys",
			map[string]any{"name": "ci", "scopes": []any{"publish", "read"}}},
		{"/sources/new?scheme=github", url.Values{"name": {"gh"}, "verify/secret": {"12345678"}, "dedupe/by": {"event_id"}}, "/v1/sources",
			map[string]any{"name": "gh", "verify": map[string]any{"scheme": "github", "secret": "12345678"}, "on_unverified": "reject",
				"dedupe": map[string]any{"by": []any{"event_id"}}}},
		{"/sources/new?scheme=outbox", url.Values{"name": {"shop"}, "outbox/dsn": {"postgres://x"}}, "/v1/sources",
			map[string]any{"name": "shop", "outbox": map[string]any{"dsn": "postgres://x"}}},
		{"/sources/new?scheme=broker", url.Values{"name": {"shop"}, "broker/kind": {"nats"}, "broker/address": {"nats://n"}, "broker/name": {"S"}, "type": {`"a"`}},
			"/v1/sources", map[string]any{"name": "shop", "type": `"a"`, "broker": map[string]any{"kind": "nats", "address": "nats://n", "name": "S"}}},
		{"/queues/new", url.Values{"name": {"orders"}, "lease": {"1m"}, "max_leased": {"5"}, "quiet": {"1"}}, "/v1/queues",
			map[string]any{"name": "orders", "lease": "1m", "max_leased": 5.0, "quiet": true, "ordering": "key"}},
		{"/event-types/new", url.Values{"name": {"a.b"}, "schema": {`{"type": "object"}`}, "check": {"refuse"}}, "/v1/event-types",
			map[string]any{"name": "a.b", "schema": map[string]any{"type": "object"}, "check": "refuse"}},
		{"/event-types/typ_1/version", url.Values{"schema": {`{}`}, "note": {"n"}}, "/v1/event-types/typ_1/versions",
			map[string]any{"schema": map[string]any{}, "note": "n"}},
	} {
		*got = nil
		form := s.filled(c.at, c.values)
		for name, usual := range map[string]string{"ordering": "key", "format": "standard", "signature_headers": "standard", "on_unverified": "reject"} {
			if c.body[name] == usual {
				form.Set(name, usual) // as a browser sends a choice that was not touched
			}
		}
		for range 2 {
			if w := s.ask("POST", c.at, form); w.Code >= 400 {
				t.Errorf("%s: answered %d", c.at, w.Code)
			}
		}
		if len(*got) != 2 || (*got)[0].path != c.path || !reflect.DeepEqual((*got)[0].body, c.body) ||
			(*got)[0].once == "" || (*got)[0].once != (*got)[1].once {
			t.Errorf("%s: the API got %+v, want %v", c.at, *got, c.body)
		}
	}
}

// TestPlayground: looking publishes nothing and draws the verdicts and the request; a fault of the
// data stands at its input; sending goes to the endpoint alone.
func TestPlayground(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	var paths []string
	s.web.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			paths = append(paths, r.URL.RequestURI())
		}
		s.api.ServeHTTP(w, r)
	})
	event := func(more ...string) url.Values {
		v := url.Values{"type": {"a.b"}, "key": {"k"}, "data": {`{"n": 1.00}`}, "endpoint": {"ep_1"}}
		for i := 0; i+1 < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return s.filled("/playground", v)
	}
	w := s.ask("POST", "/playground", event())
	body := w.Body.String()
	for _, want := range []string{"gets it", "does not get it", "webhook-signature", "The signed bytes", "The body was changed on the way", "--dry-run"} {
		if !strings.Contains(body, want) {
			t.Errorf("answered %d without %s", w.Code, want)
		}
	}
	for _, path := range paths {
		if path != "/v1/events/preview?endpoint=ep_1" {
			t.Errorf("looking asked for %s", path)
		}
	}
	for _, fault := range faults(body) {
		t.Error(fault)
	}
	for _, c := range [][2]string{{`{"n": }`, "Line 1, column 7: this is not JSON"}, {"", "Is needed"}} {
		paths = nil
		w := s.ask("POST", "/playground", event("data", c[0], "then", "publish"))
		if w.Code != 422 || !slices.Equal(paths, []string{"/v1/events/preview?endpoint=ep_1"}) || !strings.Contains(w.Body.String(), c[1]) || !strings.Contains(w.Body.String(), html.EscapeString(c[0])+"</textarea>") {
			t.Errorf("%q: answered %d, the API got %v", c[0], w.Code, paths)
		}
	}
	paths = nil
	w = s.ask("POST", "/playground", event("then", "send", "twice", "1"))
	if body = w.Body.String(); w.Code != 200 || len(paths) != 2 || paths[0] != "/v1/endpoints/ep_1/test" || !strings.HasSuffix(paths[1], "/retry") {
		t.Errorf("answered %d, the API got %v", w.Code, paths)
	}
	for _, want := range []string{"The endpoint answered ", ", then answered ", `{&#34;n&#34;: 1.00}</textarea>`, `<option value="ep_1" selected>`, `name="twice" value="1" checked`} {
		if !strings.Contains(body, want) || strings.Contains(body, "has no answer yet") {
			t.Errorf("after sending, the page is without %s, or contradicts itself", want)
		}
	}
	for _, fault := range faults(body) {
		t.Error(fault)
	}
	three := event("then", "send", "more", "{\"n\":2}\n{\"n\":3}", "order", "backwards", "delay", "10s")
	if got := answering(s); s.ask("POST", "/playground", three).Code != 200 || (*got)[0].once == "" || (*got)[0].once == (*got)[1].once ||
		!reflect.DeepEqual(bodiesOf(*got), []any{
			map[string]any{"type": "a.b", "data": map[string]any{"n": 1.0}, "delay": "12s"},
			map[string]any{"type": "a.b", "data": map[string]any{"n": 2.0}, "delay": "11s"},
			map[string]any{"type": "a.b", "data": map[string]any{"n": 3.0}, "delay": "10s"}}) {
		t.Errorf("backwards: the API got %v", *got)
	}
	for _, c := range [][3]string{{"more", "{}\n{", "Line 2: is not JSON"}, {"more", strings.Repeat("{}\n", 10), "at most 9"},
		{"delay", "2h", "from 0s to 1h"}, {"delay", "soon", "from 0s to 1h"}} {
		got := answering(s)
		w := s.ask("POST", "/playground", event("then", "send", c[0], c[1]))
		if w.Code != 422 || len(*got) != 1 || (*got)[0].path != "/v1/events/preview" || !strings.Contains(w.Body.String(), c[2]) {
			t.Errorf("%s %q: answered %d, the API got %v", c[0], c[1], w.Code, *got)
		}
	}
	s.web.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			paths = append(paths, r.URL.RequestURI())
		}
		s.api.ServeHTTP(w, r)
	})
	paths = nil
	if w := s.ask("POST", "/playground", event("then", "publish")); w.Code != 303 || !slices.Equal(paths, []string{"/v1/events"}) {
		t.Errorf("answered %d, the API got %v", w.Code, paths)
	}
}

// TestEditAndResend: the pages of a delivery and of an event lead to a form with the event in it,
// which sends nothing by itself; publishing it makes another event. A session that may not publish,
// or an event whose data are not shown, has no such button.
func TestEditAndResend(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	hidden := false
	s.api.edit = func(name string, answer any) any {
		if name == "event" {
			a := answer.(map[string]any)
			a["payload_hidden"], a["key"], a["metadata"] = hidden, "key & 1", map[string]any{"request": "req_1", grapnel.TraceKey: "00-x"}
		}
		return answer
	}
	link := regexp.MustCompile(`href="(/playground\?[^"]*)">Edit and resend<`)
	for _, at := range []string{"/deliveries/dlv_1", "/events/evt_1"} {
		found := link.FindStringSubmatch(s.ask("GET", at, nil).Body.String())
		if found == nil {
			t.Fatalf("%s leads to no form", at)
		}
		got := answering(s)
		body := s.ask("GET", html.UnescapeString(found[1]), nil).Body.String()
		for _, want := range []string{"and send it as a new event.", `name="key" value="key &amp; 1"`, "request: req_1</textarea>", "The new event has an id of its own"} {
			if !strings.Contains(body, want) || strings.Contains(body, grapnel.TraceKey) {
				t.Errorf("%s: the form is without %s", at, want)
			}
		}
		if chosen := regexp.MustCompile(`<option value="ep_[^"]*" selected>`).MatchString(body); chosen != strings.HasPrefix(at, "/deliveries/") {
			t.Errorf("%s: an endpoint is chosen: %v", at, chosen)
		}
		form := s.filled("/playground", url.Values{"type": {"a.b"}, "data": {`{"n":2}`}, "then": {"publish"}})
		s.ask("POST", "/playground", form)
		if len(*got) != 1 || (*got)[0].path != "/v1/events" || (*got)[0].body["id"] != form.Get("once") {
			t.Errorf("%s: the API got %v", at, *got)
		}
	}
	hidden = true
	if body := s.ask("GET", "/events/evt_1", nil).Body.String(); link.MatchString(body) {
		t.Error("an event with hidden data can be edited")
	}
	if w := s.ask("GET", "/playground?event=evt_1", nil); w.Code != http.StatusConflict {
		t.Errorf("an event with hidden data: answered %d", w.Code)
	}
}

// TestAFinalPolicyIsOffered: the form of an endpoint says what the default policy does with answers
// such as 422, and offers one that does not repeat them; the API gets it as a policy that holds.
func TestAFinalPolicyIsOffered(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	usual, _ := policy.Preset(policy.DefaultPreset)
	final := words.FinalPolicy(&usual)
	body := s.ask("GET", "/endpoints/new", nil).Body.String()
	for _, want := range []string{`value="` + html.EscapeString(final) + `"`, "422): three attempts in ten minutes"} {
		if !strings.Contains(body, want) {
			t.Errorf("the form is without %s", want)
		}
	}
	p, err := policy.Parse([]byte(final))
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[string]policy.Decision{"400": policy.Fail, "404": policy.Fail, "422": policy.Fail,
		"410": policy.DisableEndpoint} {
		if p.Classify[status] != want {
			t.Errorf("%s: %s, want %s", status, p.Classify[status], want)
		}
	}
	got := answering(s)
	s.ask("POST", "/endpoints/new", s.filled("/endpoints/new", url.Values{"url": {"https://a.example"}, "policy": {final}}))
	if sent, _ := (*got)[0].body["policy"].(map[string]any); len(*got) != 1 || sent["preset"] != policy.DefaultPreset {
		t.Errorf("the API got %v", *got)
	}
}
