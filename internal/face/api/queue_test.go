package api

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/inbound/queue"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// What the fake engine has for queues.

func (s *fakeEngine) Queues(scope store.Scope) (qs []grapnel.Endpoint) {
	for _, ep := range s.Endpoints(scope) {
		if ep.Queue != nil {
			qs = append(qs, ep)
		}
	}
	return qs
}

func (s *fakeEngine) Queue(scope store.Scope, tenant, name string) (grapnel.Endpoint, bool) {
	var found []grapnel.Endpoint
	for _, ep := range s.Queues(scope) {
		if ep.ID == name {
			return ep, true
		}
		if ep.Queue.Name == name && (tenant == "" || ep.Tenant == tenant) {
			found = append(found, ep)
		}
	}
	if len(found) != 1 {
		return grapnel.Endpoint{}, false
	}
	return found[0], true
}

func (s *fakeEngine) Empty(ctx context.Context, _ store.Scope, id string, by grapnel.By) (int, error) {
	return s.End(ctx, id, store.Ending{Status: grapnel.Discarded, Reason: "discarded: the queue was emptied: " + by.Reason, At: s.now()}, 1000)
}

func (s *fakeEngine) Settle(ctx context.Context, changes []core.Change) ([]store.Changed, error) {
	plain := make([]store.Change, len(changes))
	for i := range changes {
		plain[i] = changes[i].Change
	}
	return s.Record(ctx, plain)
}

// queues lets a world hand out. Its room has a clock of its own, because it has goroutines that
// look at it; the function moves both.
func (w *world) queues() (pass func(time.Duration)) {
	w.t.Helper()
	var clock atomic.Int64
	clock.Store(w.clock.UnixMicro())
	room := w.room(func() time.Time { return time.UnixMicro(clock.Load()).UTC() })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		room.Run(ctx)
	}()
	w.t.Cleanup(func() { cancel(); <-done })
	w.options.Queues = room
	w.handler = New(w.options)
	return func(d time.Duration) {
		w.clock = w.clock.Add(d)
		clock.Store(w.clock.UnixMicro())
		room.Sweep(context.Background())
	}
}

func (w *world) room(now func() time.Time) *queue.Broker {
	return queue.New(queue.Options{Engine: w.engine, Store: w.engine.Faulty, Log: w.options.Log, Random: w.options.Random, Now: now})
}

// orders makes a queue of that name with three messages, one of which is leased.
func (w *world) orders() (id, lease string) {
	w.t.Helper()
	w.queues()
	id = w.must(201, "POST", "/v1/queues", `{"name":"orders","event_types":["order.*"],"ordering":"none"}`)["id"].(string)
	for range 3 {
		w.must(200, "POST", "/v1/endpoints/"+id+"/test", `{"type":"order.made","data":{"n":1}}`)
	}
	return id, w.next(200, "/v1/queues/orders/next")["lease"].(string)
}

// next asks for a message and returns what its header says.
func (w *world) next(status int, target string, header ...string) map[string]any {
	w.t.Helper()
	r := w.ask(admin, "GET", target, "", header...)
	if r.StatusCode != status {
		w.t.Fatalf("%s: answered %d %s", target, r.StatusCode, r.body)
	}
	if status != 200 {
		return nil
	}
	var meta map[string]any
	if err := json.Unmarshal([]byte(r.Header.Get("Grapnel-Meta")), &meta); err != nil {
		w.t.Fatalf("%v in %q", err, r.Header.Get("Grapnel-Meta"))
	}
	return meta
}

func badQueues() []bad {
	invalid := grapnel.CodeInvalid
	made := func(name, members, pointer string) bad {
		return bad{name: "queue: " + name, method: "POST", target: "/v1/queues", body: `{` + members + `}`, status: 422,
			code: invalid, pointer: pointer}
	}
	post := func(name, target, body, pointer string) bad {
		return bad{name: "queue: " + name, method: "POST", target: target, body: body, status: 422, code: invalid, pointer: pointer}
	}
	get := func(name, target, pointer string) bad {
		return bad{name: "queue: " + name, method: "GET", target: target, status: 422, code: invalid, pointer: pointer}
	}
	return []bad{
		made("no name", ``, "/name"),
		made("a name with a dot", `"name":"a.b"`, "/name"),
		made("a name with a slash", `"name":"a/b"`, "/name"),
		made("a name like an id", `"name":"que_1"`, "/name"),
		made("a name too long", `"name":"`+strings.Repeat("n", 65)+`"`, "/name"),
		made("a url", `"name":"q","url":"https://a.example"`, "/url"),
		made("a lease too short", `"name":"q","lease":"999ms"`, "/lease"),
		made("a lease too long", `"name":"q","lease":"12h1s"`, "/lease"),
		made("a lease without unit", `"name":"q","lease":"30"`, "/lease"),
		made("a lease that is a number", `"name":"q","lease":30`, "/lease"),
		made("none leased", `"name":"q","max_leased":0`, "/max_leased"),
		made("too many leased", `"name":"q","max_leased":10001`, "/max_leased"),
		made("source unknown", `"name":"q","source":"src_none"`, "/source"),
		made("policy unknown", `"name":"q","policy":"nobodys"`, "/policy"),
		made("ordering unknown", `"name":"q","ordering":"fifo"`, "/ordering"),
		made("filter that is none", `"name":"q","filter":"event.type =="`, "/filter"),
		made("event type that is none", `"name":"q","event_types":["a..b"]`, "/event_types/0"),
		{name: "queue: name taken", method: "POST", target: "/v1/queues", body: `{"name":"orders"}`, status: 409,
			code: grapnel.CodeConflict, pointer: "-"},
		{name: "queue: patch of its id", method: "PATCH", target: "/v1/queues/QUE", body: `{"id":"x"}`, status: 422, code: invalid,
			pointer: "/id"},
		{name: "queue: patch without name", method: "PATCH", target: "/v1/queues/QUE", body: `{"name":null}`, status: 422,
			code: invalid, pointer: "/name"},
		{name: "queue: patch of its lease", method: "PATCH", target: "/v1/queues/orders", body: `{"lease":"0s"}`, status: 422,
			code: invalid, pointer: "/lease"},
		post("purge without a word", "/v1/queues/QUE/purge", `{}`, "/confirm"),
		post("purge of another", "/v1/queues/QUE/purge", `{"confirm":"Orders"}`, "/confirm"),
		get("wait too long", "/v1/queues/QUE/next?wait=61s", "?wait"),
		get("wait a number", "/v1/queues/QUE/next?wait=20", "?wait"),
		get("wait before now", "/v1/queues/QUE/next?wait=-1s", "?wait"),
		get("max none", "/v1/queues/QUE/next?max=0", "?max"),
		get("max too many", "/v1/queues/QUE/next?max=101", "?max"),
		get("consumer too long", "/v1/queues/QUE/next?consumer="+strings.Repeat("c", 65), "?consumer"),
		get("parameter unknown", "/v1/queues/QUE/next?timeout=1s", "?timeout"),
		get("peek at too much", "/v1/queues/QUE/peek?limit=101", "?limit"),
		get("stream for a consumer too long", "/v1/queues/QUE/stream?consumer="+strings.Repeat("c", 65), "?consumer"),
		{name: "queue: consumer in a header too long", method: "GET", target: "/v1/queues/QUE/next",
			header: []string{consumerField, strings.Repeat("c", 65)}, status: 422, code: invalid, pointer: consumerField},
		post("nack with a delay before now", "/v1/leases/LSE/nack", `{"delay":"-1s"}`, "/delay"),
		post("nack with a delay too long", "/v1/leases/LSE/nack", `{"delay":"25h"}`, "/delay"),
		post("nack with a reason too long", "/v1/leases/LSE/nack", `{"reason":"`+strings.Repeat("r", 501)+`"}`, "/reason"),
		post("nack with a field unknown", "/v1/leases/LSE/nack", `{"why":"x"}`, "/why"),
		post("reject with a delay", "/v1/leases/LSE/reject", `{"delay":"1s"}`, "/delay"),
		post("ack with a reason", "/v1/leases/LSE/ack", `{"reason":"x"}`, "/reason"),
		post("extend by too little", "/v1/leases/LSE/extend", `{"by":"0s"}`, "/by"),
		post("extend by too much", "/v1/leases/LSE/extend", `{"by":"13h"}`, "/by"),
		post("settle nothing", "/v1/leases/settle", `{}`, ""),
		post("settle a string", "/v1/leases/settle", `{"acks":"LSE"}`, "/acks"),
		post("settle a number", "/v1/leases/settle", `{"acks":[1]}`, "/acks/0"),
		post("settle without lease", "/v1/leases/settle", `{"nacks":[{"reason":"x"}]}`, "/nacks/0/lease"),
		post("settle with a bad delay", "/v1/leases/settle", `{"nacks":[{"lease":"LSE","delay":"x"}]}`, "/nacks/0/delay"),
		post("settle rejects with a delay", "/v1/leases/settle", `{"rejects":[{"lease":"LSE","delay":"1s"}]}`, "/rejects/0/delay"),
		post("settle in a way unknown", "/v1/leases/settle", `{"oks":["LSE"]}`, "/oks"),
		{name: "queue: a lease that never was", method: "POST", target: "/v1/leases/lse_none/ack", status: 409,
			code: grapnel.CodeConflict, pointer: "-"},
		{name: "queue: none of that name", method: "GET", target: "/v1/queues/nobodys/next", status: 404,
			code: grapnel.CodeNotFound, pointer: "-"},
		{name: "queue: it is no endpoint that is pushed", method: "PATCH", target: "/v1/endpoints/QUE",
			body: `{"description":"x"}`, status: 404, code: grapnel.CodeNotFound, pointer: "-"},
		{name: "queue: it cannot be probed", method: "POST", target: "/v1/endpoints/QUE/probe", status: 404,
			code: grapnel.CodeNotFound, pointer: "-"},
	}
}

func TestQueueIsMadeAndChanged(t *testing.T) {
	w := newWorld(t)
	w.queues()
	made := w.must(201, "POST", "/v1/queues", `{"name":"orders","event_types":["order.*"]}`)
	if made["policy"] != "queue" || made["lease"] != "30s" || made["ordering"] != "key" || made["max_leased"] != 1000.0 ||
		made["status"] != "enabled" || made["ready"] != 0.0 {
		t.Errorf("made %v", made)
	}
	id := made["id"].(string)
	changed := w.must(200, "PATCH", "/v1/queues/orders",
		`{"name":"sales","lease":"1h","ordering":"none","max_leased":5,"policy":{"max_attempts":3}}`)
	if changed["name"] != "sales" || changed["lease"] != "1h0m0s" || changed["ordering"] != "none" ||
		changed["max_leased"] != 5.0 || changed["id"] != id {
		t.Errorf("changed %v", changed)
	}
	w.must(404, "GET", "/v1/queues/orders", "")
	if back := w.must(200, "PATCH", "/v1/queues/"+id,
		`{"lease":null,"policy":null,"max_leased":null}`); back["lease"] != "30s" || back["policy"] != "queue" || back["max_leased"] != 1000.0 {
		t.Errorf("set back %v", back)
	}
	w.must(200, "POST", "/v1/queues/sales/pause", `{"reason":"they deploy"}`)
	w.must(202, "POST", "/v1/events", `{"type":"order.made","data":1}`)
	w.next(204, "/v1/queues/sales/next")
	w.must(200, "POST", "/v1/queues/sales/resume", "")
	w.next(200, "/v1/queues/sales/next?consumer=w1")
	q := w.must(200, "GET", "/v1/queues/sales", "")
	if c := q["consumers"].([]any); len(c) != 2 || c[1].(map[string]any)["name"] != "w1" || c[1].(map[string]any)["leased"] != 1.0 {
		t.Errorf("its consumers: %v", c)
	}
	// The same name is another tenant's as well.
	w.as(acmeAdmin, 201, "POST", "/v1/queues", `{"name":"sales"}`)
	if got := w.must(200, "GET", "/v1/queues/sales", ""); got["id"] != id {
		t.Errorf("a name that two tenants have is %v", got)
	}
	if got := w.must(200, "GET", "/v1/queues/sales?tenant=acme", ""); got["tenant"] != "acme" {
		t.Errorf("acme's is %v", got)
	}
	w.as(acmeAdmin, 404, "GET", "/v1/queues/"+id, "")
	for key, n := range map[string]int{admin: 2, acmeAdmin: 1} {
		if data := w.as(key, 200, "GET", "/v1/queues", "")["data"].([]any); len(data) != n || data[0].(map[string]any)["ready"] == nil {
			t.Errorf("listed %v", data)
		}
	}
	if data := w.must(200, "GET", "/v1/endpoints", "")["data"].([]any); len(data) != 0 {
		t.Errorf("queues among endpoints: %v", data)
	}
	w.must(204, "DELETE", "/v1/queues/sales?tenant=default", "")
	w.must(404, "GET", "/v1/queues/"+id, "")
	w.must(201, "POST", "/v1/queues", `{"name":"sales"}`)
}

func TestMessageAsItIsAndInAList(t *testing.T) {
	w := newWorld(t)
	w.queues()
	w.must(201, "POST", "/v1/queues", `{"name":"orders","ordering":"none"}`)
	body := `{ "n" : 1.50 }`
	w.must(202, "POST", "/v1/events", `{"type":"order.made","key":"kéy🙂","data":`+body+`}`)
	w.must(202, "POST", "/v1/events/raw?type=scan.done", "\x00\xff", "Content-Type", "application/octet-stream")
	w.must(202, "POST", "/v1/events/raw?type=page.made", `{"a":1}`, "Content-Type", "application/vnd.x+json")

	r := w.ask(admin, "GET", "/v1/queues/orders/next", "", "Grapnel-Consumer", "w1")
	if string(r.body) != body || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s", r.Header.Get("Content-Type"), r.body)
	}
	raw := r.Header.Get("Grapnel-Meta")
	var meta wire.Meta
	var loose map[string]any
	if err := json.Unmarshal([]byte(raw), &loose); err != nil || strings.ContainsFunc(raw, func(c rune) bool { return c > '~' || c < ' ' }) {
		t.Fatalf("%v: %q", err, raw)
	}
	meta.Lease = loose["lease"].(string)
	if loose["key"] != "kéy🙂" || loose["attempt"] != 1.0 || loose["type"] != "order.made" ||
		loose["ack_url"] != "http://example.com/v1/leases/"+meta.Lease+"/ack" {
		t.Errorf("meta is %v", loose)
	}
	w.must(200, "GET", "/v1/deliveries/"+loose["delivery_id"].(string), "")

	// The shape of an answer does not depend on the number asked for.
	w.must(201, "POST", "/v1/queues", `{"name":"single","event_types":["single.*"]}`)
	w.must(200, "PATCH", "/v1/queues/orders", `{"event_types":["order.*"]}`)
	w.must(202, "POST", "/v1/events", `{"type":"single.made","data":2}`)
	if one := w.must(200, "GET", "/v1/queues/single/next?max=1", "")["data"].([]any); len(one) != 1 {
		t.Errorf("asked for one, got %v", one)
	}

	r = w.ask(admin, "GET", "/v1/queues/orders/next?max=10", "")
	var got struct {
		Data []struct {
			Meta   map[string]any
			Body   json.RawMessage
			Base64 string `json:"body_base64"`
		}
	}
	if err := json.Unmarshal(r.body, &got); err != nil || len(got.Data) != 2 {
		t.Fatalf("%v %s", err, r.body)
	}
	if raw, _ := base64.StdEncoding.DecodeString(got.Data[0].Base64); string(raw) != "\x00\xff" ||
		string(got.Data[0].Body) != "null" || string(got.Data[1].Body) != `{"a":1}` {
		t.Errorf("%s", r.body)
	}
	w.next(204, "/v1/queues/orders/next")
	if r := w.ask(admin, "HEAD", "/v1/queues/orders/next", ""); r.StatusCode != 204 {
		t.Errorf("HEAD answered %d", r.StatusCode)
	}
	one := w.must(200, "GET", "/v1/queues/orders/peek", "")["data"].([]any)
	if len(one) != 3 || one[0].(map[string]any)["meta"].(map[string]any)["type"] != "order.made" {
		t.Errorf("peeked at %v", one)
	}

	// All of it is settled together; unknown leases are listed as stale, and the rest is settled all
	// the same.
	settled := w.must(200, "POST", "/v1/leases/settle",
		`{"acks":["`+meta.Lease+`","lse_none"],"nacks":[{"lease":"`+got.Data[0].Meta["lease"].(string)+
			`","reason":"later","delay":"1h"}],"rejects":[{"lease":"`+got.Data[1].Meta["lease"].(string)+`","reason":"bad"}]}`)
	if d := cmp.Diff(map[string]any{"settled": 3.0, "stale": []any{"lse_none"}, "failed": []any{}}, settled); d != "" {
		t.Error(d)
	}
	q := w.must(200, "GET", "/v1/queues/orders", "")
	if q["delayed"] != 1.0 || q["dead"] != 1.0 || q["leased"] != 0.0 {
		t.Errorf("what is left: %v", q)
	}
}

// TestLeasesOfLargeMessages: an answer has as many messages as fit, so that a consumer can read it;
// the others stay in the queue, and cost no attempt.
func TestLeasesOfLargeMessages(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.LeaseData = 3000 })
	w.queues()
	w.must(201, "POST", "/v1/queues", `{"name":"orders","ordering":"none"}`)
	for _, size := range []int{5000, 1400, 1400, 1400} {
		w.must(202, "POST", "/v1/events", `{"type":"order.made","data":"`+strings.Repeat("x", size-2)+`"}`)
	}
	for n, want := range []int{1, 2, 1} {
		got := w.must(200, "GET", "/v1/queues/orders/next?max=10", "")["data"].([]any)
		if len(got) != want || got[0].(map[string]any)["meta"].(map[string]any)["attempt"] != 1.0 {
			t.Errorf("answer %d has %d messages, want %d", n, len(got), want)
		}
	}
}

func TestLeaseCanBeUsedOnce(t *testing.T) {
	w := newWorld(t)
	pass := w.queues()
	w.must(201, "POST", "/v1/queues", `{"name":"orders"}`)
	w.must(202, "POST", "/v1/events", `{"type":"order.made","data":1}`)
	first := "/v1/leases/" + w.next(200, "/v1/queues/orders/next")["lease"].(string)
	w.as(acmeAdmin, 409, "POST", first+"/ack", "")
	if got := w.must(200, "POST", first+"/extend",
		`{"by":"1m"}`); got["lease_expires_at"] != w.clock.Add(time.Minute).Format(wire.TimeLayout) {
		t.Errorf("extended to %v", got)
	}
	pass(time.Minute)
	for _, verb := range []string{"ack", "nack", "reject", "extend"} {
		w.must(409, "POST", first+"/"+verb, "")
	}
	pass(time.Minute)
	meta := w.next(200, "/v1/queues/orders/next")
	second := "/v1/leases/" + meta["lease"].(string)
	if meta["attempt"] != 2.0 || first == second {
		t.Errorf("handed out again as %v", meta)
	}
	// The answer to a repetition with its idempotency key is the first one; without, the lease is
	// over.
	w.must(204, "POST", second+"/ack", "", idempotencyHeader, "k1")
	w.must(204, "POST", second+"/ack", "", idempotencyHeader, "k1")
	w.must(409, "POST", second+"/ack", "")
	if d := w.only(); d.Status != grapnel.Delivered || d.AttemptsMade != 2 {
		t.Errorf("it is %+v", d)
	}
}

func TestPurgeAsksForTheName(t *testing.T) {
	w := newWorld(t)
	id, lease := w.orders()
	if got := w.must(200, "POST", "/v1/queues/orders/purge", `{"confirm":"orders","reason":"test data"}`); got["discarded"] != 3.0 {
		t.Errorf("answered %v", got)
	}
	w.must(409, "POST", "/v1/leases/"+lease+"/ack", "")
	if q := w.must(200, "GET", "/v1/queues/"+id, ""); q["ready"] != 0.0 || q["leased"] != 0.0 {
		t.Errorf("left: %v", q)
	}
}

// reader reads a stream's events.
type reader struct {
	t    *testing.T
	in   *bufio.Scanner
	stop context.CancelFunc
}

func openStream(t *testing.T, url, last string) *reader {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", url+"/v1/queues/orders/stream?consumer=s1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+admin)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(r) //nolint:bodyclose // closed below
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != typeEvents {
		t.Fatalf("answered %d %v", resp.StatusCode, resp.Header)
	}
	return &reader{t, bufio.NewScanner(resp.Body), stop}
}

// event is the next one: its id and its data.
func (r *reader) event() (id string, meta map[string]any, body string) {
	r.t.Helper()
	var data []string
	for r.in.Scan() {
		switch name, value, _ := strings.Cut(r.in.Text(), ": "); {
		case name == "id":
			id = value
		case name == "data":
			data = append(data, value)
		case r.in.Text() == "" && data != nil:
			var m struct {
				Meta map[string]any
				Body json.RawMessage
			}
			if err := json.Unmarshal([]byte(strings.Join(data, "\n")), &m); err != nil {
				r.t.Fatal(err)
			}
			return id, m.Meta, string(m.Body)
		}
	}
	r.t.Fatalf("the stream has ended: %v", r.in.Err())
	return "", nil, ""
}

func TestStreamGoesOnWhereItWasBroken(t *testing.T) {
	w := newWorld(t)
	w.queues()
	w.must(201, "POST", "/v1/queues", `{"name":"orders","ordering":"none","max_leased":3}`)
	for _, data := range []string{"{\r\n \"n\": 0\n}", "1", "2", "3"} {
		w.must(202, "POST", "/v1/events", `{"type":"order.made","data":`+data+`}`)
	}
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	s := openStream(t, server.URL, "")
	var ids []string
	var leases []string
	for n, want := range []string{"{\n \"n\": 0\n}", "1", "2"} {
		id, meta, body := s.event()
		if body != want || meta["attempt"] != 1.0 {
			t.Fatalf("event %d is %q %v", n, body, meta)
		}
		ids, leases = append(ids, id), append(leases, meta["lease"].(string))
	}
	// Three are all that it may hold. It has got two, it says, when it comes again.
	resumed := openStream(t, server.URL, ids[0])
	again := map[string]bool{}
	for range 2 {
		_, meta, body := resumed.event()
		if again[body] = true; meta["attempt"] != 1.0 || meta["lease"] == leases[1] || meta["lease"] == leases[2] {
			t.Errorf("%s came again as %v", body, meta)
		}
	}
	if !again["1"] || !again["2"] {
		t.Errorf("came again: %v", again)
	}
	w.must(204, "POST", "/v1/leases/"+leases[0]+"/ack", "")
	w.must(409, "POST", "/v1/leases/"+leases[1]+"/ack", "")
	if _, meta, body := resumed.event(); body != "3" {
		t.Errorf("after the ack came %s %v", body, meta)
	}
}
