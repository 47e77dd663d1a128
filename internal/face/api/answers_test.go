package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
)

// byHand are the operations whose examples no request of TestGoldenExamples makes, with the reason.
// They are held against the document only.
var byHand = map[string]string{
	"stream":              "it does not end",
	"get-alert-link":      "the link is sealed with randomness of its own",
	"follow-alert-link":   "the same",
	"follow-contact-link": "the same",
	"get-jwks":            "the endpoint of the examples has a symmetric secret",
	"open-portal":         "the same",
	"create-portal-link":  "the same",
	"ingest":              "this package's tests receive nothing",
	"metrics":             "this package's tests have none",
	"openapi":             "it is as long as this file",
	"sign-out":            "it needs a session",
}

// shop is a world that examples are about: a tenant's endpoint that failed, and all that an
// operator has besides. The ids are the same each time.
func shop(t *testing.T) (*world, *strings.Replacer) {
	t.Helper()
	w := newWorld(t)
	pol := w.must(201, "POST", "/v1/policies", `{"name":"patient","preset":"standard","timeout":"10s"}`)["id"].(string)
	key := w.must(201, "POST", "/v1/keys", `{"name":"billing service","scopes":["publish"]}`)["id"].(string)
	ep := w.must(201, "POST", "/v1/endpoints", `{"url":"http://billing.example.com/webhooks","description":"Billing","event_types":["invoice.*"],
		"policy":"standard"}`)["id"].(string)
	event := func(amount int) (id, delivery string) {
		id = w.must(202, "POST", "/v1/events", fmt.Sprintf(`{"type":"invoice.paid","key":"customer_42","data":{"invoice":"in_1001","amount":%d}}`,
			amount))["id"].(string)
		return id, storeIDs.Of(w.newest(t))
	}
	first, done := event(4200)
	w.attempt(w.newest(t), 1, 503, w.clock.Add(10*time.Second))
	w.finish(w.newest(t), grapnel.Failed, grapnel.ReasonExhausted, "failed: all attempts are used up")
	rpl := w.must(202, "POST", "/v1/endpoints/"+ep+"/replay", `{"rate":20,"reason":"the receiver was repaired"}`)["id"].(string)
	w.clock = w.clock.Add(time.Minute)
	second, waits := event(1900)
	_, sent := w.sendReally(1)
	if !bytes.Contains(sent, []byte("in_1001")) {
		t.Fatalf("sent %s", sent)
	}
	w.must(200, "PATCH", "/v1/endpoints/"+ep, `{"url":"https://billing.example.com/webhooks"}`)
	que, lse := w.orders()
	src := w.must(201, "POST", "/v1/sources", `{"name":"stripe","verify":{"scheme":"stripe","secret":"whsec_example"},"on_unverified":"quarantine"}`)["id"].(string)
	aside := grapnel.Aside{ID: "req_01kdydz1ayq8n6c4r2t0v5x7z9", Tenant: "default", Why: grapnel.AsideUnverified, Body: []byte(`{"type":"charge.succeeded"}`),
		Intake: grapnel.Intake{Source: src, At: w.clock}}
	if err := w.engine.SetAside(t.Context(), aside); err != nil {
		t.Fatal(err)
	}
	typ := w.must(201, "POST", "/v1/event-types", `{"name":"invoice.paid","check":"refuse","description":"An invoice was paid in full.","schema":{"type":"object",
		"required":["invoice","amount"],"properties":{"invoice":{"type":"string"},"amount":{"type":"integer"}}}}`)["id"].(string)
	w.must(201, "POST", "/v1/event-types/"+typ+"/versions", `{"schema":{"type":"object","required":["invoice","amount"],
		"properties":{"invoice":{"type":"string"},"amount":{"type":"integer"},"currency":{"type":"string"}}},
		"example":{"invoice":"in_1001","amount":4200,"currency":"EUR"},"note":"currency was added"}`)
	chn := w.must(201, "POST", "/v1/channels", `{"url":"ntfy://ntfy.sh/grapnel-alerts","description":"On call"}`)["id"].(string)
	con := w.contact(admin)
	w.endpoint(acmeAdmin, "")
	return w, strings.NewReplacer("EP", ep, "DLV", waits, "DONE", done, "POL", pol, "KEY", key, "EVT", second, "OLD", first, "RPL", rpl,
		"CHN", chn, "CON", con, "QUE", que, "LSE", lse, "SRC", src, "REQ", aside.ID,
		"INC", w.must(201, "POST", "/v1/incidents", `{"title":"Slow deliveries","text":"We are looking into it."}`)["id"].(string),
		"ERS", w.must(202, "POST", "/v1/erasures", `{"tenant":"acme","key":"customer_42","reason":"the customer asked for it"}`)["id"].(string),
		"TYP", typ, "ALR", w.alert("default"), "ISS", w.issue("default", ep, 422, 2, "no such invoice"))
}

// example asks an operation with its example request, and returns that with the answer.
func example(t *testing.T, rt *route, was openapi.Example) openapi.Example {
	t.Helper()
	w, names := shop(t)
	is := openapi.Example{Path: map[string]string{}, Query: was.Query, Request: was.Request, Answers: map[string]json.RawMessage{}}
	if rt.body != nil && len(is.Request) == 0 && !rt.body.optional {
		is.Request = json.RawMessage(bodies()[rt.name])
	}
	ids := things(names, rt)
	ids["/v1/queues/"], ids["/v1/tenants/"], ids["/v1/alert-rules/"] = "orders", "acme", "endpoint_failing"
	target, query, _ := strings.Cut(fill(rt.path, ids), "?")
	for i, part := range strings.Split(rt.path, "/") {
		if name, is2 := strings.CutPrefix(part, "{"); is2 {
			is.Path[strings.TrimSuffix(name, "}")] = strings.Split(target, "/")[i]
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range was.Query {
		values.Set(name, value)
	}
	if is.Query == nil && len(values) > 0 {
		is.Query = map[string]string{}
	}
	for name := range values {
		is.Query[name] = values.Get(name)
	}
	if rt.name == "settle-leases" {
		is.Request = json.RawMessage(names.Replace(`{"acks":["LSE"]}`))
	}
	r := w.ask(admin, rt.method, target+"?"+values.Encode(), string(is.Request), "Accept", "application/json")
	if _, good := rt.gives[r.StatusCode]; !good {
		t.Errorf("%s: answered %d %s", rt.name, r.StatusCode, r.body)
	}
	if len(r.body) > 0 {
		is.Answers[fmt.Sprint(r.StatusCode)] = shortened(t, r)
	}
	return is
}

var credentials = regexp.MustCompile(`"(grp_|whsec_|whpk_|whsk_)[^"]{9,}"`)

// shortened is an answer without secrets, in which a list has two entries at most, and a text three
// lines.
func shortened(t *testing.T, r reply) json.RawMessage {
	t.Helper()
	if media := r.Header.Get("Content-Type"); media != "application/json" {
		text, err := json.Marshal(strings.Join(strings.SplitAfterN(string(r.body), "\n", 4)[:min(3, bytes.Count(r.body, []byte("\n"))+1)], ""))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	text := credentials.ReplaceAll(r.body, []byte(`"$1…"`))
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var out bytes.Buffer
	copyShort(t, in, &out)
	return out.Bytes()
}

// copyShort copies one JSON value, members in their order.
func copyShort(t *testing.T, in *json.Decoder, out *bytes.Buffer) {
	t.Helper()
	token, err := in.Token()
	if err != nil {
		t.Fatal(err)
	}
	open, nested := token.(json.Delim)
	if !nested {
		text, err := json.Marshal(token)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
		return
	}
	out.WriteString(open.String())
	for n := 0; in.More(); n++ {
		into := out
		if open == '[' && n >= 2 {
			into = &bytes.Buffer{} // dropped
		}
		if n > 0 {
			into.WriteByte(',')
		}
		if open == '{' {
			copyShort(t, in, into)
			into.WriteByte(':')
		}
		copyShort(t, in, into)
	}
	end, err := in.Token()
	if err != nil {
		t.Fatal(err)
	}
	out.WriteString(end.(json.Delim).String())
}

// TestGoldenExamples: the request of each example is one that the handlers take, and its answers
// are theirs. It runs before the test of the document, which has the examples in it.
func TestGoldenExamples(t *testing.T) {
	was, is := examples(), map[string]openapi.Example{}
	for _, rt := range routes() {
		if is[rt.name] = was[rt.name]; byHand[rt.name] == "" {
			is[rt.name] = example(t, &rt, was[rt.name])
		}
	}
	var out bytes.Buffer // a line for each operation
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for i, name := range slices.Sorted(maps.Keys(is)) {
		fmt.Fprintf(&out, "%s%q: ", map[bool]string{true: "{\n", false: ","}[i == 0], name)
		if err := enc.Encode(is[name]); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "examples.json", append(out.Bytes(), "}\n"...))
	if text, err := os.ReadFile("examples.json"); *update && err == nil {
		exampleText = text
	}
}

// TestExamplesFollowTheDocument: every operation that takes a body has a good one as its example,
// every answer with a body has one, and each parameter that must be given has a value.
func TestExamplesFollowTheDocument(t *testing.T) {
	s := published31()
	for _, rt := range routes() {
		op := s.at(s.doc, "paths", rt.path, strings.ToLower(rt.method))
		for _, p := range several(s.at(op, "parameters")) {
			m := p.(map[string]any)
			if m["example"] == nil && m["required"] == true {
				t.Errorf("%s: %s has no example", rt.name, m["name"])
			} else if wrong := s.check(m["schema"], m["example"], ""); m["example"] != nil && len(wrong) > 0 && s.at(m["schema"], "type") != "integer" {
				t.Errorf("%s: %s: %v", rt.name, m["name"], wrong)
			}
		}
		if content, takes := s.at(op, "requestBody", "content").(map[string]any); takes {
			s.checkExample(t, rt.name+", request", content, rt.body != nil && rt.body.optional)
		}
		shown := 0
		for status, r := range s.at(op, "responses").(map[string]any) {
			content, has := s.at(r, "content").(map[string]any)
			if has && status[0] == '2' && s.checkExample(t, rt.name+", "+status, content, true) {
				shown++
			}
			shown += strings.Count(status, "204")
		}
		if shown == 0 {
			t.Errorf("%s: no answer has an example", rt.name)
		}
	}
}

// TestExamplesOfWebhooksFollowTheDocument: so have the requests that the server sends.
func TestExamplesOfWebhooksFollowTheDocument(t *testing.T) {
	s := published31()
	all := s.at(s.doc, "webhooks").(map[string]any)
	for name := range all {
		s.checkExample(t, name, s.at(all, name, "post", "requestBody", "content").(map[string]any), false)
	}
	if len(all) < 10 {
		t.Errorf("only %d webhooks", len(all))
	}
}

// checkExample checks the example in a content, and says whether there is one.
func (s schemas) checkExample(t *testing.T, where string, content map[string]any, optional bool) (found bool) {
	t.Helper()
	for media, one := range content {
		example, there := one.(map[string]any)["example"]
		if !there {
			continue
		}
		found = true
		schema := s.at(one, "schema") // times of requests may be shorter than those of answers
		if _, isText := example.(string); isText && media != grapnel.JSONType {
			continue
		}
		for _, wrong := range s.check(schema, example, "") {
			if !strings.HasSuffix(where, "request") || !strings.HasSuffix(wrong, "is not a time with microseconds") {
				t.Errorf("%s: %s", where, wrong)
			}
		}
	}
	if !found && !optional {
		t.Errorf("%s: there is no example", where)
	}
	return found
}
