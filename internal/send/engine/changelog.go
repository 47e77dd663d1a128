package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// changeLog logs the changes of endpoints that a person on call must know: dead letters, circuits,
// warnings, and disabled endpoints. Each is logged once, by the node that recorded it, once it is
// durable.
//
// An endpoint with thousands of failed deliveries gets some lines a minute and one line that counts
// the others.
type changeLog struct {
	store   Store
	book    *configuration.Book
	ids     *grapnel.IDs
	events  *cache
	metrics *Metrics
	log     *slog.Logger
	bounds  RecorderBounds
	over    <-chan struct{}
	sending context.Context // of reads; ends when draining takes too long

	mu    sync.Mutex
	dead  map[string]int // dead letters in this minute, by endpoint
	turns []turn
	work  chan struct{} // holds a token while turns is not empty
}

// turn is a circuit that opened or closed. Its log line has the number of held deliveries, which is
// read from the store.
type turn struct {
	endpoint string
	opened   bool
	standing policy.Standing
}

// recorded logs changes that are durable. It reads nothing and never blocks.
func (n *changeLog) recorded(page []core.Change, results []store.Changed) {
	for i := range results {
		ch := &page[i]
		if ch.Standing != nil && !results[i].Fenced {
			n.stands(ch.Standing)
		}
		if !results[i].Applied {
			continue
		}
		for _, news := range ch.News {
			switch news.Type {
			case grapnel.EventDeliveryFailed:
				n.lost(ch, news)
			case grapnel.EventEndpointFailing:
				n.log.Info("endpoint is failing; it will be disabled at 100 percent",
					n.about(ch.Endpoint, "percent", news.Percent, "reason", news.Reason)...)
			case grapnel.EventEndpointRecovered:
				n.log.Info("endpoint recovered; it is not going to be disabled", n.about(ch.Endpoint)...)
			}
		}
	}
}

// about returns the attributes of a log line about an endpoint.
func (n *changeLog) about(endpoint string, more ...any) []any {
	attrs := []any{"endpoint", endpoint}
	if ep := n.book.Snapshot().At(endpoint); ep != nil {
		attrs = append(attrs, "tenant", ep.Tenant)
	}
	return append(attrs, more...)
}

// lost logs a delivery that failed for good, unless its endpoint has used up its lines of this
// minute.
func (n *changeLog) lost(ch *core.Change, news core.News) {
	n.mu.Lock()
	n.dead[ch.Endpoint]++
	count := n.dead[ch.Endpoint]
	n.mu.Unlock()
	if count > n.bounds.Lines {
		return
	}
	what := "delivery failed; it is a dead letter"
	if news.Blocked {
		what = "delivery failed; its key is blocked until an operator retries or skips it"
	}
	attrs := n.about(ch.Endpoint, "delivery", named(ch, n.ids), "reason_code", string(ch.ReasonCode), "reason", news.Reason)
	event := ch.Subject.ID
	if event == "" {
		if ev := n.events.get(ch.Subject.Event); ev != nil {
			event = ev.ID
		}
	}
	if event != "" {
		attrs = append(attrs, "event", event)
	}
	n.log.Info(what, attrs...)
}

// count logs the number of dead letters that got no line of their own, and begins a new minute. It
// forgets the circuits of deleted endpoints.
func (n *changeLog) count() {
	n.metrics.forget(n.book.Snapshot())
	n.mu.Lock()
	dead := n.dead
	n.dead = map[string]int{}
	n.mu.Unlock()
	for endpoint, all := range dead {
		if more := all - n.bounds.Lines; more > 0 {
			n.log.Info("more deliveries failed", n.about(endpoint, "deliveries", more)...)
		}
	}
}

// stands counts and logs a standing that opens or closes the endpoint's circuit.
func (n *changeLog) stands(st *store.Standing) {
	shift := n.metrics.stands(st)
	if shift == policy.NoShift {
		return
	}
	n.metrics.shifted(shift)
	n.mu.Lock()
	n.turns = append(n.turns, turn{st.Endpoint, shift == policy.Opened, st.Standing})
	n.mu.Unlock()
	token(n.work)
}

// run logs circuits as they open and close, until the engine stops.
func (n *changeLog) run() {
	for {
		select {
		case <-n.work:
			n.logTurns(n.sending)
		case <-n.over:
			return
		}
	}
}

// heldCounted is the highest count of held deliveries that is logged.
const heldCounted = 1000

func (n *changeLog) logTurns(ctx context.Context) {
	n.mu.Lock()
	turns := n.turns
	n.turns = nil
	n.mu.Unlock()
	counted := make([][]any, min(len(turns), n.bounds.Counted))
	var counting sync.WaitGroup
	for i := range counted { // together: the embedded store then fills its tables for all of them once
		counting.Go(func() { counted[i] = n.held(ctx, turns[i].endpoint) })
	}
	counting.Wait()
	for i := range turns {
		t := &turns[i]
		attrs := n.about(t.endpoint)
		if i < len(counted) {
			attrs = append(attrs, counted[i]...)
		}
		if t.opened {
			attrs = append(attrs, "cause", t.standing.Cause, "next_probe", t.standing.ProbeAt)
			n.log.Info("circuit opened; deliveries are held until a probe succeeds", attrs...)
		} else {
			n.log.Info("circuit closed; held deliveries go out", attrs...)
		}
	}
}

// held counts the deliveries that an endpoint's circuit holds, or held until now.
func (n *changeLog) held(ctx context.Context, endpoint string) []any {
	ctx, cancel := context.WithTimeout(ctx, n.bounds.Held)
	defer cancel()
	held, err := n.store.Waiting(ctx, endpoint, heldCounted)
	if err != nil {
		return nil
	}
	if held >= heldCounted {
		return []any{"held", fmt.Sprintf("%d or more", heldCounted)}
	}
	return []any{"held", held}
}

// close logs the circuits and dead letters that were not logged yet.
func (n *changeLog) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the store is not read any more
	n.logTurns(ctx)
	n.count()
}

// status logs that an endpoint was disabled or enabled.
func (n *changeLog) status(before, is *grapnel.Endpoint, by *grapnel.AuditEntry) {
	if before == nil || before.Status == is.Status {
		return
	}
	attrs := []any{"endpoint", is.ID, "tenant", is.Tenant}
	if by != nil {
		attrs = append(attrs, slog.String("actor", by.Actor))
	}
	switch grapnel.EndpointDisabled {
	case is.Status:
		n.log.Info("endpoint disabled; nothing is sent to it", append(attrs, "reason", is.DisabledReason)...)
	case before.Status:
		n.log.Info("endpoint enabled; held deliveries go out", attrs...)
	}
}
