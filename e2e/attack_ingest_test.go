//go:build linux && prove

package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

func signed(text string) string {
	mac := hmac.New(sha256.New, []byte(signingSecret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// github creates a source that verifies GitHub's signatures.
func (a *attacked) github(tenant, name string, more map[string]any) (path string) {
	a.t.Helper()
	body := map[string]any{"name": name, "verify": map[string]any{"scheme": "github", "secret": signingSecret}}
	for field, value := range more {
		body[field] = value
	}
	_, path = a.sourceOf(tenant, body)
	return path
}

// asGitHub are the headers that GitHub sends with a body.
func asGitHub(body []byte, kind, id string) []string {
	return []string{"X-Hub-Signature-256", "sha256=" + signed(string(body)), "X-GitHub-Event", kind, "X-GitHub-Delivery", id}
}

// TestAttackByRequestsThatStall: strangers hold open as many requests as they can, at one source or
// at many. Every source, the attacked ones too, keeps answering 202 to signed requests.
func TestAttackByRequestsThatStall(t *testing.T) {
	beside(t, light)
	a := newAttacked(t, program{})
	ants := []string{a.github(attacker, "one", nil), a.github(attacker, "two", nil), a.github(attacker, "three", nil)}
	bees := []string{a.github(victim, "one", nil), a.github(victim, "two", nil)}
	one := func(int) string { return bees[0] }
	three := func(i int) string { return ants[i%3] }
	all := func(i int) string { return append(ants, bees...)[i%5] }
	sent := 0
	for _, attack := range []struct {
		name        string
		connections int
		long        int // connections, in the long form
		from        func(int) string
		path        func(int) string
		announced   int
		body        int // bytes sent
	}{
		{"1 MiB announced to one source", 130, 1300, oneAddress, one, 1 << 20, 0},
		{"one byte announced to three sources", 2060, 8000, oneAddress, three, 1, 0},
		{"256 MiB announced exactly", 256, 256, oneAddress, all, 1 << 20, 37 << 10},
		{"256 MiB and more announced from 250 addresses", 288, 288, manyAddresses, all, 1 << 20, 37 << 10},
		{"one byte announced from 250 addresses", 300, 6000, manyAddresses, all, 1, 0},
		{"256 MiB sent but for the last bytes, from 250 addresses", 0, 288, manyAddresses, all, 1 << 20, 1<<20 - 16},
	} {
		n := attack.connections
		if soak() {
			n = attack.long
		}
		if n == 0 {
			continue
		}
		filler := strings.Repeat("x", attack.body)
		release := a.crowdOf(n, attack.from, func(i int) string {
			return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", attack.path(i), attack.announced, filler)
		})
		eventually(t, 10*time.Second, "the requests are held", func() bool { return a.metric("grapnel_ingress_busy") >= min(float64(n)/4, 100) })
		held := a.metric("grapnel_ingress_busy")
		for range 10 {
			for _, path := range append(ants[:1:1], bees...) {
				sent++
				body := fmt.Appendf(nil, `{"n":%d,"filler":%q}`, sent, strings.Repeat("y", 8<<10))
				if status, answer := a.in(path, body, asGitHub(body, "push", fmt.Sprint(sent))...); status != http.StatusAccepted {
					t.Errorf("%s: a request that is signed was answered %d %s", attack.name, status, answer)
				}
			}
		}
		_, peak := a.memory()
		t.Logf("%s: %d connections, of which %.0f hold a slot; 30 of 30 that sign are answered; peak memory %.0f MiB", attack.name, n, held, peak)
		release()
	}
	most := 400.0
	if soak() {
		most = 640 // a body may take twice its received bytes, and 256 MiB may have been received
	}
	if _, peak := a.memory(); peak > most {
		t.Errorf("the memory grew to %.0f MiB, want at most %.0f", peak, most)
	}
}

// TestAttackOnTheQuarantine: requests that no signature vouches for are stored for operators, but
// not enough of them to fill the disk. Verified requests are accepted meanwhile.
func TestAttackOnTheQuarantine(t *testing.T) {
	beside(t, light)
	requests, size, most := 150, 512<<10, int64(32)
	if soak() {
		requests, size, most = 1500, 900<<10, 192 // 64 MiB are stored per hour, and the write-ahead log is as large
	}
	a := newAttacked(t, program{})
	path := a.github(attacker, "open", map[string]any{"on_unverified": "quarantine"})
	beside := a.github(victim, "beside", nil)
	before := a.disk()
	noise := make([]byte, size/2) // does not compress
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(noise)
	filler := hex.EncodeToString(noise)
	var mu sync.Mutex
	answers := map[int]int{}
	var all sync.WaitGroup
	places := make(chan struct{}, 8)
	for i := range requests {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			status, _ := a.in(path, fmt.Appendf(nil, `{"n":%d,"filler":"%s"}`, i, filler), asGitHub(nil, "push", fmt.Sprint(i))...)
			mu.Lock()
			defer mu.Unlock()
			answers[status]++
		})
		if i%(requests/10) == 0 {
			body := fmt.Appendf(nil, `{"n":%d}`, i)
			for _, path := range []string{path, beside} {
				if status, answer := a.in(path, body, asGitHub(body, "push", fmt.Sprint("right", i))...); status != http.StatusAccepted {
					t.Errorf("a request that is signed was answered %d %s", status, answer)
				}
			}
		}
	}
	all.Wait()
	grown := (a.disk() - before) >> 20
	t.Logf("%d requests of %d KiB: answered %v, the data directory has grown by %d MiB", requests, size>>10, answers, grown)
	if grown > most || soak() && answers[http.StatusTooManyRequests] == 0 ||
		answers[http.StatusAccepted]+answers[http.StatusTooManyRequests] != requests {
		t.Errorf("answered %v, %d MiB more on disk, want at most %d", answers, grown, most)
	}
}

// TestAttackWithAnOldSignature: a signature seen before creates no further event under another
// body, id or type, also where the provider does not sign these.
func TestAttackWithAnOldSignature(t *testing.T) {
	beside(t, light)
	a := newAttacked(t, program{})
	_, mailgun := a.sourceOf(victim, map[string]any{"name": "mailgun", "verify": map[string]any{"scheme": "mailgun", "secret": signingSecret}})
	hub := a.github(victim, "github", nil)
	hmacs := map[string]any{"scheme": "hmac", "secret": signingSecret, "header": "X-Sig", "signed": "{timestamp}.{body}",
		"timestamp_header": "X-Time", "id_header": "X-Id"}
	_, own := a.sourceOf(victim, map[string]any{"name": "own", "verify": hmacs})
	now := time.Now().Unix()
	mail := func(id, more string) []byte {
		return fmt.Appendf(nil, `{"signature":{"timestamp":"%d","token":"t","signature":%q},"event-data":{"id":%q,"event":"opened"%s}}`, now,
			signed(fmt.Sprint(now, "t")), id, more)
	}
	push := []byte(`{"ref":"main"}`)
	for _, once := range []struct {
		name, path string
		body       []byte
		headers    []string
		first      bool // it becomes a new event
		refused    int  // 0: it counts as a copy of the first one
	}{
		{"mailgun", mailgun, mail("1", ""), nil, true, 0},
		{"mailgun, the same", mailgun, mail("1", ""), nil, false, 0},
		{"mailgun, another body", mailgun, mail("1", `,"more":1`), nil, false, 0},
		{"mailgun, another id", mailgun, mail("2", ""), nil, false, 0},
		{"github", hub, push, asGitHub(push, "push", "1"), true, 0},
		{"github, another type", hub, push, asGitHub(push, "repository", "2"), false, 0},
		{"github, the same", hub, push, asGitHub(push, "push", "1"), false, 0},
		{"github, another body", hub, []byte(`{"ref":"other"}`), asGitHub(push, "push", "3"), false, http.StatusUnauthorized},
		{"own", own, push, []string{"X-Sig", signed(fmt.Sprint(now, ".", string(push))), "X-Time", fmt.Sprint(now), "X-Id", "1"}, true, 0},
		{"own, another id", own, push, []string{"X-Sig", signed(fmt.Sprint(now, ".", string(push))), "X-Time", fmt.Sprint(now), "X-Id", "2"},
			false, 0},
		{"own, another time", own, push, []string{"X-Sig", signed(fmt.Sprint(now, ".", string(push))), "X-Time", fmt.Sprint(now + 1), "X-Id",
			"3"}, false, http.StatusUnauthorized},
		{"own, an old time", own, push, []string{"X-Sig", signed(fmt.Sprint(now-400, ".", string(push))), "X-Time", fmt.Sprint(now - 400), "X-Id",
			"4"}, false, http.StatusUnauthorized},
	} {
		want := http.StatusOK
		if once.first && once.path != mailgun { // to which any other status is a failure
			want = http.StatusAccepted
		} else if once.refused != 0 {
			want = once.refused
		}
		if status, body := a.in(once.path, once.body, once.headers...); status != want {
			t.Errorf("%s: answered %d %s, want %d", once.name, status, body, want)
		}
	}
	if n := len(a.published()); n != 3 {
		t.Errorf("there are %d events, want 3", n)
	}
	for name, verify := range map[string]map[string]any{
		"/verify/timestamp_header": {"scheme": "hmac", "secret": signingSecret, "header": "X-Sig", "timestamp_header": "X-Time"},
		"/verify/secret":           {"scheme": "hmac", "secret": "x", "header": "X-Sig"},
	} {
		var fault struct{ Errors []struct{ Pointer string } }
		a.by(attacker, grapnel.ScopeManage, http.StatusUnprocessableEntity, http.MethodPost, "/v1/sources",
			map[string]any{"name": "weak", "verify": verify}, &fault)
		if len(fault.Errors) != 1 || fault.Errors[0].Pointer != name {
			t.Errorf("%v: refused for %+v", verify, fault)
		}
	}
}

// costly is a CEL expression that does as much work as the limit allows.
func costly(i int) string { return fmt.Sprintf(`event.data.x.matches("(a?){%d}b")`, 30+i) }

// TestAttackByFilters: 60 endpoints have costly filters, and a caller publishes a batch of ten
// events for all of them and disconnects. Anonymous requests reach a source with costly
// expressions. The process uses little time, and another tenant's requests are answered.
func TestAttackByFilters(t *testing.T) {
	least, most, quantile := 3, 15, 75
	if soak() {
		least, most, quantile = 15, 25, 50
	}
	a := newAttacked(t, program{})
	v := a.newVictim("beside")
	// This comes first: the filters of requests whose caller has left take turns for a while, and
	// would count.
	_, path := a.sourceOf(attacker, map[string]any{"name": "costly", "verify": map[string]any{"scheme": "none"},
		"type": `event.data.x.matches("(a?){40}b") ? "a" : "b"`, "key": `event.data.x.matches("(a?){41}b") ? "a" : "b"`})
	const requests = 40
	before := a.cpu()
	answers := map[int]int{}
	for i := range requests {
		status, _ := a.in(path, fmt.Appendf(nil, `{"i":%d,"x":%q}`, i, strings.Repeat("a", 8000)))
		answers[status]++
	}
	each := (a.cpu() - before) / requests
	t.Logf("%d anonymous requests with costly expressions: %v of processor time each, answered %v", requests, each, answers)
	if each > 10*time.Millisecond {
		t.Errorf("an anonymous request costs %v of processor time", each)
	}

	d := newDoor(t, "127.0.0.1", newSite())
	for i := range 60 {
		a.endpointOf(attacker, "http://"+d.addr+"/", map[string]any{"filter": costly(i), "event_types": []string{"costly"}})
	}
	var events []json.RawMessage
	for range 10 {
		events = append(events, json.RawMessage(fmt.Sprintf(`{"type":"costly","data":{"x":%q}}`, strings.Repeat("a", 8000))))
	}
	batch, err := json.Marshal(map[string]any{"events": events})
	if err != nil {
		t.Fatal(err)
	}
	attack := func(wait time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		_, _, _, _ = a.as(ctx, a.keys[attacker][grapnel.ScopePublish], http.MethodPost, "/v1/events/batch", batch)
	}
	var status int
	var answer []byte
	eventually(t, 20*time.Second, "the filters decide about the answer", func() bool {
		status, answer = a.ask(a.keys[attacker][grapnel.ScopePublish], http.MethodPost, "/v1/events/batch", batch)
		return !machineIsBusy(answer)
	})
	before = a.cpu()
	attack(300 * time.Millisecond)
	pause(t.Context(), 500*time.Millisecond) // the longest that the work may go on after its caller disconnected
	used := a.cpu() - before
	t.Logf("60 filters, 10 events: %v of processor time; with patience answered %d %.150s", used, status, answer)
	if used > time.Second || status != http.StatusUnprocessableEntity {
		t.Errorf("%v of processor time, and answered %d %s", used, status, answer)
	}

	// Four requests run at a time.
	ratio, without, with := inTurn(least, most, quantile, 5, func() (time.Duration, time.Duration) {
		without, _ := v.medians(10)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{}, 4)
		for range 4 {
			go func() {
				defer func() { done <- struct{}{} }()
				for ctx.Err() == nil {
					attack(300 * time.Millisecond)
				}
			}()
		}
		with, _ := v.medians(10)
		stop()
		for range 4 {
			<-done
		}
		return without, with
	})
	t.Logf("%d pairs: another tenant is answered after %v without and %v with four such requests at a time, ratio %.2f", len(with),
		median(without), median(with), ratio)
	if ratio > 5 {
		t.Errorf("another tenant waits %.2f times as long", ratio)
	}

	// One tenant may have fewer requests in progress than this. The rest are refused, and none of the
	// victim's.
	release := a.crowdOf(300, oneAddress, func(int) string {
		return fmt.Sprintf("POST /v1/events/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			a.keys[attacker][grapnel.ScopePublish], len(batch), batch)
	})
	for i := range 10 {
		status, body := a.publishAs(victim, newEvent{ID: fmt.Sprint("crowd-", i), Type: "beside.made", Data: json.RawMessage(`{}`)})
		if status != http.StatusAccepted && !machineIsBusy(body) {
			t.Errorf("beside 300 of the attacker's requests an event was answered %d %s", status, body)
		}
	}
	release()
}
