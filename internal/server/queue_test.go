package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
)

// consumer calls a server directly, as programs without a client do.
type consumer struct {
	t    *testing.T
	url  string
	http *http.Client
}

func (r running) consumer(t *testing.T) *consumer {
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(transport.CloseIdleConnections)
	return &consumer{t, r.URL(), &http.Client{Transport: transport}}
}

// ask sends a request to a path, or to a URL from an answer, and returns the status, the header and
// the body.
func (c *consumer) ask(method, target, body string, header ...string) (int, http.Header, []byte) {
	c.t.Helper()
	if strings.HasPrefix(target, "/") {
		target = c.url + target
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testKey)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, got
}

func (c *consumer) must(status int, method, target, body string, header ...string) map[string]any {
	c.t.Helper()
	got, _, raw := c.ask(method, target, body, header...)
	if got != status {
		c.t.Fatalf("%s %s: answered %d, want %d: %s", method, target, got, status, raw)
	}
	var m map[string]any
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &m); err != nil {
			c.t.Fatalf("%v in %s", err, raw)
		}
	}
	return m
}

// The programs that ask at /queues/{name}/next know three URLs and nothing else.
func TestProgramsThatKnowOnlyThreeURLs(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	c := start(t, o).consumer(t)
	c.must(201, "POST", "/v1/queues", `{"name":"orders","ordering":"none","policy":{"schedule":{"mode":"since_previous","delays":["0s","1h"]}}}`)
	for _, data := range []string{`{"n":1}`, `{"n":2}`, `{"n":3}`} {
		c.must(202, "POST", "/v1/events", `{"type":"a.b","data":`+data+`}`)
	}
	for n, verb := range []string{"ackUrl", "nackUrl", "rejectUrl"} {
		status, header, body := c.ask("GET", "/queues/orders/next", "", "Accept", "*/*")
		if want := fmt.Sprintf(`{"n":%d}`, n+1); status != 200 || string(body) != want || header.Get("Content-Type") != "application/json" {
			t.Fatalf("answered %d %s %s, want %s", status, header.Get("Content-Type"), body, want)
		}
		var meta map[string]any
		if err := json.Unmarshal([]byte(header.Get("X-Hooque-Meta")), &meta); err != nil {
			t.Fatal(err)
		}
		if verb == "ackUrl" {
			c.must(204, "POST", meta[verb].(string), "")
		} else {
			c.must(204, "POST", meta[verb].(string), `{"reason":"not today"}`, "Content-Type", "application/json")
		}
	}
	if status, _, _ := c.ask("GET", "/queues/orders/next", ""); status != 204 {
		t.Errorf("an empty queue answered %d", status)
	}
	q := c.must(200, "GET", "/v1/queues/orders", "")
	if q["ready"] != 0.0 || q["delayed"] != 1.0 || q["dead"] != 1.0 || q["leased"] != 0.0 {
		t.Errorf("what is in the queue: %v", q)
	}
	list := c.must(200, "GET", "/v1/endpoints/"+q["id"].(string)+"/deliveries?status=failed", "")["data"].([]any)
	if d := list[0].(map[string]any); len(list) != 1 || d["reason_code"] != "rejected" ||
		!strings.Contains(d["reason"].(string), "not today") {
		t.Errorf("the dead letter: %v", list)
	}
}

// A lease is durable before it is answered. A consumer that waits for a message gets it as soon as
// there is one.
func TestQueueAcrossARestart(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	first := start(t, o)
	c := first.consumer(t)
	c.must(201, "POST", "/v1/queues", `{"name":"orders","lease":"10m"}`) // however long the restart takes
	got := make(chan map[string]any, 1)
	go func() {
		_, _, raw := c.ask("GET", "/v1/queues/orders/next?wait=20s&max=10&consumer=w1", "")
		var m map[string]any
		_ = json.Unmarshal(raw, &m)
		got <- m
	}()
	poll(t, "somebody waits", func() bool {
		_, _, raw := c.ask("GET", "/metrics", "")
		return bytes.Contains(raw, []byte("grapnel_consumers_waiting 1"))
	})
	c.must(202, "POST", "/v1/events", `{"type":"a.b","key":"k","data":{ "spaces":  "kept" }}`)
	c.must(202, "POST", "/v1/events", `{"type":"a.b","key":"k","data":2}`)
	data := (<-got)["data"].([]any)
	if len(data) != 1 {
		t.Fatalf("of one key came %v at once", data)
	}
	lease := data[0].(map[string]any)["meta"].(map[string]any)["lease"].(string)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	second := start(t, o)
	c = second.consumer(t)
	if status, _, body := c.ask("GET", "/v1/queues/orders/next", ""); status != 204 {
		t.Fatalf("what is leased was handed out again: %d %s", status, body)
	}
	c.must(200, "POST", "/v1/leases/"+lease+"/extend", `{"by":"1h"}`)
	c.must(204, "POST", "/v1/leases/"+lease+"/ack", "")
	c.must(409, "POST", "/v1/leases/"+lease+"/ack", "")
	c.must(409, "POST", "/v1/leases/"+lease+"/nack", "")
	c.must(200, "PATCH", "/v1/queues/orders", `{"lease":"2s"}`, "Content-Type", "application/merge-patch+json")
	status, header, body := c.ask("GET", "/v1/queues/orders/next?wait=5s", "")
	if status != 200 || string(body) != "2" || !strings.Contains(header.Get("Grapnel-Meta"), `"attempt":1`) {
		t.Fatalf("the next of the key: %d %s %v", status, body, header)
	}
	// This message is not settled: it comes again when its lease expires, as the second attempt.
	status, header, body = c.ask("GET", "/v1/queues/orders/next?wait=20s", "")
	if status != 200 || string(body) != "2" || !strings.Contains(header.Get("Grapnel-Meta"), `"attempt":2`) {
		t.Fatalf("what was forgotten: %d %s %v", status, body, header)
	}
}

func TestClientConsumesAQueue(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	c := s.client(t, testKey)
	if _, err := c.CreateQueue(t.Context(), client.NewQueue{Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	const events = 30
	for n := range events {
		if _, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Key: fmt.Sprint(n % 3), Data: []byte(fmt.Sprint(n))}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	seen := make(chan string, events)
	err := c.Consume(ctx, "orders", func(_ context.Context, m *client.Message) error {
		seen <- string(m.Body)
		if len(seen) == events {
			stop()
		}
		return nil
	}, client.ConsumeOptions{Concurrency: 4, Wait: time.Second})
	if err != nil || len(seen) != events {
		t.Fatal(len(seen), err)
	}
	last := map[string]int{}
	for range events {
		var n int
		if _, err := fmt.Sscan(<-seen, &n); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint(n % 3)
		if before, there := last[key]; there && n <= before {
			t.Errorf("of key %s came %d after %d", key, n, before)
		}
		last[key] = n
	}
	poll(t, "everything is acked", func() bool {
		q, err := c.Queue(t.Context(), "orders")
		return err == nil && q.Ready+q.Leased+q.Waiting+q.Delayed == 0
	})
}

// When the server stops, waiting consumers get an empty answer at once, and streams end.
func TestStoppingAnswersWhoWaits(t *testing.T) {
	o := options(t.TempDir())
	// net/http waits five seconds for a connection on which nothing came yet, and a client has one
	// now and then: it dials while another connection becomes free.
	o.AdminKey, o.DrainTimeout = testKey, time.Minute
	s := start(t, o)
	c := s.consumer(t)
	c.must(201, "POST", "/v1/queues", `{"name":"orders"}`)
	answered := make(chan int, 2)
	for _, target := range []string{"/v1/queues/orders/next?wait=60s", "/v1/queues/orders/stream"} {
		go func() {
			status, _, _ := c.ask("GET", target, "")
			answered <- status
		}()
	}
	poll(t, "both wait", func() bool {
		_, _, raw := c.ask("GET", "/metrics", "")
		return bytes.Contains(raw, []byte("grapnel_consumers_waiting 2"))
	})
	began := time.Now()
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > o.DrainTimeout/2 {
		t.Errorf("stopping took %s of the %s that it may", took, o.DrainTimeout)
	}
	if first, second := <-answered, <-answered; first+second != 204+200 {
		t.Errorf("they were answered %d and %d", first, second)
	}
}

// Failures of a quiet queue create no operational events, however its deliveries end. A queue that
// is not quiet shows the events that would be created.
func TestNobodyNoticesAQuietQueue(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	c := start(t, o).consumer(t)
	once := `"policy":{"schedule":{"mode":"since_previous","delays":["0s"]},"max_attempts":1,"then":"block"}`
	c.must(201, "POST", "/v1/queues", `{"name":"watch","event_types":["webhook_endpoint.*"]}`)
	q := c.must(201, "POST", "/v1/queues", `{"name":"mine","event_types":["a.b"],"quiet":true,`+once+`}`)
	loud := c.must(201, "POST", "/v1/queues", `{"name":"loud","event_types":["x.y"],"quiet":true}`)
	if got := c.must(
		200,
		"PATCH",
		"/v1/queues/loud",
		`{"quiet":null}`,
		"Content-Type",
		"application/merge-patch+json",
	); q["quiet"] != true || loud["quiet"] != true ||
		got["quiet"] != false {
		t.Fatalf("quiet: %v, %v, then %v", q["quiet"], loud["quiet"], got["quiet"])
	}
	id := q["id"].(string)
	next := func(queue string) string {
		t.Helper()
		data := c.must(200, "GET", "/v1/queues/"+queue+"/next?max=1", "")["data"].([]any)
		return "/v1/leases/" + data[0].(map[string]any)["meta"].(map[string]any)["lease"].(string)
	}
	publish := func(types ...string) {
		t.Helper()
		for _, typ := range types {
			c.must(202, "POST", "/v1/events", `{"type":"`+typ+`","key":"k","data":1}`)
		}
	}

	publish("a.b", "a.b", "a.b", "x.y")
	c.must(204, "POST", next("mine")+"/ack", "")
	c.must(204, "POST", next("mine")+"/reject", `{"reason":"no such route"}`)
	c.must(204, "POST", next("mine")+"/nack", `{"reason":"on fire"}`)
	c.must(204, "POST", next("loud")+"/reject", "")
	publish("a.b", "a.b")
	c.must(200, "POST", "/v1/queues/mine/purge", `{"confirm":"mine"}`)
	publish("a.b")
	skipped := c.must(200, "GET", "/v1/endpoints/"+id+"/deliveries?status=pending", "")["data"].([]any)[0].(map[string]any)["id"].(string)
	c.must(200, "POST", "/v1/deliveries/"+skipped+"/skip", `{"reason":"seen"}`)
	c.must(200, "PATCH", "/v1/queues/mine", `{"status":"disabled"}`, "Content-Type", "application/merge-patch+json")
	c.must(200, "PATCH", "/v1/queues/mine", `{"status":"enabled"}`, "Content-Type", "application/merge-patch+json")
	publish("a.b")
	c.must(204, "DELETE", "/v1/queues/mine", "")

	ended := map[string]int{}
	poll(t, "what waited is ended", func() bool {
		clear(ended)
		for _, d := range c.must(200, "GET", "/v1/deliveries?endpoint="+id, "")["data"].([]any) {
			ended[d.(map[string]any)["status"].(string)]++
		}
		return ended["pending"]+ended["held"] == 0
	})
	if want := map[string]int{"delivered": 1, "discarded": 4, "skipped": 1, "dropped": 1}; !maps.Equal(ended, want) {
		t.Errorf("it ended as %v, want %v", ended, want)
	}
	told := c.must(200, "GET", "/v1/queues/watch/next?max=10", "")["data"].([]any)
	if data := told[0].(map[string]any)["body"].(map[string]any); len(told) != 1 || data["endpoint_id"] != loud["id"] {
		t.Errorf("told: %v", told)
	}
	if dead := c.must(200, "GET", "/v1/dead-letters", "")["data"].([]any); len(dead) != 1 ||
		dead[0].(map[string]any)["endpoint_id"] != loud["id"] {
		t.Errorf("dead letters: %v", dead)
	}
	totals := c.must(200, "GET", "/v1/stats", "")["totals"].(map[string]any)
	for name, want := range map[string]float64{"attempts": 1, "failed": 1, "delivered": 0, "discarded": 0, "skipped": 0, "dropped": 0,
		"retried": 0} {
		if totals[name] != want {
			t.Errorf("%s: %v counted, want %v", name, totals[name], want)
		}
	}
	_, _, metrics := c.ask("GET", "/metrics", "")
	if !bytes.Contains(metrics, []byte(`grapnel_deliveries_total{outcome="failed"} 1`)) {
		t.Error("the metrics count other failures than that of the queue that is not quiet")
	}
}
