//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// TestAttackOnIDs: a tenant uses the ids of another tenant's events. Both events are accepted, and
// no answer reveals whether another tenant has an id.
func TestAttackOnIDs(t *testing.T) {
	beside(t, light)
	a := newAttacked(t, program{})
	publish := func(tenant, id, data string) (int, []byte) {
		return a.publishAs(tenant, newEvent{ID: id, Type: "order.paid", Data: json.RawMessage(data)})
	}
	var taken []string
	for i := range 20 {
		id := fmt.Sprintf("order-%d", i)
		taken = append(taken, id)
		if status, body := publish(victim, id, `{"of":"bee"}`); status != http.StatusAccepted {
			t.Fatalf("answered %d %s", status, body)
		}
	}
	shape := func(status int, body []byte, id string) string {
		var is map[string]any
		if err := json.Unmarshal(body, &is); err != nil {
			t.Fatal(err)
		}
		for _, own := range []string{"accepted_at", "request_id"} {
			delete(is, own)
		}
		text, _ := json.Marshal(is)
		return fmt.Sprint(status, strings.ReplaceAll(string(text), id, "ID"))
	}
	for i, id := range taken {
		free := fmt.Sprintf("other-%d", i)
		for _, data := range []string{`{"of":"ant"}`, `{"of":"bee"}`} {
			s1, b1 := publish(attacker, id, data)
			s2, b2 := publish(attacker, free, data)
			if x, y := shape(s1, b1, id), shape(s2, b2, free); x != y || data == `{"of":"ant"}` && s1 != http.StatusAccepted {
				t.Fatalf("an id that another tenant has: answered %s; one that nobody has: %s", x, y)
			}
		}
	}
	batch := []json.RawMessage{}
	for i := range 20 {
		id := fmt.Sprintf("batch-%d", i)
		publish(victim, id, `1`)
		batch = append(batch, json.RawMessage(fmt.Sprintf(`{"id":%q,"type":"a","data":2}`, id)))
	}
	var done struct{ Data []struct{ Duplicate bool } }
	a.by(attacker, grapnel.ScopePublish, http.StatusAccepted, http.MethodPost, "/v1/events/batch", map[string]any{"events": batch}, &done)
	if len(done.Data) != 20 || slices.ContainsFunc(done.Data, func(p struct{ Duplicate bool }) bool { return p.Duplicate }) {
		t.Errorf("a batch with ids of another tenant: %+v", done)
	}
	for _, tenant := range []string{attacker, victim} {
		var ev struct {
			Tenant string
			Data   struct{ Of string }
		}
		a.by(tenant, grapnel.ScopeRead, http.StatusOK, http.MethodGet, "/v1/events/order-3", nil, &ev)
		if ev.Tenant != tenant || ev.Data.Of != tenant {
			t.Errorf("%s is shown %+v", tenant, ev)
		}
	}
}

// TestAttackByBodiesThatStall: callers with a key that may publish send 15 of 16 MiB and then
// nothing. The server's memory stays small, and it answers another tenant's publishes meanwhile.
func TestAttackByBodiesThatStall(t *testing.T) {
	beside(t, light)
	bodies := 60
	if soak() {
		bodies = 1000
	}
	a := newAttacked(t, program{})
	v := a.newVictim("beside")
	const announced, sent = 16 << 20, 15 << 20
	piece := []byte(strings.Repeat(" ", 1<<20))
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	var mu sync.Mutex
	var all sync.WaitGroup
	whole := 0
	places := make(chan struct{}, 8)
	for i := range bodies {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			conn, err := a.dial(manyAddresses(i))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			_ = conn.SetWriteDeadline(time.Now().Add(20 * time.Second))
			_, err = fmt.Fprintf(conn, "POST /v1/events/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n",
				a.keys[attacker][grapnel.ScopePublish], announced)
			for n := 0; err == nil && n < sent; n += len(piece) {
				_, err = conn.Write(piece)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				whole++
			}
		})
		if i%10 == 0 {
			v.once()
		}
	}
	all.Wait()
	v.medians(10)
	_, peak := a.memory()
	held := a.metric("grapnel_api_body_bytes") / (1 << 20)
	t.Logf("%d bodies of 15 MiB, %d of which could be sent: %.0f MiB held, peak memory %.0f MiB", bodies, whole, held, peak)
	if peak > 400 {
		t.Errorf("the memory grew to %.0f MiB, want at most 400", peak)
	}
	if held < 16 {
		t.Errorf("only %.0f MiB were held: that was no burden", held)
	}
}

// TestAttackByConnections: an attacker opens more connections than the server may have descriptors.
// Each sends one request and then nothing, or nothing at all. New connections are answered, and
// deliveries continue.
func TestAttackByConnections(t *testing.T) {
	beside(t, light)
	a := newAttacked(t, program{wrap: []string{"prlimit", "--nofile=1200:1200"}})
	v := a.newVictim("beside")
	for name, first := range map[string]string{"asked once": "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", "silent": "",
		"half a header": "GET /livez HTTP/1.1\r\nHost: x\r\nX-A: "} {
		release := a.crowdOf(1300, oneAddress, func(int) string { return first })
		for range 10 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.addr+"/livez", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Close = true
			answer, err := a.http.Do(r)
			if err != nil {
				t.Fatalf("%s: a new connection: %v", name, err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("%s: answered %d", name, answer.StatusCode)
			}
			v.once()
		}
		release()
	}
	if text := a.words(1 << 20); strings.Contains(text, "too many open files") {
		t.Error("the descriptors were used up")
	}
}

// TestAttackByStreams: one key holds many streams. They cost little, and other callers are served
// as before.
func TestAttackByStreams(t *testing.T) {
	beside(t, light)
	streams := 400
	if soak() {
		streams = 4000
	}
	a := newAttacked(t, program{flag: []string{"--bounds", fmt.Sprintf("api.openstreams=%d", streams)}})
	v := a.newVictim("beside")
	a.by(attacker, grapnel.ScopeManage, http.StatusCreated, http.MethodPost, "/v1/queues",
		map[string]any{"name": "q", "event_types": []string{"never"}}, nil)
	before, _ := a.memory()
	a.crowdOf(streams, manyAddresses, func(int) string {
		return "GET /v1/queues/q/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + a.keys[attacker][grapnel.ScopeConsume] + "\r\n\r\n"
	})
	eventually(t, 20*time.Second, "all streams wait", func() bool { return a.metric("grapnel_consumers_waiting") >= float64(streams) })
	cpu, began := a.cpu(), time.Now()
	pause(t.Context(), 500*time.Millisecond)
	idle := float64(a.cpu()-cpu) / float64(time.Since(began))
	now, _ := a.memory()
	v.medians(10)
	t.Logf("%d streams: %.0f%% of a processor, %.0f KiB each", streams, 100*idle, 1024*(now-before)/float64(streams))
	if idle > 0.3 || now-before > 20+float64(streams)/10 {
		t.Errorf("%d streams take %.0f%% of a processor and %.0f MiB", streams, 100*idle, now-before)
	}
}

// TestAttackOnRequests: if a body's length is given in two ways, the bytes behind it are not
// answered as the next request. A request that can be read in more than one way is refused.
func TestAttackOnRequests(t *testing.T) {
	beside(t, light)
	a := newAttacked(t, program{})
	body := `{"type":"a.b","data":{}}`
	chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	for _, c := range []struct {
		name, header, body string
		status, answers    int
	}{
		{"a length", fmt.Sprintf("Content-Length: %d\r\n", len(body)), body, 202, 2},
		{"chunks", "Transfer-Encoding: chunked\r\n", chunks, 202, 1},
		{"a length and chunks", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunks, 202, 1},
		{"two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n", body, 400, 1},
		{"a signed length", "Content-Length: +24\r\n", body, 400, 1},
		{"another coding", "Transfer-Encoding: chunked, identity\r\n", chunks, 501, 1},
		{"chunks with a space", "Transfer-Encoding : chunked\r\n", chunks, 400, 1},
		{"a folded header", "X-A: b\r\n Content-Length: 5\r\nContent-Length: 24\r\n", body, 202, 2},
	} {
		conn, err := a.dial("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = fmt.Fprintf(conn, "POST /v1/events HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer %s\r\n%s\r\n%sGET /livez HTTP/1.1\r\nHost: g\r\n\r\n",
			a.keys[attacker][grapnel.ScopePublish], c.header, c.body)
		if err != nil {
			t.Fatal(err)
		}
		in, answers := bufio.NewReader(conn), 0
		for ; answers < 2; answers++ {
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				break
			}
			if answers == 0 && answer.StatusCode != c.status {
				t.Errorf("%s: answered %d, want %d", c.name, answer.StatusCode, c.status)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		if answers != c.answers {
			t.Errorf("%s: %d answers, want %d", c.name, answers, c.answers)
		}
		_ = conn.Close()
	}
	cpu := a.cpu()
	for _, data := range []string{strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), `{"a":1e999999999}`, `{"a":1,"a":2}`,
		"1" + strings.Repeat("0", 200_000)} {
		status, _ := a.ask(a.keys[attacker][grapnel.ScopePublish], http.MethodPost, "/v1/events", []byte(`{"type":"a","data":`+data+`}`))
		if status >= 500 {
			t.Errorf("%.20s…: answered %d", data, status)
		}
	}
	for _, path := range []string{"/v1/events?cursor=AAAA", "/v1/deliveries?limit=999999999999999999999",
		"/v1/events?type=" + strings.Repeat("*.", 20_000), "/v1/events/..%2f..%2fetc%2fpasswd"} {
		if status, body := a.ask(a.keys[attacker][grapnel.ScopeRead], http.MethodGet, path, nil); status < 400 || status >= 500 {
			t.Errorf("%.40s: answered %d %.200s", path, status, body)
		}
	}
	if used := a.cpu() - cpu; used > 500*time.Millisecond {
		t.Errorf("odd documents and queries took %v of processor time", used)
	}
	for _, key := range []string{"", adminKey, a.keys[attacker][grapnel.ScopeAdmin]} {
		if status, body := a.ask(key, http.MethodPost, "/peer", []byte(`{}`)); status != http.StatusNotFound {
			t.Errorf("/peer: answered %d %s", status, body)
		}
	}
}

// TestAttackWithReadAccess: a key that may only read stores nothing and sees no credential.
func TestAttackWithReadAccess(t *testing.T) {
	beside(t, light)
	requests := 300
	if soak() {
		requests = 2000
	}
	a := newAttacked(t, program{})
	id := a.endpointOf(attacker, "http://127.0.0.1:9/", map[string]any{"headers": map[string]string{"Authorization": "Bearer of-the-receiver"},
		"status": "paused"})
	for _, scope := range allScopes {
		for _, path := range []string{"/v1/endpoints", "/v1/endpoints/" + id, "/v1/webhook-endpoints/" + id, "/v1/audit"} {
			_, body := a.ask(a.keys[attacker][scope], http.MethodGet, path, nil)
			if shown := strings.Contains(string(body), "of-the-receiver"); shown && scope != grapnel.ScopeManage && scope != grapnel.ScopeAdmin {
				t.Errorf("a key with the scope %s is shown the credential at %s", scope, path)
			}
		}
	}
	before := a.disk()
	for i := range requests {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.addr+"/v1/policies/simulate",
			strings.NewReader(`{"outage":{"duration":"1h"}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+a.keys[attacker][grapnel.ScopeRead])
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", fmt.Sprint("key-", i))
		answer, err := a.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("answered %d", answer.StatusCode)
		}
	}
	if grown := a.disk() - before; grown > 64<<10 {
		t.Errorf("%d simulations with an idempotency key each: %d bytes more on disk", requests, grown)
	}
}

// TestAttackWithWrongKeys: one address tries keys over many connections. The server looks few of
// them up, answers a valid key from that address at once, and shows no metrics without a key.
func TestAttackWithWrongKeys(t *testing.T) {
	beside(t, light)
	a := newAttacked(t, program{})
	a.by(victim, grapnel.ScopeRead, http.StatusOK, http.MethodGet, "/v1/endpoints", nil, nil)
	began := time.Now()
	var mu sync.Mutex
	answers := map[int]int{}
	var all sync.WaitGroup
	for worker := range 200 {
		all.Go(func() {
			for i := range 2 {
				status, _, _, err := a.as(context.Background(), fmt.Sprintf("grp_guess-%d-%d", worker, i), http.MethodGet, "/v1/endpoints", nil)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				answers[status]++
				mu.Unlock()
			}
		})
	}
	eventually(t, 10*time.Second, "guesses are refused unseen",
		func() bool { mu.Lock(); defer mu.Unlock(); return answers[http.StatusTooManyRequests] > 0 })
	for range 10 {
		a.by(victim, grapnel.ScopeRead, http.StatusOK, http.MethodGet, "/v1/endpoints", nil, nil)
	}
	all.Wait()
	took := time.Since(began)
	t.Logf("400 wrong keys of one address in %v: answered %v", took, answers)
	if looked, most := answers[http.StatusUnauthorized], 20+int(took.Seconds()+1)*65; looked > most ||
		answers[http.StatusUnauthorized]+answers[http.StatusTooManyRequests] != 400 {
		t.Errorf("%d of 400 guesses were looked up in %v, want at most %d: %v", looked, took, most, answers)
	}
	if status, _ := a.ask("", http.MethodGet, "/metrics", nil); status != http.StatusUnauthorized {
		t.Errorf("/metrics without a key: answered %d", status)
	}
	if status, _ := a.ask(a.keys[victim][grapnel.ScopeAdmin], http.MethodGet, "/metrics", nil); status != http.StatusForbidden {
		t.Errorf("/metrics with a tenant's key: answered %d", status)
	}
	if counted := a.metric("grapnel_api_unauthenticated_total") + a.metric("grapnel_api_slowed_total"); counted != 401 {
		t.Errorf("%v refusals are counted, want 401", counted)
	}
}

// TestAttackOnTheAudit: the audit names the key that created, changed or revoked a key or a policy.
func TestAttackOnTheAudit(t *testing.T) {
	beside(t, light)
	a := newAttacked(t, program{})
	thief := a.keys[attacker][grapnel.ScopeAdmin]
	var key, policy struct{ ID string }
	ask := func(want int, method, path, body string, out any) {
		t.Helper()
		status, answer := a.ask(thief, method, path, []byte(body))
		a.check(status, answer, nil, want, method, path, out)
	}
	for range 10 {
		ask(201, http.MethodPost, "/v1/keys", `{"name":"door","scopes":["read"]}`, &key)
		ask(200, http.MethodPatch, "/v1/keys/"+key.ID, `{"scopes":["admin"]}`, nil)
		ask(204, http.MethodDelete, "/v1/keys/"+key.ID, "", nil)
		ask(201, http.MethodPost, "/v1/policies", `{"name":"p","max_attempts":1}`, &policy)
		ask(204, http.MethodDelete, "/v1/policies/"+policy.ID, "", nil)
	}
	var list struct {
		Data []struct{ Verb, Tenant, Actor string }
	}
	a.by(attacker, grapnel.ScopeAdmin, http.StatusOK, http.MethodGet, "/v1/audit?limit=500", nil, &list)
	verbs, actors := map[string]int{}, map[string]bool{}
	for _, e := range list.Data {
		if e.Tenant != attacker {
			t.Errorf("a tenant is shown %+v", e)
		}
		verbs[e.Verb]++
		actors[e.Actor] = true
	}
	if verbs["create"] != 6+20 || verbs["change"] != 10 || verbs["delete"] != 20 || len(actors) != 2 {
		t.Errorf("on record are %v by %v", verbs, actors)
	}
}
