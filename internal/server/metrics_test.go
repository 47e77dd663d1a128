package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// TestMetricsMove: what happens in a server is what its metrics say.
func TestMetricsMove(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	o.Bounds.Backlog.Every = time.Nanosecond
	s := start(t, o)
	c, m := s.consumer(t), member{running: s}
	var fixed atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/later":
			w.WriteHeader(http.StatusServiceUnavailable)
		case !fixed.Load():
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer receiver.Close()
	settled := func(name string, want float64) {
		t.Helper()
		var got float64
		poll(t, name, func() bool { got = m.measured(t, name); return got == want })
	}
	endpoint := func(path, more string) string {
		return c.must(201, "POST", "/v1/endpoints", `{"url":"`+receiver.URL+`/`+path+`","event_types":["`+path+`"],`+more+`}`)["id"].(string)
	}
	publish := func(kind, more string) {
		c.must(202, "POST", "/v1/events", `{"type":"`+kind+`","data":1`+more+`}`)
	}
	fails := endpoint("fails", `"policy":{"classify":{"4xx":"fail"},"breaker":false}`)
	endpoint("blocks", `"policy":{"classify":{"4xx":"fail"},"then":"block","breaker":false}`)
	endpoint("later", `"policy":{"schedule":{"mode":"since_previous","delays":["0s","1h"]},"breaker":false}`)
	endpoint("paused", `"status":"paused"`)
	c.must(201, "POST", "/v1/queues", `{"name":"jobs","event_types":["job"],"ordering":"none","lease":"10m",
		"policy":{"schedule":{"mode":"since_previous","delays":["0s","1h"]}}}`)
	publish("fails", "")
	publish("fails", "")
	publish("blocks", `,"key":"k"`)
	publish("blocks", `,"key":"k"`)
	publish("later", "")
	publish("paused", "")
	publish("paused", "")
	for range 6 {
		publish("job", "")
	}
	settled("grapnel_dead_letters", 2)
	settled(`grapnel_backlog{state="scheduled"}`, 1)
	settled("grapnel_ordering_blocked_keys", 1)
	// Of six messages one is leased, three are settled, two are ready.
	lease := func() string {
		status, header, _ := c.ask("GET", "/v1/queues/jobs/next?wait=5s", "")
		if status != http.StatusOK {
			t.Fatalf("no message: %d", status)
		}
		return gjson.Get(header.Get("Grapnel-Meta"), "lease").String()
	}
	for _, answer := range []string{"ack", "reject", "nack", ""} {
		if l := lease(); answer != "" {
			c.must(204, "POST", "/v1/leases/"+l+"/"+answer, "")
		}
	}
	for state, want := range map[string]float64{"ready": 2, "scheduled": 2, "held": 2, "leased": 1, "blocked": 1,
		"waiting": 1, "uncounted": 0} {
		settled(`grapnel_backlog{state="`+state+`"}`, want) // the returned message is scheduled
	}
	for name, want := range map[string]float64{
		"grapnel_pending": 9, `grapnel_queue_leases{queue="jobs"}`: 1, "grapnel_lease_held_seconds_count": 3, "grapnel_dead_letters": 3,
		`grapnel_queue_settled_total{action="ack",queue="jobs"}`: 1, `grapnel_queue_settled_total{action="nack",queue="jobs"}`: 1,
		`grapnel_queue_settled_total{action="reject",queue="jobs"}`: 1, `grapnel_queue_settled_total{action="expire",queue="jobs"}`: 0,
	} {
		settled(name, want)
	}
	if age, bytes := m.measured(t, "grapnel_oldest_undelivered_age_seconds"), m.measured(t, "grapnel_store_bytes"); age <= 0 || bytes < 4096 {
		t.Errorf("the oldest is %v s old, the store has %v bytes", age, bytes)
	}
	// Requests that are refused.
	in := c.must(201, "POST", "/v1/sources", `{"name":"gh","verify":{"scheme":"github","secret":"0123456789abcdef"}}`)["ingest_url"].(string)
	in = in[strings.Index(in, "/in/"):]
	for _, signature := range []string{"", "sha256=zz", "sha256=" + strings.Repeat("0", 64), "sha256=" + strings.Repeat("1", 64)} {
		var header []string
		if signature != "" {
			header = []string{"X-Hub-Signature-256", signature}
		}
		if status, _, body := c.ask("POST", in, "{}", header...); status != http.StatusUnauthorized {
			t.Errorf("%q: %d %s", signature, status, body)
		}
	}
	c.must(422, "POST", "/v1/events", `{"type":"no type","data":1}`)
	for name, want := range map[string]float64{
		`grapnel_signature_failures_total{reason="missing"}`: 1, `grapnel_signature_failures_total{reason="malformed"}`: 1,
		`grapnel_signature_failures_total{reason="mismatch"}`: 2, `grapnel_signature_failures_total{reason="timestamp"}`: 0,
		`grapnel_ingest_rejected_total{reason="unverified"}`: 4, `grapnel_ingest_rejected_total{reason="invalid"}`: 1,
	} {
		if got := m.measured(t, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	// A replay of which one fails again would be a test of the replay; here both arrive.
	fixed.Store(true)
	c.must(202, "POST", "/v1/endpoints/"+fails+"/replay", `{}`)
	settled(`grapnel_replay_items_total{result="delivered"}`, 2)
	for name, want := range map[string]float64{`grapnel_replay_items_total{result="created"}`: 2,
		`grapnel_replay_items_total{result="failed"}`: 0, "grapnel_dead_letters": 1} {
		settled(name, want)
	}
}

// TestLeasesHaveSpans: with a collector a consumer gets the context of its lease's span. The span
// links to the span of the publish and ends with the consumer's answer.
func TestLeasesHaveSpans(t *testing.T) {
	var mu sync.Mutex
	var spans strings.Builder
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		spans.Write(body)
	}))
	defer collector.Close()
	o := options(t.TempDir())
	o.AdminKey, o.Traces.JSON, o.Traces.Sampler.Ratio = testKey, true, 1
	o.Traces.Endpoint, _ = url.Parse(collector.URL)
	s := start(t, o)
	c := s.consumer(t)
	c.must(201, "POST", "/v1/queues", `{"name":"jobs","ordering":"none"}`)
	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	got := map[string]string{} // the span ids of leases, by the answers to them
	for _, answer := range []string{"ack", "reject"} {
		c.must(202, "POST", "/v1/events", `{"type":"a","data":1}`, "Traceparent", caller)
		_, h, _ := c.ask("GET", "/v1/queues/jobs/next?wait=5s", "")
		meta := gjson.Parse(h.Get("Grapnel-Meta"))
		is := meta.Get("traceparent").String()
		if len(is) != len(caller) || is[:35] != caller[:35] || is[36:52] == caller[36:52] {
			t.Fatalf("the consumer gets the trace %q", is)
		}
		got[answer] = is[36:52]
		c.must(204, "POST", "/v1/leases/"+meta.Get("lease").String()+"/"+answer, "")
	}
	if err := s.stop(); err != nil { // which exports the rest
		t.Fatal(err)
	}
	producers, found := map[string]bool{}, 0
	all := gjson.Parse(spans.String()).Get("resourceSpans.0.scopeSpans.0.spans").Array()
	for _, span := range all {
		if span.Get("kind").Int() == 4 {
			producers[span.Get("spanId").String()] = true
		}
	}
	for _, span := range all {
		for answer, id := range got {
			if span.Get("spanId").String() != id {
				continue
			}
			found++
			action := span.Get(`attributes.#(key=="grapnel.action").value.stringValue`).String()
			if failed := span.Get("status.code").Int() == 2; action != answer || failed != (answer != "ack") || span.Get("kind").Int() != 5 ||
				!producers[span.Get("links.0.spanId").String()] {
				t.Errorf("the span of the lease with the answer %s: %s", answer, span)
			}
		}
	}
	if found != 2 || len(producers) != 2 {
		t.Errorf("%d spans of 2 leases, %d of 2 events: %s", found, len(producers), spans.String())
	}
}

// TestConsumersGetTheTrace: a lease has the trace of the publish, from a header or from metadata;
// text that is no traceparent is ignored.
func TestConsumersGetTheTrace(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	c := start(t, o).consumer(t)
	c.must(201, "POST", "/v1/queues", `{"name":"jobs","ordering":"none"}`)
	source := c.must(201, "POST", "/v1/sources", `{"name":"s","verify":{"scheme":"none"}}`)["ingest_url"].(string)
	const one, two = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	for _, p := range []struct {
		path, body, header string
		want               []string
	}{
		{"/v1/events", `{"type":"a","data":1}`, one, []string{one}}, {"/v1/events", `{"type":"a","data":1}`, "", []string{""}},
		{"/v1/events", `{"type":"a","data":1}`, strings.ToUpper(one), []string{""}},
		{"/v1/events", `{"type":"a","data":1,"metadata":{"traceparent":"` + two + `"}}`, one, []string{two}},
		{"/v1/events", `{"type":"a","data":1,"metadata":{"traceparent":"mine"}}`, "", []string{""}},
		{"/v1/events/raw?type=a", `"x"`, one, []string{one}},
		{"/v1/events/batch", `{"events":[{"type":"a","data":1},{"type":"a","data":2,"metadata":{"traceparent":"` + two + `"}}]}`, one,
			[]string{one, two}},
		{source[strings.Index(source, "/in/"):], `{}`, one, []string{one}},
	} {
		header := []string{"Content-Type", "application/json"}
		if p.header != "" {
			header = append(header, "Traceparent", p.header, "Tracestate", "a=b", "Baggage", "c=d")
		}
		c.must(202, "POST", p.path, p.body, header...)
		var got []string
		for range p.want {
			_, h, _ := c.ask("GET", "/v1/queues/jobs/next?wait=5s", "")
			meta := gjson.Parse(h.Get("Grapnel-Meta"))
			got = append(got, meta.Get("traceparent").String())
			c.must(204, "POST", "/v1/leases/"+meta.Get("lease").String()+"/ack", "")
		}
		if strings.Join(got, ",") != strings.Join(p.want, ",") {
			t.Errorf("%s with %q gave %q, want %q", p.path, p.header, got, p.want)
		}
	}
}
