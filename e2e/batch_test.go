//go:build linux && prove

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/memstore"
)

// ledgerOfKit is the effects of a receiver of batches, and what it was to refuse.
type ledgerOfKit struct {
	mu       sync.Mutex
	effects  map[string]int // by event
	last     map[string]int // by key: the number of its last event
	disorder []string
	batches  int // requests with several events
	failures int // of events that succeed later
}

// handle counts an event's effect when it commits. Events of key poison fail for good, and each
// thirteenth event fails at first.
func (l *ledgerOfKit) handle(_ context.Context, tx *memstore.Tx, d *receive.Delivery) error {
	var is struct {
		ID   string
		Data struct {
			Key string
			N   int
		}
	}
	if err := d.Decode(&is); err != nil || is.ID != d.ID {
		return receive.Permanent(fmt.Errorf("event %s is not in its element %s: %w", d.ID, d.Body, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case strings.HasPrefix(is.Data.Key, "poison"):
		return receive.Permanent(errors.New("never"))
	case is.Data.N%13 == 0 && d.Attempt == 1:
		l.failures++
		return errors.New("not yet")
	}
	tx.OnCommit(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.effects[d.ID]++
		if is.Data.N != l.last[is.Data.Key]+1 {
			l.disorder = append(l.disorder, d.ID)
		}
		l.last[is.Data.Key] = is.Data.N
	})
	return nil
}

// TestBatchesHaveOneEffectForEachEvent: the kit of package receive gets batches from a server that
// is killed, while some events fail at first and some for good. Each event has one effect, in the
// order of its key; only the poison ends as dead letters; and no other event fails for another's
// sake.
func TestBatchesHaveOneEffectForEachEvent(t *testing.T) {
	const keys, each, poison = 40, 30, 8
	beside(t, busy)
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	l := &ledgerOfKit{effects: map[string]int{}, last: map[string]int{}}
	var endpoint http.Handler
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		if strings.HasPrefix(r.Header.Get("webhook-id"), "bat_") {
			l.batches++
		}
		l.mu.Unlock()
		endpoint.ServeHTTP(w, r)
	}))
	t.Cleanup(receiver.Close)
	id, secret := c.endpoint(receiver.URL, map[string]any{"format": "batch", "event_types": []string{"batched.happened"},
		"policy": map[string]any{"max_attempts": 50, "jitter": 0, "breaker": false,
			"schedule": map[string]any{"delays": []string{"0s", "200ms"}, "tail": "repeat"}, "classify": map[string]string{"422": "fail"}}})
	kit, err := receive.New(receive.Options{Source: "acme", Verifier: receive.StandardWebhooks(secret), Store: memstore.New(), Batches: true,
		NoDeadLetters: true, Observe: func(receive.Observation) {}})
	if err != nil {
		t.Fatal(err)
	}
	endpoint = receive.Transaction(kit, l.handle)

	for round := range 3 {
		var events []newEvent
		for n := round*each/3 + 1; n <= (round+1)*each/3; n++ {
			for k := range keys + poison {
				key := fmt.Sprintf("key%d", k)
				if k >= keys {
					key = fmt.Sprintf("poison%d", k)
				}
				events = append(events, newEvent{ID: fmt.Sprintf("%s-%d", key, n), Type: "batched.happened", Key: key,
					Data: json.RawMessage(fmt.Sprintf(`{"key":%q,"n":%d}`, key, n))})
			}
		}
		if err := c.publishMany(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		pause(t.Context(), time.Duration(round+1)*50*time.Millisecond)
		c.kill()
		c.start()
		c.ready(30 * time.Second)
	}
	eventually(t, time.Minute, "nothing is pending", func() bool { return !c.waiting() })

	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.effects) != keys*each || len(l.disorder) > 0 {
		t.Errorf("%d events of %d had an effect; out of order: %v", len(l.effects), keys*each, l.disorder)
	}
	for event, n := range l.effects {
		if n != 1 {
			t.Errorf("%s had %d effects", event, n)
		}
	}
	again := 0
	for _, r := range c.rows(url.Values{"endpoint": {id}}) {
		bad := strings.HasPrefix(r.EventID, "poison")
		if r.Status != map[bool]grapnel.Status{true: grapnel.Failed, false: grapnel.Delivered}[bad] || bad && r.Attempts != 1 {
			t.Errorf("%s is %s after %d attempts", r.EventID, r.Status, r.Attempts)
		}
		if !bad && r.Attempts > 1 {
			again++
		}
	}
	t.Logf("%d requests with several events; %d events failed at first, %d had several attempts", l.batches, l.failures, again)
	if l.batches < 10 || again > l.failures {
		t.Errorf("%d requests had several events; %d events had several attempts, and %d failed", l.batches, again, l.failures)
	}
}
