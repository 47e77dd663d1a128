package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func TestTheSameAnswerForTheSameKey(t *testing.T) {
	for _, rt := range routes() {
		if rt.method != "POST" || rt.bare != nil || rt.open != nil || rt.name == "open-portal" {
			continue
		}
		t.Run(rt.name, func(t *testing.T) {
			w, names := prepared(t)
			target := fill(rt.path, things(names, &rt))
			send := func() reply { return w.ask(admin, "POST", target, bodies()[rt.name], "Idempotency-Key", "once") }
			first := send()
			if first.StatusCode >= 300 || first.Header.Get("Idempotency-Replayed") != "" {
				t.Fatalf("the first answer is %d %s", first.StatusCode, first.body)
			}
			before := w.dump()
			for range 2 {
				w.clock = w.clock.Add(time.Hour)
				again := send()
				if again.StatusCode != first.StatusCode || string(again.body) != string(first.body) ||
					again.Header.Get("Content-Type") != first.Header.Get("Content-Type") {
					t.Errorf("the first answer was %d %s\nthe second is %d %s", first.StatusCode, first.body, again.StatusCode, again.body)
				}
				stored := rt.scope != grapnel.ScopeRead // or the answer is made anew
				if (again.Header.Get("Idempotency-Replayed") == "true") != stored {
					t.Errorf("the answer says %q of whether it was given before", again.Header.Get("Idempotency-Replayed"))
				}
				if again.Header.Get("X-Request-Id") == first.Header.Get("X-Request-Id") {
					t.Error("the two requests have one id")
				}
			}
			if d := cmp.Diff(before, w.dump()); d != "" {
				t.Errorf("repeating changed something: %s", d)
			}
		})
	}
}

// TestTheSameAnswerAtTwoNodes: a node that begins a request before another one has stored the
// answer to it gives that answer, too.
func TestTheSameAnswerAtTwoNodes(t *testing.T) {
	for _, rt := range routes() {
		if rt.method != "POST" || rt.bare != nil || rt.open != nil || rt.name == "open-portal" || rt.scope == grapnel.ScopeRead {
			continue
		}
		t.Run(rt.name, func(t *testing.T) {
			blind := &forgetful{}
			w, names := prepared(t, func(o *Options) { blind.Idempotency = o.Idempotency; o.Idempotency = blind })
			target := fill(rt.path, things(names, &rt))
			send := func() reply { return w.ask(admin, "POST", target, bodies()[rt.name], "Idempotency-Key", "once") }
			first, again := send(), send()
			if first.StatusCode >= 300 || again.StatusCode != first.StatusCode || string(again.body) != string(first.body) ||
				again.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("the first answer was %d %s\nthe second is %d %s", first.StatusCode, first.body, again.StatusCode, again.body)
			}
		})
	}
}

// TestASettlementAndItsAnswerAreOneCommit: a server that is killed right after the commit of a
// settlement stores nothing more. The repetition with the key gets the first answer all the same.
func TestASettlementAndItsAnswerAreOneCommit(t *testing.T) {
	for _, verb := range []string{"ack", "nack", "reject"} {
		w := newWorld(t, func(o *Options) { o.Idempotency = killed{o.Idempotency} })
		_, lease := w.orders()
		for range 2 {
			if r := w.ask(admin, "POST", "/v1/leases/"+lease+"/"+verb, "", "Idempotency-Key", "k"); r.StatusCode != 204 {
				t.Errorf("%s: answered %d %s", verb, r.StatusCode, r.body)
			}
		}
	}
}

// killed stores answers only with their effects.
type killed struct{ Idempotency }

func (killed) Remember(context.Context, *store.Once) (*store.Answer, error) {
	return nil, errors.New("killed")
}

func TestAnotherRequestWithTheSameKey(t *testing.T) {
	w := newWorld(t)
	const body = `{"type":"a","data":1}`
	w.must(202, "POST", "/v1/events", body, "Idempotency-Key", "k")
	before := w.dump()
	for _, other := range [][2]string{{"/v1/events", `{"type":"a","data":2}`}, {"/v1/events", body + " "},
		{"/v1/events/batch", body}, {"/v1/events/raw?type=a", body}} {
		r := w.ask(admin, "POST", other[0], other[1], "Idempotency-Key", "k")
		if r.StatusCode != 422 || r.object(t)["code"] != "idempotency_mismatch" {
			t.Errorf("%v: answered %d %s", other, r.StatusCode, r.body)
		}
	}
	if d := cmp.Diff(before, w.dump()); d != "" {
		t.Errorf("something has changed: %s", d)
	}
	// The key belongs to the API key that used it, to POST alone, and for two days.
	for _, c := range []struct{ key, method, target, body string }{
		{acmeAdmin, "POST", "/v1/events", body}, {scoped(grapnel.ScopePublish), "POST", "/v1/events", `{"type":"b","data":2}`},
	} {
		if r := w.ask(c.key, c.method, c.target, c.body, "Idempotency-Key", "k"); r.StatusCode != 202 ||
			r.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%+v: answered %d %s", c, r.StatusCode, r.body)
		}
	}
	if r := w.ask(admin, "GET", "/v1/events", "", "Idempotency-Key", "k"); r.StatusCode != 200 {
		t.Errorf("GET: answered %d %s", r.StatusCode, r.body)
	}
	w.clock = w.clock.Add(48*time.Hour - time.Microsecond)
	if r := w.ask(admin, "POST", "/v1/events", body, "Idempotency-Key", "k"); r.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("just before two days: answered %d %s", r.StatusCode, r.body)
	}
	w.clock = w.clock.Add(time.Microsecond)
	if r := w.ask(admin, "POST", "/v1/events", body, "Idempotency-Key", "k"); r.StatusCode != 202 ||
		r.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("after two days: answered %d %s", r.StatusCode, r.body)
	}
}

// TestAnswersGivenAgainAreConfirmed: another node may have stored the answer to a change of the
// configuration and be waiting for a third one. The answer is given again once every node has the
// change. That to a publish waits for no node.
func TestAnswersGivenAgainAreConfirmed(t *testing.T) {
	w := newWorld(t)
	for target, c := range map[string]struct {
		body      string
		confirmed int64
	}{"/v1/keys": {`{"name":"x","scopes":["read"]}`, 1}, "/v1/policies": {`{"name":"x"}`, 1}, "/v1/events": {`{"type":"a","data":1}`, 0}} {
		first := w.ask(admin, "POST", target, c.body, "Idempotency-Key", "k"+target[4:])
		before := w.engine.confirmed.Load()
		again := w.ask(admin, "POST", target, c.body, "Idempotency-Key", "k"+target[4:])
		if again.Header.Get("Idempotency-Replayed") != "true" || again.StatusCode != first.StatusCode {
			t.Errorf("%s: answered %d, then %d %s", target, first.StatusCode, again.StatusCode, again.body)
		}
		if n := w.engine.confirmed.Load() - before; n != c.confirmed {
			t.Errorf("%s: confirmed %d times, not %d", target, n, c.confirmed)
		}
	}
}

func TestRefusalsAreRememberedAndFailuresAreNot(t *testing.T) {
	w := newWorld(t)
	ask := func(body string) reply { return w.ask(admin, "POST", "/v1/events", body, "Idempotency-Key", "k"+body) }
	for _, body := range []string{`{"type":"a"}`, `{`, ``} {
		first, again := ask(body), ask(body)
		if first.StatusCode < 400 || string(again.body) != string(first.body) ||
			again.Header.Get("Idempotency-Replayed") != "true" || again.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%q: answered %d %s, then %d %s", body, first.StatusCode, first.body, again.StatusCode, again.body)
		}
	}
	const good = `{"type":"a","data":1}`
	for _, broken := range []error{errors.New("disk on fire at /secret/path"),
		grapnel.Errorf(grapnel.CodeUnavailable, "not now"), grapnel.Errorf(grapnel.CodeStorageFull, "the disk is full")} {
		w.engine.broken = broken
		if r := ask(good); r.StatusCode < 500 || strings.Contains(string(r.body), "/secret/path") {
			t.Errorf("%v: answered %d %s", broken, r.StatusCode, r.body)
		}
	}
	w.engine.broken = nil
	if r := ask(good); r.StatusCode != 202 || r.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("after failures: answered %d %s", r.StatusCode, r.body)
	}
	// Without a key to a tenant's things nothing is stored at all.
	if r := w.ask("", "POST", "/v1/events", good, "Idempotency-Key", "nobody"); r.StatusCode != 401 {
		t.Errorf("answered %d", r.StatusCode)
	}
	if a, err := w.engine.Recall(context.Background(), "/nobody", w.clock); a != nil || err != nil {
		t.Errorf("an answer was stored for nobody: %v %v", a, err)
	}
}

// An answer was lost after its transaction was committed: the engine finds the key used although
// the API did not.
func TestTheStoreDecidesWhenTheAPIDidNotKnow(t *testing.T) {
	blind := &forgetful{}
	w := newWorld(t, func(o *Options) { blind.Idempotency = o.Idempotency; o.Idempotency = blind })
	const body = `{"type":"a","data":1}`
	first := w.ask(admin, "POST", "/v1/events", body, "Idempotency-Key", "k")
	again := w.ask(admin, "POST", "/v1/events", body, "Idempotency-Key", "k")
	if string(again.body) != string(first.body) || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("answered %d %s, then %d %s", first.StatusCode, first.body, again.StatusCode, again.body)
	}
	other := w.ask(admin, "POST", "/v1/events", `{"type":"a","data":2}`, "Idempotency-Key", "k")
	if other.StatusCode != 422 || other.object(t)["code"] != "idempotency_mismatch" {
		t.Errorf("another request: answered %d %s", other.StatusCode, other.body)
	}
	created := w.ask(admin, "POST", "/v1/keys", `{"name":"k","scopes":["read"]}`, "Idempotency-Key", "k2")
	if again := w.ask(admin, "POST", "/v1/keys", `{"name":"k","scopes":["read"]}`, "Idempotency-Key",
		"k2"); string(again.body) != string(created.body) {
		t.Errorf("the key was made twice: %s, then %s", created.body, again.body)
	}
}

// forgetful recalls nothing, as on a node that has not seen a commit yet.
type forgetful struct{ Idempotency }

func (*forgetful) Recall(context.Context, string, time.Time) (*store.Answer, error) { return nil, nil }

func TestInFlightIsRefused(t *testing.T) {
	w := newWorld(t)
	w.engine.enter, w.engine.leave = make(chan struct{}), make(chan struct{})
	const body = `{"type":"a","data":1}`
	done := make(chan reply)
	go func() { done <- w.ask(admin, "POST", "/v1/events", body, "Idempotency-Key", "k") }()
	<-w.engine.enter
	for _, b := range []string{body, `{"type":"other","data":1}`} {
		r := w.ask(admin, "POST", "/v1/events", b, "Idempotency-Key", "k")
		if r.StatusCode != 409 || r.object(t)["code"] != "idempotency_in_flight" || r.Header.Get("Retry-After") == "" {
			t.Errorf("answered %d %v %s", r.StatusCode, r.Header, r.body)
		}
	}
	w.engine.leave <- struct{}{}
	first := <-done
	if first.StatusCode != 202 {
		t.Fatalf("answered %d %s", first.StatusCode, first.body)
	}
	if again := w.ask(admin, "POST", "/v1/events", body, "Idempotency-Key", "k"); string(again.body) != string(first.body) {
		t.Errorf("afterwards: %s", again.body)
	}
}

func TestManyAtOnceMakeOne(t *testing.T) {
	w := newWorld(t)
	const each = 8
	var wait sync.WaitGroup
	var mu sync.Mutex
	made := map[string]map[string]int{}
	for key := range 20 {
		for range each {
			wait.Go(func() {
				name := fmt.Sprint("k", key)
				r := w.ask(admin, "POST", "/v1/events", `{"type":"a","data":1}`, "Idempotency-Key", name)
				mu.Lock()
				defer mu.Unlock()
				if made[name] == nil {
					made[name] = map[string]int{}
				}
				switch {
				case r.StatusCode == 202:
					made[name][string(r.body)]++
				case r.StatusCode != 409:
					t.Errorf("answered %d %s", r.StatusCode, r.body)
				}
			})
		}
	}
	wait.Wait()
	for name, answers := range made {
		if len(answers) != 1 {
			t.Errorf("%s got the answers %v", name, answers)
		}
	}
	if n := w.engine.calls.Load(); n != 20 {
		t.Errorf("the engine was called %d times", n)
	}
}

func TestStoredAnswersAreSealed(t *testing.T) {
	w := newWorld(t)
	secret := func(r reply, field string) string {
		t.Helper()
		s, _ := r.object(t)[field].(string)
		if len(s) < 20 {
			t.Fatalf("there is no %s in %s", field, r.body)
		}
		return s
	}
	ep := w.ask(admin, "POST", "/v1/endpoints", `{"url":"https://a.example"}`, "Idempotency-Key", "e")
	key := w.ask(admin, "POST", "/v1/keys", `{"name":"k","scopes":["read"]}`, "Idempotency-Key", "k")
	id := ep.object(t)["id"].(string)
	rotated := w.ask(admin, "POST", "/v1/endpoints/"+id+"/rotate-secret", "{}", "Idempotency-Key", "r")
	for name, hidden := range map[string]string{"e": secret(ep, "secret"), "k": secret(key, "key"), "r": secret(rotated, "secret")} {
		stored, err := w.engine.Recall(context.Background(), "key_admin/"+name, w.clock)
		if err != nil || stored == nil {
			t.Fatalf("%s: nothing is stored: %v", name, err)
		}
		for _, text := range []string{hidden, "{", id} {
			if strings.Contains(string(stored.Body), text) && len(text) > 1 {
				t.Errorf("%s: the stored answer shows %q", name, text)
			}
		}
		// No other key opens it, not even that of another administrator.
		for _, token := range []string{acmeAdmin, admin + "x"} {
			sealer, err := newSealer(token, &store.Once{Key: "key_admin/" + name})
			if err != nil {
				t.Fatal(err)
			}
			n := sealer.NonceSize()
			if _, err := sealer.Open(nil, stored.Body[:n], stored.Body[n:], stored.Fingerprint[:]); err == nil {
				t.Errorf("%s: another key opened it", name)
			}
		}
	}
	// The same answer twice is not the same bytes twice.
	a, _ := w.engine.Recall(context.Background(), "key_admin/e", w.clock)
	w.clock = w.clock.Add(49 * time.Hour)
	w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example"}`, "Idempotency-Key", "e")
	b, _ := w.engine.Recall(context.Background(), "key_admin/e", w.clock)
	if string(a.Body[:12]) == string(b.Body[:12]) {
		t.Error("a nonce was used twice")
	}
	if strings.Contains(w.logged.String(), "whsec_") || strings.Contains(w.logged.String(), "grp_") {
		t.Errorf("a secret was logged: %s", w.logged)
	}
}

func TestAnswersThatCannotBeOpenedAreTheServersFault(t *testing.T) {
	w := newWorld(t)
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`, "Idempotency-Key", "k")
	stored, _ := w.engine.Recall(context.Background(), "key_admin/k", w.clock)
	for _, body := range [][]byte{nil, []byte("short"), append([]byte("x"), stored.Body...)} {
		if _, err := w.engine.Forget(context.Background(), w.clock.Add(72*time.Hour), 10); err != nil {
			t.Fatal(err)
		}
		_, err := w.engine.Remember(context.Background(), &store.Once{Key: "key_admin/k", Fingerprint: stored.Fingerprint,
			Now: w.clock, Expires: w.clock.Add(time.Hour),
			Answer: func(any) store.Answer { return store.Answer{Status: 202, Body: body} }})
		if err != nil {
			t.Fatal(err)
		}
		if r := w.ask(admin, "POST", "/v1/events", `{"type":"a","data":1}`, "Idempotency-Key", "k"); r.StatusCode != 500 {
			t.Errorf("answered %d %s", r.StatusCode, r.body)
		}
	}
}

// Who may only read stores nothing, whatever comes with a request.
func TestReadingStoresNoAnswers(t *testing.T) {
	w := newWorld(t)
	for _, outage := range []string{"1h", "2h"} {
		r := w.ask(scoped(grapnel.ScopeRead), "POST", "/v1/policies/simulate", `{"outage":{"duration":"`+outage+`"}}`, idempotencyHeader, "k")
		if r.StatusCode != 200 || r.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("answered %d %s", r.StatusCode, r.body)
		}
	}
	if given, err := w.engine.Recall(t.Context(), "key_read/k", w.clock); given != nil || err != nil {
		t.Errorf("stored was %v, %v", given, err)
	}
}

// TestRefusalsCountByTheirCode: a refused publish is counted by the code of its answer, with an
// Idempotency-Key as without one, and when the stored answer is given again.
func TestRefusalsCountByTheirCode(t *testing.T) {
	var codes []string
	w := newWorld(t, func(o *Options) {
		o.Published = func(_ bool, _ time.Duration, code string) { codes = append(codes, code) }
	})
	const bad, good = `{"type":"a b","data":1}`, `{"type":"a","data":1,"id":"evt_1"}`
	w.must(422, "POST", "/v1/events", bad)
	w.must(422, "POST", "/v1/events", bad, "Idempotency-Key", "k")
	w.must(422, "POST", "/v1/events", bad, "Idempotency-Key", "k")
	w.must(422, "POST", "/v1/events", good, "Idempotency-Key", "k")
	w.must(202, "POST", "/v1/events", good)
	w.must(409, "POST", "/v1/events", `{"type":"a","data":2,"id":"evt_1"}`)
	if d := cmp.Diff([]string{"invalid", "invalid", "invalid", "idempotency_mismatch", "", "conflict"}, codes); d != "" {
		t.Error(d)
	}
}
