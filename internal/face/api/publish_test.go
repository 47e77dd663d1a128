package api

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// event is the one with this id, as it is stored.
func (w *world) event(id string) *grapnel.Event {
	w.t.Helper()
	ev, _, err := w.engine.Event(context.Background(), store.Everyone(), "", id)
	if err != nil {
		w.t.Fatal(err)
	}
	return ev
}

func TestPublishKeepsEveryByteOfData(t *testing.T) {
	for i, data := range []string{
		`{"a": 1.0,  "b":[ ]}`, "null", "0", `"text \u00e9 \\ \""`, `"\ud800"`, "[1,2 ,3]", `{"a":1,"a":2}`, "12345678901234567890.1234567890",
		strings.Repeat("[", 64) + strings.Repeat("]", 64), "\"\u2028<&>\"", "{\n\t}", "true", "-0.0e-10",
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			w := newWorld(t)
			for j, body := range []string{
				`{"type":"a","id":"x0","data":` + data + `}`, `{"type":"a","data": ` + data + ` ,"id":"x1"}`,
				"\n{ \"data\"\t:\r\n" + data + "\n,\"id\":\"x2\",\"type\":\"a\"}\n",
			} {
				w.must(202, "POST", "/v1/events", body)
				if got := string(w.event(fmt.Sprintf("x%d", j)).Data); got != data {
					t.Errorf("stored %q, want %q", got, data)
				}
			}
			w.must(202, "POST", "/v1/events/batch", `{"events" : [ {"type":"a","data":1}, {"type":"a","id":"x3","data": `+data+`} ] }`)
			if got := string(w.event("x3").Data); got != data {
				t.Errorf("of a batch: stored %q, want %q", got, data)
			}
			if !strings.Contains(data, "\n") {
				w.must(202, "POST", "/v1/events/batch",
					"\n\n{\"type\":\"a\",\"id\":\"x4\", \"data\": "+data+"}\r\n{\"type\":\"a\",\"data\":1}", "Content-Type", openapi.TypeNDJSON)
				if got := string(w.event("x4").Data); got != data {
					t.Errorf("of a line: stored %q, want %q", got, data)
				}
			}
		})
	}
}

func TestPublishFillsInTheRest(t *testing.T) {
	w := newWorld(t)
	id := w.must(202, "POST", "/v1/events",
		`{"type":"a.b","data":{},"key":"k/é","tenant":"acme","occurred_at":"2025-12-31T23:59:59.5+02:00",`+
			`"metadata":{"a":"1","é/~":"x"}}`)["id"].(string)
	ev := w.event(id)
	if !strings.HasPrefix(id, "evt_") || ev.Type != "a.b" || ev.Key != "k/é" || ev.Tenant != "acme" ||
		ev.Metadata["é/~"] != "x" || ev.ContentType != "application/json" ||
		ev.OccurredAt.Format(wire.TimeLayout) != "2025-12-31T21:59:59.500000Z" || !ev.AcceptedAt.Equal(w.clock) {
		t.Errorf("stored %+v", ev)
	}
	id = w.as(acmeAdmin, 202, "POST", "/v1/events",
		`{"type":"a","data":1,"key":null,"id":null,"tenant":null,"metadata":null,"occurred_at":null}`)["id"].(string)
	if ev := w.event(id); ev.Tenant != "acme" || ev.Key != "" || !ev.OccurredAt.Equal(w.clock) {
		t.Errorf("nulls are not as good as nothing: %+v", ev)
	}
	id = w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)["id"].(string)
	if ev := w.event(id); ev.Tenant != "default" {
		t.Errorf("the tenant is %q", ev.Tenant)
	}
}

// TestDeliverAt: an event for later is accepted now, by every way of publishing, and its delivery
// says until when it waits and why. What has passed is now; the bound is an option.
func TestDeliverAt(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.MaxAhead = time.Hour })
	w.endpoint(admin, "")
	at := func(after time.Duration) string { return w.clock.Add(after).UTC().Format(time.RFC3339Nano) }
	waits := func(key string, after time.Duration) {
		t.Helper()
		d := w.must(200, "GET", "/v1/deliveries?key="+key, "")["data"].([]any)[0].(map[string]any)
		next, err := time.Parse(time.RFC3339Nano, d["next_attempt_at"].(string))
		if err != nil || !next.Equal(w.clock.Add(after).Truncate(time.Microsecond)) {
			t.Errorf("%s: the next attempt is at %v", key, d["next_attempt_at"])
		}
		if asked := strings.Contains(d["reason"].(string), "because its publisher asked"); asked != (after > 0) {
			t.Errorf("%s: the reason is %s", key, d["reason"])
		}
	}
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"one","deliver_at":"`+at(time.Hour)+`"}`)
	waits("one", time.Hour)
	w.must(202, "POST", "/v1/events/batch", `{"events":[{"type":"a","data":1,"key":"two","deliver_at":"`+at(time.Minute)+`"},
		{"type":"a","data":1,"key":"three"}]}`)
	waits("two", time.Minute)
	waits("three", 0)
	w.must(202, "POST", "/v1/events/raw?type=a&key=four&deliver_at="+url.QueryEscape(at(time.Second)), "x", "Content-Type", "text/plain")
	waits("four", time.Second)
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"five","deliver_at":"`+at(-time.Hour)+`"}`)
	waits("five", 0)
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"six","deliver_at":null}`)
	waits("six", 0)
	refused := w.must(422, "POST", "/v1/events", `{"type":"a","data":1,"deliver_at":"`+at(time.Hour+time.Second)+`"}`)
	if text := fmt.Sprint(refused["errors"]); !strings.Contains(text, "/deliver_at") || !strings.Contains(text, "at most 1h") {
		t.Errorf("refused: %v", refused)
	}
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"one"}`)
	behind := w.must(200, "GET", "/v1/deliveries?key=one", "")["data"].([]any)[0].(map[string]any)
	if behind["status"] != "held" || behind["next_attempt_at"] != nil {
		t.Errorf("a later event of the key is %v", behind)
	}
}

func TestAggregatesBecomeKeysThatDoNotMeet(t *testing.T) {
	w := newWorld(t)
	keys := map[string]string{}
	for _, a := range [][2]string{{"order", "1"}, {"order.line", "1"}, {"order", "line/1"}, {"order", "1/2"}, {"order-1", "2"}} {
		id := w.must(202, "POST", "/v1/events", fmt.Sprintf(`{"type":"a","data":1,"aggregate_type":%q,"aggregate_id":%q}`, a[0],
			a[1]))["id"].(string)
		key := w.event(id).Key
		if other, taken := keys[key]; taken {
			t.Errorf("%v and %s share the key %q", a, other, key)
		}
		keys[key] = a[0] + " " + a[1]
	}
	if _, ok := keys["order/line/1"]; !ok {
		t.Errorf("keys are %v", keys)
	}
}

func TestPublishingAnIDAgain(t *testing.T) {
	w := newWorld(t)
	w.endpoint(admin, "")
	first := w.must(202, "POST", "/v1/events", `{"type":"a","id":"x","data":{"n":1},"key":"k"}`)
	w.clock = w.clock.Add(1e9)
	again := w.must(200, "POST", "/v1/events", `{"id":"x","key":"k","data":{"n":1},"type":"a","metadata":{"other":"is fine"}}`)
	if again["duplicate"] != true || again["deliveries"] != 1.0 || again["accepted_at"] != first["accepted_at"] {
		t.Errorf("the second answer is %v, the first was %v", again, first)
	}
	for _, body := range []string{
		`{"type":"b","id":"x","data":{"n":1},"key":"k"}`, `{"type":"a","id":"x","data":{"n": 1},"key":"k"}`,
		`{"type":"a","id":"x","data":{"n":1}}`,
	} {
		if p := w.must(409, "POST", "/v1/events", body); p["code"] != "conflict" {
			t.Errorf("%s: %v", body, p)
		}
	}
	w.only()
}

func TestBatchAnswersInOrderAndKeepsWhatIsRight(t *testing.T) {
	big := `"` + strings.Repeat("x", DefaultMaxEvent) + `"`
	list := []string{
		`{"type":"a","id":"one","data":1}`, `{"type":"no good type","data":1}`, `{"type":"a","id":"taken","data":2}`,
		`{"type":"a","id":"taken","data":1}`,
		`7`, `{"type":"a","data":` + big + `}`, `{"type":"a","id":"two","data":{}}`, `{"type":"a","id":"one","data":1}`,
	}
	want := []any{"one", 422.0, 409.0, "taken", 422.0, 413.0, "two", "one"}
	for name, send := range map[string]func(*world) map[string]any{
		"list": func(w *world) map[string]any {
			return w.must(202, "POST", "/v1/events/batch", `{"events":[`+strings.Join(list, ",")+`]}`)
		},
		"lines": func(w *world) map[string]any {
			return w.must(202, "POST", "/v1/events/batch", strings.Join(list, "\n"), "Content-Type", openapi.TypeNDJSON)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(202, "POST", "/v1/events", `{"type":"a","id":"taken","data":1}`)
			got := send(w)["data"].([]any)
			if len(got) != len(want) {
				t.Fatalf("%d answers for %d events", len(got), len(want))
			}
			for i := range want {
				one := got[i].(map[string]any)
				if one["id"] != want[i] && one["status"] != want[i] {
					t.Errorf("answer %d is %v, want %v", i, one, want[i])
				}
			}
			if got[7].(map[string]any)["duplicate"] != true {
				t.Error("the same event twice in a batch is not a duplicate")
			}
			pointer := map[string]string{"list": "/events/1/type", "lines": "/1/type"}[name]
			if p := got[1].(map[string]any)["errors"].([]any)[0].(map[string]any)["pointer"]; p != pointer {
				t.Errorf("the pointer is %v, want %s", p, pointer)
			}
			if one, two := w.event("one"), w.event("two"); one.Seq >= two.Seq {
				t.Error("the events are not in the order given")
			}
		})
	}
}

func TestNDJSONLinesFailAlone(t *testing.T) {
	w := newWorld(t)
	body := "{\"type\":\"a\",\"data\":1}\n{broken\n\n   \n{\"type\":\"a\",\"data\":\"\xff\"}\n{\"type\":\"a\",\"data\":2}"
	got := w.must(202, "POST", "/v1/events/batch", body, "Content-Type", openapi.TypeNDJSON)["data"].([]any)
	if len(got) != 4 {
		t.Fatalf("%d answers: %v", len(got), got)
	}
	for i, status := range []any{nil, 400.0, 400.0, nil} {
		if got[i].(map[string]any)["status"] != status {
			t.Errorf("line %d: %v", i, got[i])
		}
	}
}

func TestRawTakesBytesAsTheyAre(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct{ body, media, stored string }{
		{"\x00\xff not JSON", "application/octet-stream", "application/octet-stream"},
		{"<x/>", "text/xml; charset=latin1", "text/xml; charset=latin1"},
		{`{"a" : 1}`, "application/json", "application/json"}, {`{"a":1}`, "application/json; charset=utf-8",
			"application/json; charset=utf-8"}, {"x", "", "application/octet-stream"},
	} {
		id := fmt.Sprintf("raw%d", i)
		w.must(202, "POST", "/v1/events/raw?type=a.b&key=k%201&tenant=acme&occurred_at=2026-01-01T00:00:00Z&id="+id, c.body,
			"Content-Type", c.media)
		if ev := w.event(id); string(ev.Data) != c.body || ev.ContentType != c.stored || ev.Key != "k 1" || ev.Tenant != "acme" ||
			ev.OccurredAt.Year() != 2026 {
			t.Errorf("stored %+v", ev)
		}
	}
	w.must(202, "POST", "/v1/events/raw?type=a&id=agg&aggregate_type=order&aggregate_id=7", "x", "Content-Type", "text/plain")
	if k := w.event("agg").Key; k != "order/7" {
		t.Errorf("the key is %q", k)
	}
	w.must(202, "POST", "/v1/events/raw?type=a&id=empty", "", "Content-Type", "text/plain")
	if ev := w.event("empty"); len(ev.Data) != 0 {
		t.Errorf("stored %+v", ev)
	}
}

func TestEventsKeepLittleMoreThanThemselves(t *testing.T) {
	padding := strings.Repeat(" ", 8<<10)
	for _, body := range []string{`{"type":"a","data":{"n":1},` + padding + `"key":"k"}`, padding + `{"type":"a","data":1}`} {
		raw := []byte(body)
		var f strict.Faults
		d := readDraft(raw, gjson.ParseBytes(raw), "/", &f)
		for i := range raw {
			raw[i] = 'x' // a reader that still sees this keeps the whole body
		}
		if strings.Contains(string(d.data), "x") || d.kind.text != "a" {
			t.Errorf("the data is a part of a body that is %d times as large", len(raw)/len(d.data))
		}
	}
}

// wire.NewEvent is only a picture; this holds it against what readDraft takes.
func TestDocumentedFieldsOfEventsAreThoseThatAreRead(t *testing.T) {
	w := newWorld(t)
	for _, f := range strict.Fields(reflect.TypeFor[wire.NewEvent]()) {
		name := f.Name
		if name == "data" {
			continue
		}
		p := w.must(422, "POST", "/v1/events", fmt.Sprintf(`{%q:[]}`, name))
		if f := p["errors"].([]any)[0].(map[string]any); f["pointer"] != "/"+name || strings.Contains(f["detail"].(string), "known") {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// TestWhatCurlSaysOnItsOwnIsTaken: -d without a header calls every body a form.
func TestWhatCurlSaysOnItsOwnIsTaken(t *testing.T) {
	w := newWorld(t)
	w.must(202, "POST", "/v1/events", `{"type":"a","id":"x1","data":1}`, "Content-Type", "application/x-www-form-urlencoded")
	if got := w.event("x1"); got.ContentType != grapnel.JSONType || string(got.Data) != "1" {
		t.Errorf("stored as %s: %s", got.ContentType, got.Data)
	}
	w.must(400, "POST", "/v1/events", `type=a&data=1`, "Content-Type", "application/x-www-form-urlencoded")
}

// TestDeepDataFailAlone: an event of a batch whose data are nested too deep is that event's
// problem.
func TestDeepDataFailAlone(t *testing.T) {
	w := newWorld(t)
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	got := w.must(202, "POST", "/v1/events/batch", `{"events":[{"type":"a","id":"x1","data":1},{"type":"a","data":`+deep+`}]}`)
	problems := got["data"].([]any)
	if w.event("x1") == nil || fmt.Sprint(problems[1].(map[string]any)["errors"]) != "[map[detail:is nested more than 64 levels deep pointer:/events/1/data]]" {
		t.Errorf("answered %v", problems)
	}
}

// TestTooLargeIsAnsweredToThoseWhoWriteFirst: a caller that writes its whole body before it reads
// anything gets the answer too.
func TestTooLargeIsAnsweredToThoseWhoWriteFirst(t *testing.T) {
	w := newWorld(t)
	srv := httptest.NewServer(w.handler)
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const size = 20 << 20
	body := append([]byte(fmt.Sprintf("POST /v1/events/batch HTTP/1.1\r\nHost: x\r\n"+
		"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", admin, size)), make([]byte, size)...)
	if _, err := c.Write(body); err != nil {
		t.Fatalf("it was not read: %v", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("answered %d", resp.StatusCode)
	}
}

// TestProbesMayAddParameters: what selects nothing cannot be misspelt.
func TestProbesMayAddParameters(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/livez?x", "/readyz?verbose=1", "/openapi.json?_=1", "/status?a=b"} {
		if r := w.ask("", "GET", path, ""); r.StatusCode != 200 {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}

// TestTheHistoryOfAnEndpointOutlivesIt: its deliveries are listed after it is gone, to those who
// may see them.
func TestTheHistoryOfAnEndpointOutlivesIt(t *testing.T) {
	w := newWorld(t)
	id := w.endpoint(admin, `,"tenant":"acme"`)
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"tenant":"acme"}`)
	w.must(204, "DELETE", "/v1/endpoints/"+id, "")
	if got := w.must(200, "GET", "/v1/endpoints/"+id+"/deliveries", ""); len(got["data"].([]any)) != 1 {
		t.Errorf("listed %v", got)
	}
	w.key("key_beta", "grp_of_beta_0123456789", "beta", grapnel.ScopeRead)
	w.as("grp_of_beta_0123456789", 404, "GET", "/v1/endpoints/"+id+"/deliveries", "")
}

// TestTypesNameTheirLimits: the fault of a type with a segment of 65 characters says how many are
// allowed.
func TestTypesNameTheirLimits(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{`{"type":"%s","data":1}`, `{"type":"a","data":1,"aggregate_type":"%s","aggregate_id":"1"}`} {
		w.must(202, "POST", "/v1/events", fmt.Sprintf(body, strings.Repeat("a", 64)))
		if r := w.ask(admin, "POST", "/v1/events", fmt.Sprintf(body, strings.Repeat("a", 65))); !strings.Contains(string(r.body), "1 to 64 characters") {
			t.Errorf("%d %s", r.StatusCode, r.body)
		}
	}
}

// An aggregate's key is its type, a slash and its id. A fault of its length says so: the id alone
// is within the limit.
func TestAggregatesKeyThatIsTooLong(t *testing.T) {
	w := newWorld(t)
	body := `{"type":"a","data":1,"aggregate_type":"invoice","aggregate_id":"` + strings.Repeat("x", 249) + `"}`
	p := w.must(422, "POST", "/v1/events", body)
	fault := p["errors"].([]any)[0].(map[string]any)
	if fault["pointer"] != "/aggregate_id" || !strings.Contains(fault["detail"].(string), "aggregate_type and a slash") {
		t.Errorf("at fault is %v", fault)
	}
	w.must(202, "POST", "/v1/events", strings.Replace(body, "xx", "x", 1))
}
