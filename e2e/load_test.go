//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// load is several publishers, each of which goes on only when its event was accepted. An unknown or
// failed publish is repeated with the same event id until the server has answered.
type load struct {
	t       testing.TB
	child   *child
	ledger  *ledger
	dice    *dice
	targets []*target
	every   time.Duration // between two events of one publisher
	batch   bool          // the first publisher uses the batch call
	resolve time.Duration // the longest time until a publisher gets an answer
	others  []*child      // further servers that accept events; each call goes to a random one
	tenants []string      // each event has a random one of these; none: the default
	life    string        // a part of each id, if the server has events of another load
	fresh   bool          // new types and keys appear throughout the run
	patient time.Duration // how long a publisher waits for an answer before it tries another server; 0: the client's timeout

	calls    atomic.Int64
	accepted atomic.Int64
	unknown  atomic.Int64
}

// run publishes until the context ends and every publisher knows the outcome of its last event.
func (l *load) run(ctx context.Context, publishers int) {
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			ticker := time.NewTicker(l.every)
			defer ticker.Stop()
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				size := 1
				if l.batch && p == 0 {
					size = 1 + l.dice.n(8)
				}
				var events []newEvent
				for i := range size {
					events = append(events, l.event(p, fmt.Sprintf("e%s-%d-%d-%d", l.life, p, n, i)))
				}
				if !l.settle(events) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// event generates an event. Most keys belong to one publisher, so that their order is known; some
// are shared, and some events have no key.
func (l *load) event(publisher int, id string) newEvent {
	e := newEvent{ID: id, Type: "note.added"}
	if l.dice.percent(30) {
		e.Type = "order.placed"
	}
	switch k := l.dice.n(10); {
	case k < 7:
		e.Key = fmt.Sprintf("own-%d-%d", publisher, l.dice.n(4))
	case k < 9:
		e.Key = fmt.Sprintf("shared-%d", l.dice.n(3))
	}
	if len(l.tenants) > 0 {
		e.Tenant = l.tenants[l.dice.n(len(l.tenants))]
	}
	if l.fresh && l.dice.percent(30) {
		era := l.ledger.now() / (500 * time.Millisecond)
		e.Type, e.Key = fmt.Sprintf("fresh.t%d", era), fmt.Sprintf("fresh-%d-%d", era, l.dice.n(3))
	}
	// The data has spaces, escapes and number forms that encoding again would change.
	e.Data = json.RawMessage(fmt.Sprintf(`{"id":"%s", "n":1.50,"e":1E3,"text":"\u00e9<&>","pad":"%s"}`, id,
		strings.Repeat("x", l.dice.n(1500))))
	return e
}

// settle publishes until the answer is known. It returns false, and fails the test, if that takes
// too long.
func (l *load) settle(events []newEvent) bool {
	ctx, cancel := context.WithTimeout(context.Background(), l.resolve)
	defer cancel()
	done := poll(ctx, l.resolve, 20*time.Millisecond, func() bool {
		var results []history.Result
		var refused string
		call := ctx
		if l.patient > 0 {
			var giveUp context.CancelFunc
			call, giveUp = context.WithTimeout(ctx, l.patient)
			defer giveUp()
		}
		if len(events) == 1 {
			results, refused = l.attempt(events, func() ([]history.Result, string) {
				r, refused := l.one().publish(call, events[0])
				return []history.Result{r}, refused
			})
		} else {
			results, refused = l.attempt(events, func() ([]history.Result, string) { return l.one().publishBatch(call, events) })
		}
		if refused != "" {
			l.t.Errorf("publishing %s was refused: %s", events[0].ID, refused)
			return true
		}
		for _, r := range results {
			if r == history.Unknown {
				l.unknown.Add(1)
			}
			if r != history.OK {
				return false
			}
		}
		l.accepted.Add(int64(len(results)))
		return true
	})
	if !done {
		l.t.Errorf("publishing %s was not answered within %v", events[0].ID, l.resolve)
	}
	return done
}

// one is a random server of those that accept events.
func (l *load) one() *child {
	if n := l.dice.n(len(l.others) + 1); n > 0 {
		return l.others[n-1]
	}
	return l.child
}

// attempt makes one call between its lines in the ledger. Both lines are on the disk before
// anything follows from them.
func (l *load) attempt(events []newEvent, call func() ([]history.Result, string)) ([]history.Result, string) {
	first := int(l.calls.Add(int64(len(events)))) - len(events) + 1
	for i, e := range events {
		l.ledger.write(entry{Call: first + i, Intent: &history.Publish{ID: e.ID, Key: e.Key, Hash: fingerprint(e.Data), Invoke: l.ledger.now(),
			Endpoints: l.wanted(e)}})
	}
	l.ledger.sync()
	results, refused := call()
	for i, r := range results {
		l.ledger.write(entry{Call: first + i, Result: &history.Publish{Return: l.ledger.now(), Result: r}})
	}
	l.ledger.sync()
	return results, refused
}

func (l *load) wanted(e newEvent) []string {
	var ids []string
	for _, x := range l.targets {
		types, _ := x.create["event_types"].([]string)
		tenant, _ := x.create["tenant"].(string)
		wants := slices.ContainsFunc(types, func(pattern string) bool {
			prefix, open := strings.CutSuffix(pattern, "*")
			return pattern == e.Type || open && strings.HasPrefix(e.Type, prefix)
		})
		if tenant == e.Tenant && (len(types) == 0 || wants) {
			ids = append(ids, x.rules.ID)
		}
	}
	return ids
}

// publishBatch publishes events in one call. They are accepted together, in this order, or not at
// all.
func (c *child) publishBatch(ctx context.Context, events []newEvent) (results []history.Result, refused string) {
	results = make([]history.Result, len(events))
	request := []byte(`{"events":[`)
	for i, e := range events {
		if i > 0 {
			request = append(request, ',')
		}
		request = append(request, e.encode()...)
	}
	status, body, err := c.call(ctx, http.MethodPost, "/v1/events/batch", append(request, "]}"...))
	all, refused := judge(status, body, err)
	for i := range results {
		results[i] = all
	}
	if all != history.OK {
		return results, refused
	}
	var answer struct {
		Data []struct {
			ID     string `json:"id"`
			Status int    `json:"status"`
			Code   string `json:"code"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Data) != len(events) {
		return results, fmt.Sprintf("the answer to a batch of %d cannot be used: %s", len(events), body)
	}
	for i, one := range answer.Data {
		if one.Code != "" || one.ID != events[i].ID {
			return results, fmt.Sprintf("event %s of a batch: %s", events[i].ID, body)
		}
	}
	return results, ""
}
