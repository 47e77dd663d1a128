//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// takers are consumers of one queue with their knowledge: the messages they leased, and the acks
// that were answered.
type takers struct {
	mu     sync.Mutex
	acked  map[string]bool // by event
	held   map[string]held // by event, the last lease
	last   map[string]int  // by key, the highest number that was leased
	handed int
	wrong  []string
}

type held struct {
	lease string
	until time.Time
	open  bool // no answer so far
}

// message is a leased message of a queue.
type message struct {
	Meta struct {
		Lease   string    `json:"lease"`
		EventID string    `json:"event_id"`
		Key     string    `json:"key"`
		Attempt int       `json:"attempt"`
		Until   time.Time `json:"lease_expires_at"`
	}
	Body struct{ N int }
}

// hand records a consumer's lease, unless it has expired: then another consumer may have had the
// message already, and the next one of its key. It may compare times: only processes are killed, so
// both sides have the same clock.
func (k *takers) hand(m message) (valid bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !time.Now().Before(m.Meta.Until) {
		return false
	}
	k.handed++
	id := m.Meta.EventID
	if k.acked[id] {
		k.wrong = append(k.wrong, fmt.Sprintf("%s came again after its ack was answered", id))
	}
	if before := k.held[id]; before.open && time.Now().Before(before.until.Add(-100*time.Millisecond)) {
		k.wrong = append(k.wrong, fmt.Sprintf("%s was handed out while a lease was valid", id))
	}
	if m.Body.N < k.last[m.Meta.Key] {
		k.wrong = append(k.wrong, fmt.Sprintf("of key %s came %d after %d", m.Meta.Key, m.Body.N, k.last[m.Meta.Key]))
	}
	k.last[m.Meta.Key] = m.Body.N
	k.held[id] = held{m.Meta.Lease, m.Meta.Until, true}
	return true
}

// consume leases and acks until ctx ends. Now and then it forgets a message, or nacks it.
func (k *takers) consume(ctx context.Context, c *child, name string, rng *rand.Rand) {
	for ctx.Err() == nil {
		status, body, err := c.call(ctx, http.MethodGet, "/v1/queues/orders/next?wait=500ms&max=5&consumer="+name, nil)
		if err != nil || status != http.StatusOK {
			idle(ctx, 20*time.Millisecond)
			continue
		}
		var page struct{ Data []message }
		if err := json.Unmarshal(body, &page); err != nil {
			c.t.Error(err)
			return
		}
		for _, m := range page.Data {
			if !k.hand(m) { // the acks of the messages before it took that long
				continue
			}
			verb, want := "ack", http.StatusNoContent
			switch n := rng.IntN(100); {
			case n == 0:
				continue
			case n == 1:
				verb = "nack"
			}
			status, _, err := c.call(context.WithoutCancel(ctx), http.MethodPost, "/v1/leases/"+m.Meta.Lease+"/"+verb, nil)
			k.mu.Lock()
			switch {
			case (err != nil || status >= 500) && verb == "ack": // if it had no effect, the lease is valid until it expires
			case status == want && verb == "ack":
				k.acked[m.Meta.EventID] = true
				fallthrough
			default: // also a nack whose answer is lost: if it had an effect, the message may come again at once
				if h := k.held[m.Meta.EventID]; h.lease == m.Meta.Lease {
					h.open = false
					k.held[m.Meta.EventID] = h
				}
			}
			k.mu.Unlock()
		}
	}
}

func idle(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// The server is killed again and again while consumers lease, ack, nack and forget. A message whose
// ack was answered never comes again, no message has two leases at once, keys keep their order, and
// in the end every accepted event has arrived.
func TestQueueThroughKills(t *testing.T) {
	beside(t, busy)
	kills := 6
	if soak() {
		kills = 60
	}
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(20 * time.Second)
	var made struct{ ID string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/queues", map[string]any{"name": "orders", "lease": "1500ms",
		"policy": map[string]any{"schedule": map[string]any{"mode": "since_previous", "delays": []string{"0s", "100ms"}, "tail": "repeat"},
			"max_attempts": 1000}}, &made)

	k := &takers{acked: map[string]bool{}, held: map[string]held{}, last: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var consumers, publishers sync.WaitGroup
	for n := range 2 {
		consumers.Go(func() { k.consume(ctx, c, fmt.Sprint("c", n), rand.New(rand.NewPCG(uint64(n), 7))) })
	}
	// Each key has one publisher, which repeats an event under its id until it is accepted, or a
	// provider, which only repeats the same request.
	var source struct{ ID string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/sources", map[string]any{"name": "provider", "verify": map[string]any{"scheme": "none"},
		"key": "event.data.k"}, &source)
	publishing, enough := context.WithCancel(t.Context())
	const keys = 4
	var accepted [keys]int
	for key := range keys {
		publishers.Go(func() {
			for n := 1; publishing.Err() == nil; n++ {
				e := newEvent{ID: fmt.Sprintf("e-%d-%d", key, n), Type: "order.made", Key: fmt.Sprint("k", key),
					Data: fmt.Appendf(nil, `{"k":"k%d","n":%d}`, key, n)}
				path, body := "/v1/events", e.encode()
				if key%2 == 1 {
					path, body = "/in/"+source.ID, e.Data
				}
				for {
					status, _, err := c.call(t.Context(), http.MethodPost, path, body)
					if err == nil && (status == http.StatusAccepted || status == http.StatusOK) {
						break
					}
					idle(t.Context(), 20*time.Millisecond)
				}
				accepted[key] = n
				idle(publishing, 25*time.Millisecond)
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range kills {
		idle(t.Context(), time.Duration(200+rng.IntN(1200))*time.Millisecond)
		c.kill()
		c.start()
		c.ready(20 * time.Second)
	}
	enough()
	publishers.Wait()
	total := 0
	for _, n := range accepted {
		total += n
	}
	eventually(t, 60*time.Second, "everything has ended", func() bool {
		var q struct{ Ready, Leased, Delayed, Waiting int }
		c.must(http.StatusOK, http.MethodGet, "/v1/queues/orders", nil, &q)
		return q.Ready+q.Leased+q.Delayed+q.Waiting == 0
	})
	stop()
	consumers.Wait()
	for _, w := range k.wrong {
		t.Error(w)
	}
	delivered := 0
	for _, r := range c.rows(map[string][]string{"endpoint": {made.ID}}) {
		if r.Status != grapnel.Delivered {
			t.Errorf("%+v", r)
		}
		delivered++
	}
	if delivered != total || total == 0 {
		t.Errorf("of %d events accepted %d were delivered", total, delivered)
	}
	for id := range k.acked {
		if k.held[id].lease == "" {
			t.Errorf("%s was acked and never handed out", id)
		}
	}
	t.Logf("%d events, handed out %d times, %d acks answered, %d kills", total, k.handed, len(k.acked), kills)
}
