package server

import (
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	wrongInputs = regexp.MustCompile(`id="wrong-([^"]+)" role="alert">([^<]+)<`)
	formValues  = regexp.MustCompile(`name="(was|once|order)" value="([^"]*)"`)
)

// TestFormsTellAllFaults: a form with several faults comes back with all of them, each at its
// input: those of the form itself (a number that is none, a line without a colon), and those that
// the API finds (a form, an expression, a reference). The inputs keep their texts, and nothing is
// created.
func TestFormsTellAllFaults(t *testing.T) {
	s := start(t, still(t))
	acme := own(t, s, "acme")
	b := newBrowser(t, s.URL())
	b.signIn(testKey)
	token, before := b.token("/"), acme.state()
	for _, c := range []struct {
		name, at, post string
		form           string
		wrong          string // the inputs at fault
		says           []string
	}{
		{"endpoint", "/endpoints/new", "", "url=ftp://a&event_types=a.b%0A%0Aa..b&filter=event.&headers=X-A&max_concurrency=abc&secret=short&policy=none",
			"event_types filter headers max_concurrency policy secret url", []string{"Line 3: must be an event type", "Line 1 has no colon", "&#34;abc&#34; is no number"}},
		{"change of an endpoint", "/endpoints/{id}/edit", "", "url=http://10.0.0.1/x&filter=event.&rate_limit/per_second=abc",
			"filter rate_limit/per_second url", nil},
		{"source", "/sources/new?scheme=stripe", "", "name=&verify/secret=x&type=event.&max_body=big&dedupe/window=1h",
			"dedupe/window max_body name type verify/secret", nil},
		{"change of a source", "/sources/{id}/edit", "", "name=&max_body=big&key=body.", "key max_body name", nil},
		{"secret of a source", "/sources/{id}/rotate", "", "secret=x&overlap=0s&confirm=no", "confirm secret", nil},
		{"secret of an endpoint", "/endpoints/{id}/rotate", "", "secret=x&overlap=0s&confirm=no", "confirm secret", nil},
		{"queue", "/queues/new", "", "name=a+b&max_leased=abc&lease=soon&filter=event.", "filter lease max_leased name", nil},
		{"policy", "/policies/new", "", "name=a+b&schedule/mode=since_previous&schedule/delays=0s%0Asoon&schedule/base=soon&max_attempts=many&classify=410&timeout=soon",
			"classify max_attempts name schedule/delays timeout", []string{"Line 2: is not a duration", "Line 1 has no colon"}},
		{"exponential policy", "/policies/new", "", "name=m&schedule/mode=exponential&schedule/delays=soon&schedule/base=soon&schedule/factor=x&schedule/max=1ms",
			"schedule/base schedule/factor", nil},
		{"preview of a policy", "/policies/new", "", "preview=1&schedule/mode=since_previous&schedule/delays=0s%0Asoon&max_attempts=many",
			"max_attempts schedule/delays", []string{"Line 2: is not a duration"}},
		{"change of a policy", "/policies/{id}/edit", "", "max_attempts=many&timeout=soon", "max_attempts timeout", nil},
		{"channel", "/channels/new", "", "url=nothing://x&rules=No+Rule&quiet_hours/from=25:00&quiet_hours/to=07:00&quiet_hours/tz=Nowhere&digest=soon",
			"digest quiet_hours/from quiet_hours/tz rules url", nil},
		{"key", "/keys/new", "", "name=&scopes=read&expires_at=2001-01-01&from=10.0.0.0/99&tenant=a+b", "expires_at from name tenant", nil},
		{"event type", "/event-types/new", "", `name=a+b&schema={"type":"nothing"}&example={&note=n&check=refuse`, "example name schema", []string{"Line 1, column 1"}},
		{"version of an event type", "/event-types/{id}/version", "", `schema={&example=[`, "example schema", nil},
		{"incident", "/incidents/new", "", "title=&text=&kind=incident&impact=outage&starts_at=soon", "starts_at text title", []string{"as in 2026-01-31T12:00:00Z"}},
		{"alert rule", "/alert-rules/dead_letters/edit", "", "threshold=abc&severity=info", "threshold", nil},
		{"playground", "/playground", "", "type=a..b&key=" + strings.Repeat("k", 300) + "&data={&metadata=x&more={}%0A{&delay=soon&then=send",
			"data delay endpoint key metadata more type", []string{"Line 2: is not JSON"}},
		{"replay", "/replays/new?q=endpoint:{endpoint}+status:skipped", "/replays/start", "rate=fast&stop_after=0&reason=" + strings.Repeat("r", 501), "rate reason stop_after", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := strings.ReplaceAll(acme.fill(c.at), "{endpoint}", acme.ep)
			_, _, page := b.ask("GET", at, nil)
			form, err := url.ParseQuery(c.form)
			if err != nil {
				t.Fatal(err)
			}
			form.Set("token", token)
			form.Set("back", at)
			for _, found := range formValues.FindAllStringSubmatch(page, -1) {
				form.Set(found[1], html.UnescapeString(found[2]))
			}
			var was map[string]string // what a browser sends of inputs that were not touched
			_ = json.Unmarshal([]byte(form.Get("was")), &was)
			for name, value := range was {
				if !form.Has(name) && value != "false" {
					form.Set(name, value)
				}
			}
			post := at
			if c.post != "" {
				post = c.post
			}
			status, _, body := b.ask("POST", post, form)
			said := map[string]string{}
			var inputs []string
			for _, found := range wrongInputs.FindAllStringSubmatch(body, -1) {
				said[found[1]], inputs = found[2], append(inputs, found[1])
			}
			slices.Sort(inputs)
			if got := strings.Join(inputs, " "); got != c.wrong || status != 422 && !form.Has("preview") {
				t.Errorf("answered %d, with faults at %s, want %s: %v", status, got, c.wrong, said)
			}
			for _, text := range c.says {
				if !strings.Contains(body, text) {
					t.Errorf("no fault says %q: %v", text, said)
				}
			}
			if strings.Contains(body, "texts of the form") || strings.Contains(body, `notice bad" role="alert"`) {
				t.Errorf("a fault stands at no input: %s", body)
			}
			if typed := form.Get("filter"); typed != "" && !strings.Contains(body, `value="`+typed+`"`) && !strings.Contains(body, "\n"+typed+"</textarea>") {
				t.Error("what was typed in is lost")
			}
			if now := acme.state(); now != before {
				t.Errorf("something was changed:\n%s\nwas\n%s", now, before)
			}
		})
	}
}
