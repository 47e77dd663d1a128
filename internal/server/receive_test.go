package server

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/policy"
)

// hub sends webhooks to a source as GitHub does.
type hub struct {
	t      *testing.T
	url    string
	secret string
	http   *http.Client
}

func (r running) hub(t *testing.T, source *client.Source, secret string) *hub {
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(transport.CloseIdleConnections)
	return &hub{t, r.URL() + source.IngestURL, secret, &http.Client{Transport: transport}}
}

// taken is the answer to a provider.
type taken struct {
	status    int
	ID        string
	Duplicate bool
	Conflict  bool
}

func (h *hub) send(delivery, body string) (got taken) {
	mac := hmac.New(sha256.New, []byte(h.secret))
	_, _ = io.WriteString(mac, body)
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.url, strings.NewReader(body))
	if err != nil {
		h.t.Error(err)
		return got
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", "issues")
	r.Header.Set("X-GitHub-Delivery", delivery)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := h.http.Do(r)
	if err != nil {
		h.t.Error(err)
		return got
	}
	defer func() { _ = resp.Body.Close() }()
	got.status = resp.StatusCode
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		h.t.Error(err)
	}
	return got
}

// A request to a source is verified, becomes one event however many copies arrive at the same
// moment, reaches the endpoints that want it and no other, and carries its origin.
func TestFromAProviderToAWorker(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	c := s.client(t, testKey)
	src, err := c.CreateSource(t.Context(), client.NewSource{Name: "hub", Verify: client.NewVerify{Scheme: "github", Secret: "the-first-one"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []client.NewQueue{{Name: "mine", Source: src.ID}, {Name: "all"}, {Name: "others", EventTypes: []string{"push"}}} {
		if _, err := c.CreateQueue(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	var copies sync.WaitGroup
	answers := make([]taken, 20)
	h := s.hub(t, src, "the-first-one")
	for i := range answers {
		copies.Go(func() { answers[i] = h.send("d-1", `{"n": 1.50}`) })
	}
	copies.Wait()
	fresh := 0
	for _, a := range answers {
		if a.ID != answers[0].ID || a.status != 200 && a.status != 202 || a.Duplicate == (a.status == 202) {
			t.Errorf("answered %+v, and %+v to another copy", a, answers[0])
		}
		if a.status == 202 {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d of 20 copies were taken for the first", fresh)
	}
	if a := h.send("d-1", `{"n": 2}`); a.status != 200 || !a.Conflict || a.ID != answers[0].ID {
		t.Errorf("another body under the same id: answered %+v", a)
	}
	if a := s.hub(t, src, "guessed").send("d-2", `{}`); a.status != 401 {
		t.Errorf("forged: answered %+v", a)
	}
	if _, err := c.RotateSourceSecret(t.Context(), src.ID, "the-second-one", time.Hour); err != nil {
		t.Fatal(err)
	}
	if a, b := h.send("d-3", `{"n":3}`), s.hub(t, src, "the-second-one").send("d-4", `{"n":4}`); a.status != 202 || b.status != 202 {
		t.Errorf("with the old and the new secret: answered %+v and %+v", a, b)
	}

	for queue, want := range map[string]int{"mine": 3, "all": 3, "others": 0} {
		found, err := c.Next(t.Context(), queue, client.Take{Max: 10})
		if err != nil || len(found) != want {
			t.Fatalf("%s has %d messages, want %d: %v", queue, len(found), want, err)
		}
		if want > 0 &&
			(string(found[0].Body) != `{"n": 1.50}` || found[0].EventID != answers[0].ID || found[0].Type != "issues" ||
				found[0].ContentType != grapnel.JSONType) {
			t.Errorf("%s hands out %+v with the body %s", queue, found[0].MessageMeta, found[0].Body)
		}
	}

	all, err := c.Inbox(t.Context(), client.InboxFilter{Source: src.ID})
	if err != nil || len(all.Data) != 4 {
		t.Fatalf("the inbox has %d requests, want three events and a conflict: %v", len(all.Data), err)
	}
	one, err := c.InboxRequest(t.Context(), answers[0].ID)
	if err != nil || one.KnownBy == nil || one.KnownBy.Value != "d-1" || len(one.Checks) == 0 || !one.Checks[len(one.Checks)-1].Passed {
		t.Errorf("the request is shown as %+v: %v", one, err)
	}
	ev, err := c.Event(t.Context(), answers[0].ID)
	if err != nil || ev.Source != src.ID {
		t.Errorf("the event says that it came through %q: %v", ev.Source, err)
	}
	conflicts, err := c.Inbox(t.Context(), client.InboxFilter{Outcome: client.IntakeConflict})
	if err != nil || len(conflicts.Data) != 1 || conflicts.Data[0].EventID != answers[0].ID {
		t.Errorf("in conflict are %+v: %v", conflicts.Data, err)
	}
	if got, err := c.InboxRequest(
		t.Context(),
		conflicts.Data[0].ID,
	); err != nil ||
		string(got.Content()) != `{"n":2}` && string(got.Content()) != `{"n": 2}` {
		t.Errorf("the body in conflict is %s: %v", got.Content(), err)
	}
}

// again restarts the server at the same address.
func (r running) again(t *testing.T, o Options) running {
	t.Helper()
	o.Listen = strings.TrimPrefix(r.URL(), "http://")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	return start(t, o)
}

// A consumer outlives a restart of the server: no message is lost, and an acked one does not come
// again.
func TestConsumeThroughARestart(t *testing.T) {
	const n = 200
	o := options(t.TempDir())
	o.AdminKey, o.Listen = testKey, steady
	s := start(t, o)
	c := s.client(t, testKey)
	if _, err := c.CreateQueue(t.Context(), client.NewQueue{Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	events := make([]client.NewEvent, n)
	for i := range events {
		events[i] = client.NewEvent{ID: fmt.Sprintf("e%d", i), Type: "order.made", Key: fmt.Sprint(i % 40), Data: fmt.Appendf(nil, `{"n":%d}`, i)}
	}
	if _, err := c.PublishBatch(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var mu sync.Mutex
	acked, handled, last := map[string]bool{}, map[string]int{}, map[string]int{}
	half := make(chan struct{})
	consumed := make(chan error, 1)
	go func() {
		consumed <- c.Consume(ctx, "orders", func(_ context.Context, m *client.Message) error {
			var body struct{ N int }
			if err := json.Unmarshal(m.Body, &body); err != nil {
				return client.Reject(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if acked[m.EventID] {
				t.Errorf("%s came again after it was acked", m.EventID)
			}
			if before, there := last[m.Key]; there && body.N < before {
				t.Errorf("key %s: %d came after %d", m.Key, body.N, before)
			}
			last[m.Key] = body.N
			handled[m.EventID]++
			if body.N%10 == 3 && handled[m.EventID] == 1 {
				return client.RetryAfter(10*time.Millisecond, errors.New("not yet"))
			}
			return nil
		}, client.ConsumeOptions{Concurrency: 8, Settled: func(one client.Settled) {
			mu.Lock()
			defer mu.Unlock()
			if one.Outcome != client.Acked || one.Err != nil {
				return
			}
			acked[one.Message.EventID] = true
			switch len(acked) {
			case n / 2:
				close(half)
			case n:
				stop()
			}
		}})
	}()
	<-half
	s = s.again(t, o)
	if err := <-consumed; err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(acked) != n {
		t.Fatalf("%d of %d were acked", len(acked), n)
	}
	q, err := s.client(t, testKey).Queue(t.Context(), "orders")
	if err != nil || q.Ready+q.Leased+q.Delayed+q.Waiting+q.Dead != 0 {
		t.Errorf("left in the queue: %+v, %v", q.QueueCounts, err)
	}
}

// A handler that takes longer than the lease keeps its message. A rejected message becomes a dead
// letter with the given reason.
func TestConsumeExtendsAndRejects(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	c := s.client(t, testKey)
	q, err := c.CreateQueue(t.Context(), client.NewQueue{Name: "slow", Lease: policy.Duration(3 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{`"slow"`, `"bad"`} {
		if _, err := c.Publish(t.Context(), client.NewEvent{Type: "a", Data: json.RawMessage(data)}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	var mu sync.Mutex
	var all []client.Settled
	err = c.Consume(ctx, q.ID, func(ctx context.Context, m *client.Message) error {
		if bytes.Equal(m.Body, []byte(`"bad"`)) {
			return client.Reject(errors.New("no such customer"))
		}
		select {
		case <-time.After(5 * time.Second): // two extensions, each 1.5 s before its lease ends
		case <-ctx.Done():
		}
		return context.Cause(ctx)
	}, client.ConsumeOptions{Concurrency: 2, Consumer: "me", Settled: func(one client.Settled) {
		mu.Lock()
		defer mu.Unlock()
		if all = append(all, one); len(all) == 2 {
			stop()
		}
	}})
	if err != nil || len(all) != 2 {
		t.Fatalf("%d were settled: %v", len(all), err)
	}
	for _, one := range all {
		if one.Err != nil || one.Message.Attempt != 1 {
			t.Errorf("%s: attempt %d, %v", one.Message.Body, one.Message.Attempt, one.Err)
		}
	}
	dead, err := c.DeadLetters(t.Context(), client.DeliveryFilter{Endpoint: q.ID})
	if err != nil || len(dead.Data) != 1 || !strings.Contains(dead.Data[0].Reason, "no such customer") ||
		dead.Data[0].ReasonCode != grapnel.ReasonRejected {
		t.Errorf("dead letters: %+v, %v", dead.Data, err)
	}
	shown, err := c.Queue(t.Context(), "slow")
	if err != nil || len(shown.Consumers) != 1 || shown.Consumers[0].Name != "me" {
		t.Errorf("consumers: %+v, %v", shown.Consumers, err)
	}
}

// TestTheLargestWebhooksReachAPreset: what a source takes fits into the body that a preset's
// transform makes of it, as JSON and as base64.
func TestTheLargestWebhooksReachAPreset(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	c := s.client(t, testKey)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(receiver.Close)
	src, err := c.CreateSource(t.Context(), client.NewSource{Name: "hub", Verify: client.NewVerify{Scheme: "github", Secret: "the-first-one"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: receiver.URL, Policy: "parseo"}); err != nil {
		t.Fatal(err)
	}
	h := s.hub(t, src, "the-first-one")
	for id, body := range map[string]string{
		"json": `"` + strings.Repeat("x", DefaultMaxBody-2) + `"`, "text": strings.Repeat("x", DefaultMaxBody),
	} {
		if got := h.send(id, body); got.status != http.StatusAccepted {
			t.Errorf("%s: answered %+v", id, got)
		}
	}
	poll(t, "both have ended", func() bool {
		list, err := c.Deliveries(t.Context(), client.DeliveryFilter{Status: []grapnel.Status{grapnel.Failed, grapnel.Delivered}})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list.Data {
			if d.Status != grapnel.Delivered {
				t.Fatal(d.Reason)
			}
		}
		return len(list.Data) == 2
	})
}
