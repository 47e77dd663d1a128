//go:build prove

package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// shortWait is less than the pause after which a node reads a queue without a hint.
const shortWait = "4s"

// TestQueueAtTwoNodes: an event published at one node wakes consumers at the other. A lease can be
// settled at either.
func TestQueueAtTwoNodes(t *testing.T) {
	nodes, _ := members(t, 2, patient)
	for _, m := range nodes {
		poll(t, "nodes that know each other", func() bool { return settled(m.status(t), 2) })
	}
	a, b := nodes[0].consumer(t), nodes[1].consumer(t)
	source := a.must(
		http.StatusCreated,
		"POST",
		"/v1/sources",
		`{"name":"s","verify":{"scheme":"none","id_header":"X-Id"},"key":"event.data.k"}`,
	)
	in := source["ingest_url"].(string)
	b.must(http.StatusCreated, "POST", "/v1/queues", fmt.Sprintf(`{"name":"work","source":%q}`, source["id"]))

	// Both nodes get twenty copies: one event results. The same id with another body is reported as a
	// conflict at both.
	var mu sync.Mutex
	answers, ids := map[int]int{}, map[string]bool{}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			status, _, body := []*consumer{a, b}[i%2].ask("POST", in, `{"k":"k1","n":1}`, "X-Id", "1")
			var is struct{ ID string }
			if err := json.Unmarshal(body, &is); err != nil {
				t.Errorf("%v in %s", err, body)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[status]++
			ids[is.ID] = true
		})
	}
	all.Wait()
	if answers[http.StatusAccepted] != 1 || answers[http.StatusOK] != 19 || len(ids) != 1 {
		t.Errorf("20 copies: answers %v, events %v", answers, ids)
	}
	for _, at := range []*consumer{a, b} {
		if is := at.must(http.StatusOK, "POST", in, `{"k":"k1","n":2}`, "X-Id", "1"); is["conflict"] != true || !ids[is["id"].(string)] {
			t.Errorf("a conflict is answered %v", is)
		}
	}

	// Each node counts for itself toward a source's rate, as the API's document says.
	limited := a.must(http.StatusCreated, "POST", "/v1/sources",
		`{"name":"limited","verify":{"scheme":"none"},"rate_limit":{"per_second":0.0001,"burst":1}}`)["ingest_url"].(string)
	for _, at := range []*consumer{a, b} {
		at.must(http.StatusAccepted, "POST", limited, fmt.Sprintf("%p", at))
		at.must(http.StatusTooManyRequests, "POST", limited, fmt.Sprintf("%p again", at))
	}

	// Each node shows the consumers of both, also those without a lease.
	b.must(http.StatusCreated, "POST", "/v1/queues", `{"name":"idle"}`)
	for i, at := range []*consumer{a, b, b} {
		at.ask("GET", fmt.Sprintf("/v1/queues/idle/next?consumer=w%d", i/2), "")
	}
	b.ask("GET", "/v1/queues/idle/next?consumer=w2", "")
	var shown [2]string
	for i, at := range []*consumer{a, b} {
		shown[i] = fmt.Sprint(at.must(http.StatusOK, "GET", "/v1/queues/idle", "")["consumers"])
	}
	if shown[0] != shown[1] || strings.Count(shown[0], "name:w") != 3 {
		t.Errorf("consumers: %s and %s", shown[0], shown[1])
	}

	// A lease of one node is settled at the other, once. The key's next message then goes to a
	// consumer that waits at the first.
	lease := func(c *consumer) (string, string) {
		status, header, body := c.ask("GET", "/v1/queues/work/next?wait="+shortWait, "")
		var meta struct{ Lease string }
		if err := json.Unmarshal([]byte(header.Get("Grapnel-Meta")), &meta); status != http.StatusOK || err != nil {
			t.Fatalf("next answered %d %s, %v", status, body, err)
		}
		return meta.Lease, string(body)
	}
	first, body := lease(a)
	if body != `{"k":"k1","n":1}` {
		t.Errorf("the queue has %s", body)
	}
	b.must(http.StatusAccepted, "POST", in, `{"k":"k1","n":3}`, "X-Id", "2")
	if status, _, body := b.ask("GET", "/v1/queues/work/next", ""); status != http.StatusNoContent {
		t.Errorf("a key's next one was handed out before its time: %d %s", status, body)
	}
	waiting := make(chan string, 1)
	all.Go(func() {
		_, _, body := a.ask("GET", "/v1/queues/work/next?wait="+shortWait, "")
		waiting <- string(body)
	})
	nodes[0].waits(t, 1)
	b.must(http.StatusNoContent, "POST", "/v1/leases/"+first+"/ack", "")
	if got := <-waiting; got != `{"k":"k1","n":3}` {
		t.Errorf("who waited got %q", got)
	}
	for _, at := range []*consumer{a, b} {
		at.must(http.StatusConflict, "POST", "/v1/leases/"+first+"/ack", "")
	}

	// A consumer that waits at one node gets an answer when the queue is deleted at the other.
	gone := make(chan int, 1)
	all.Go(func() {
		status, _, _ := a.ask("GET", "/v1/queues/work/next?wait="+shortWait, "")
		gone <- status
	})
	nodes[0].waits(t, 1)
	b.must(http.StatusNoContent, "DELETE", "/v1/queues/work", "")
	if status := <-gone; status != http.StatusNotFound {
		t.Errorf("who waited was answered %d", status)
	}
	all.Wait()

	stopsReceiving(t, a, b, nodes[1])
}
