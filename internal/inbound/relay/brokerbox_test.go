package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
	"github.com/grapnelhq/grapnel/internal/store"
)

var errLost = errors.New("the connection is lost")

// fakeBroker is a broker in memory. Its calls fail now and then, before or after they have taken
// effect, and a consumer that connects gets all messages that are not acknowledged.
type fakeBroker struct {
	t    *testing.T
	sink *sink

	mu       sync.Mutex
	dice     *rand.Rand
	faulty   bool
	messages []brokers.Received
	done     int // messages that are acknowledged
	deaf     int // acknowledgements that take effect and whose answer is lost
}

func (b *fakeBroker) fails() bool { return b.faulty && b.dice.IntN(12) == 0 }

func (b *fakeBroker) consume(_ context.Context, _ *grapnel.Source, most int, bytes int64) (brokers.Consumer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails() {
		return nil, []error{errLost, brokers.ErrElsewhere}[b.dice.IntN(2)]
	}
	return &fakeConsumer{broker: b, most: most, bytes: bytes, next: b.done}, nil
}

func (b *fakeBroker) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.messages) - b.done
}

type fakeConsumer struct {
	broker *fakeBroker
	most   int
	bytes  int64
	next   int
	open   []brokers.Received
}

func (c *fakeConsumer) Receive(ctx context.Context, wait time.Duration) ([]brokers.Received, error) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails() {
		return nil, errLost
	}
	n := min(c.most, len(b.messages)-c.next)
	if b.faulty && n > 0 {
		n = 1 + b.dice.IntN(n)
	}
	got := b.messages[c.next : c.next+n]
	left := c.bytes
	for _, m := range got {
		left -= int64(len(m.Body))
	}
	if left < 0 {
		return nil, brokers.ErrTooMuch
	}
	c.next, c.open = c.next+n, append(c.open, got...)
	return append([]brokers.Received{}, got...), nil
}

// Ack fails the test if a message is not stored yet.
func (c *fakeConsumer) Ack(ctx context.Context, n int) error {
	b := c.broker
	for _, m := range c.open[:n] {
		if _, _, err := b.sink.Event(ctx, store.Everyone(), "acme", m.ID); err != nil && !b.sink.has(m.ID) {
			b.t.Errorf("%s is acknowledged and not stored", m.ID)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails() {
		return errLost
	}
	if at := c.next - len(c.open); at == b.done { // else another consumer has acknowledged them
		b.done += n
	}
	c.open = c.open[n:]
	if b.deaf > 0 {
		b.deaf--
		return errLost
	}
	if b.fails() {
		return errLost
	}
	return nil
}

func (c *fakeConsumer) Close() {}

// has says whether a row was set aside.
func (s *sink) has(id string) bool {
	for _, a := range s.asides() {
		for _, h := range a.Headers {
			if h.Name == "Id" && h.Value == id {
				return true
			}
		}
	}
	return false
}

// TestBrokersThroughFaults: receiving, storing and acknowledging fail at random, and another node
// owns the source at times. No message is acknowledged before it is stored, each becomes one event,
// the order of each key is the broker's, and messages that cannot be events are set aside.
func TestBrokersThroughFaults(t *testing.T) {
	for seed := range uint64(4) {
		b := Bounds{Messages: 16, Asleep: time.Millisecond, First: time.Millisecond, Longest: 5 * time.Millisecond, StandBy: 2 * time.Millisecond, Nap: time.Millisecond}
		if seed%2 == 1 {
			b = bounds.Tiny[Bounds](seed)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { readThroughFaults(t, seed, b) })
	}
}

func readThroughFaults(t *testing.T, seed uint64, b Bounds) {
	s := newSink(t)
	broker := &fakeBroker{t: t, sink: s, dice: rand.New(rand.NewPCG(seed, 1)), faulty: true}
	const messages, keys = 400, 5
	for i := range messages {
		m := brokers.Received{ID: fmt.Sprint("m", i), Key: fmt.Sprint("k", i%keys), Type: "note.added", Body: fmt.Appendf(nil, `{"n":%d}`, i)}
		switch {
		case i%50 == 7:
			m.Type = "no type"
		case i%50 == 9:
			m.Body = make([]byte, 5000)
		}
		broker.messages = append(broker.messages, m)
	}
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(seed, 2))
	s.injure = func([]store.Incoming) (before, after error) {
		mu.Lock()
		defer mu.Unlock()
		s.foreign.Store(dice.IntN(10) == 0)
		return []error{nil, nil, nil, errLost}[dice.IntN(4)], []error{nil, nil, nil, errLost}[dice.IntN(4)]
	}
	s.set(grapnel.Source{ID: "src_1", Tenant: "acme", Broker: &grapnel.Target{Kind: "nats"}, Revision: 1})
	r, _ := relaying(t, Options{Engine: s, Store: s.Store, MaxEvent: 4096, Bounds: b, Consume: broker.consume})
	until(t, "all is read", func() bool { s.foreign.CompareAndSwap(true, false); return broker.left() == 0 })
	last := map[string]int{}
	events := s.events()
	for _, ev := range events {
		var n int
		if _, err := fmt.Sscanf(ev.ID, "m%d", &n); err != nil || last[ev.Key] > n || ev.Key != fmt.Sprint("k", n%keys) {
			t.Errorf("%s of %s came after %d", ev.ID, ev.Key, last[ev.Key])
		}
		last[ev.Key] = n
	}
	if poison := messages / 50 * 2; len(events) != messages-poison {
		t.Errorf("%d events of %d", len(events), messages-poison)
	}
	if at, there := r.Status("src_1"); !there || at.Moved == 0 {
		t.Errorf("status %+v", at)
	}
}

// TestUnfitMessagesOfTwoConnections: an acknowledgement took effect, but its answer was lost. The
// unfit message that stands at the same place of the next connection is another one, and is set
// aside too.
func TestUnfitMessagesOfTwoConnections(t *testing.T) {
	s := newSink(t)
	broker := &fakeBroker{t: t, sink: s, deaf: 1}
	for i := range 4 {
		m := brokers.Received{ID: fmt.Sprint("m", i), Type: "note.added", Body: []byte(`{}`)}
		if i%2 == 1 {
			m.Type = "no type"
		}
		broker.messages = append(broker.messages, m)
	}
	s.set(grapnel.Source{ID: "src_1", Tenant: "acme", Broker: &grapnel.Target{Kind: "nats"}, Revision: 1})
	relaying(t, Options{Engine: s, Store: s.Store, Consume: broker.consume,
		Bounds: Bounds{Messages: 2, Asleep: time.Millisecond, First: time.Millisecond, Longest: 2 * time.Millisecond}})
	until(t, "all is read", func() bool { return broker.left() == 0 })
	if n := len(s.asides()); n != 2 {
		t.Errorf("%d messages are set aside", n)
	}
}

// TestBodiesBeyondTheMemory: a broker that sends more than may be in memory at once is asked for
// fewer messages, until they fit.
func TestBodiesBeyondTheMemory(t *testing.T) {
	s := newSink(t)
	broker := &fakeBroker{t: t, sink: s}
	for i := range 64 {
		broker.messages = append(broker.messages, brokers.Received{ID: fmt.Sprint("m", i), Type: "a", Body: fmt.Appendf(nil, `"%01000d"`, i)})
	}
	s.set(grapnel.Source{ID: "src_1", Tenant: "acme", Broker: &grapnel.Target{Kind: "nats"}, Revision: 1})
	relaying(t, Options{Engine: s, Store: s.Store, MaxEvent: 2048, Consume: broker.consume,
		Bounds: Bounds{Messages: 64, Received: 5000, Asleep: time.Millisecond, First: time.Millisecond, Longest: 2 * time.Millisecond}})
	until(t, "all is read", func() bool { return broker.left() == 0 })
	if n := len(s.events()); n != 64 {
		t.Errorf("%d events", n)
	}
}

// TestAsidesOfATenant: a tenant whose messages are all unfit has them set aside as fast as its
// allowance is paid, and loses none.
func TestAsidesOfATenant(t *testing.T) {
	s := newSink(t)
	broker := &fakeBroker{t: t, sink: s}
	for i := range 20 {
		broker.messages = append(broker.messages, brokers.Received{ID: fmt.Sprint("m", i), Body: []byte("x")})
	}
	s.set(grapnel.Source{ID: "src_1", Tenant: "acme", Broker: &grapnel.Target{Kind: "nats"}, Revision: 1})
	began := time.Now()
	r, _ := relaying(t, Options{Engine: s, Store: s.Store, Consume: broker.consume, Random: func() float64 { return 1 },
		Bounds: Bounds{Asleep: time.Millisecond, AsideCost: 10 * time.Millisecond, AsideBurst: 50 * time.Millisecond}})
	until(t, "all is set aside", func() bool { return broker.left() == 0 })
	if n, took := len(s.asides()), time.Since(began); n != 20 || took < 100*time.Millisecond {
		t.Errorf("%d set aside within %v", n, took)
	}
	if at, _ := r.Status("src_1"); at.Aside != 20 {
		t.Errorf("status %+v", at)
	}
}

// TestMessagesAsEvents: what of a message becomes what of an event.
func TestMessagesAsEvents(t *testing.T) {
	src := &grapnel.Source{ID: "src_1", Type: `event.headers["kind"]`, Key: `event.key + "!"`, EventID: `event.data.id`}
	full, err := newReader(src, 8)
	if err != nil {
		t.Fatal(err)
	}
	bare, _ := newReader(&grapnel.Source{ID: "src_1"}, 8)
	other, _ := newReader(&grapnel.Source{ID: "src_2"}, 8)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	m := brokers.Received{Place: "S 1", Key: "k", Type: "a.b", Body: []byte(`{"id":"e-1"}`),
		Headers: []grapnel.Header{{Name: "Kind", Value: "c.d"}, {Name: "Authorization", Value: "canary"}}}
	if is := full.row(&m, 1, now); is.kind != "c.d" || is.key != "k!" || is.event != "e-1" || is.wrong != "" || is.media != grapnel.JSONType ||
		is.headers[1].Value != "[redacted]" {
		t.Errorf("%+v", is)
	}
	one, again := bare.row(&m, 1, now), bare.row(&m, 2, now)
	if one.event != again.event || one.event == other.row(&m, 1, now).event || !grapnel.ValidID(one.event) || one.kind != "a.b" || one.key != "k" {
		t.Errorf("%+v and %+v", one, again)
	}
	m.Headers, m.Body = []grapnel.Header{{Name: "webhook-id", Value: "w1"}, {Name: "grapnel-hops", Value: "9"}}, []byte{0xff}
	if is := bare.row(&m, 1, now); is.event != "w1" || is.wrong == "" || is.media != octets {
		t.Errorf("%+v", is)
	}
	m.Headers = []grapnel.Header{{Name: "webhook-id", Value: "w1"}, {Name: "Webhook-Id", Value: "w2"}}
	for range 2 {
		if slices.Reverse(m.Headers); bare.row(&m, 1, now).event != "w2" { // a driver that reads a map has them in any order
			t.Errorf("%v is %s", m.Headers, bare.row(&m, 1, now).event)
		}
	}
	if is := full.row(&m, 1, now); is.wrong == "" {
		t.Errorf("an expression that fails is no fault: %+v", is)
	}
}
