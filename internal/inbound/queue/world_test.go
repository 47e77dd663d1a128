package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noSender is an engine's sender for tests that send nothing.
type noSender struct{ t testing.TB }

func (n noSender) Send(context.Context, egress.Delivery) egress.Result {
	n.t.Error("something of a queue was sent")
	return egress.Result{}
}

// world is a broker on a real engine, for use inside a synctest bubble.
type world struct {
	t      testing.TB
	store  store.Store                               // without faults
	injure atomic.Pointer[func(string) memory.Fault] // nil, or the faults of calls of the engine and the broker
	dead   atomic.Bool                               // the process has crashed: no call reaches the store any more
	calls  sync.Map                                  // method → *atomic.Int64
	during atomic.Pointer[func(method string)]       // called with each call
	log    *slog.Logger

	damaged atomic.Int64 // row id of an event that the broker cannot read; 0: none
	bounds  uint64       // not 0: the seed of tiny bounds for engine and broker
	engine  *engine.Engine
	broker  *Broker
	stop    context.CancelFunc
	run     sync.WaitGroup
	events  int
}

var errCrashed = errors.New("the process has crashed")

var discard = slog.New(slog.DiscardHandler)

func newWorld(t testing.TB, s store.Store) *world {
	w := &world{t: t, store: s, log: discard}
	w.start()
	return w
}

func (w *world) start() {
	w.dead.Store(false)
	faulty := &memory.Faulty{Store: w.store, Injure: func(method string) memory.Fault {
		n, _ := w.calls.LoadOrStore(method, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		if f := w.during.Load(); f != nil {
			(*f)(method)
		}
		if w.dead.Load() {
			return memory.Fault{Err: errCrashed}
		}
		if f := w.injure.Load(); f != nil { // read once: a test may take it away meanwhile
			return (*f)(method)
		}
		return memory.Fault{}
	}}
	var broker *Broker
	o := engine.Options{Store: struct{ store.Store }{faulty}, Sender: noSender{w.t}, Log: w.log,
		Ready: func(queue string) { broker.Ready(queue) }}
	var within Bounds
	if w.bounds != 0 {
		o.Bounds, within = bounds.Tiny[engine.Bounds](w.bounds), bounds.Tiny[Bounds](w.bounds)
	}
	// Go would collect all garbage at each Rest, of which a history has thousands in fake time.
	o.Bounds.Spare = math.MaxInt64
	e, err := engine.New(context.Background(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	broker = New(Options{Bounds: within, Engine: e, Store: damaged{faulty, &w.damaged}, Log: w.log})
	ctx, cancel := context.WithCancel(context.Background())
	w.engine, w.broker, w.stop = e, broker, cancel
	w.run.Go(func() { e.Run(ctx) })
	w.run.Go(func() { broker.Run(ctx) })
}

func (w *world) halt() {
	w.stop()
	w.run.Wait()
}

// crash drops the process's memory and starts the next one on the durable state.
func (w *world) crash(reopen func() store.Store) {
	w.dead.Store(true)
	w.halt()
	w.store = reopen()
	w.start()
}

func (w *world) called(method string) int64 {
	n, _ := w.calls.LoadOrStore(method, new(atomic.Int64))
	return n.(*atomic.Int64).Load()
}

// quick is a policy whose times fit into a test.
func quick() policy.Policy {
	p, _ := policy.Preset("hooque")
	p.Jitter, p.MaxAttempts = policy.Jitter{}, 3
	return p
}

// queue creates a queue.
func (w *world) queue(change ...func(*grapnel.Endpoint)) *grapnel.Endpoint {
	w.t.Helper()
	ep := grapnel.Endpoint{ID: "que_1", Tenant: "default", Policy: quick(), Ordering: grapnel.OrderByKey, Status: grapnel.EndpointEnabled,
		Queue: &grapnel.Queue{Name: "orders", Lease: 10 * time.Second, MaxLeased: 100}}
	for _, f := range change {
		f(&ep)
	}
	return w.put(ep)
}

func (w *world) put(ep grapnel.Endpoint) *grapnel.Endpoint {
	w.t.Helper()
	put, err := w.engine.PutEndpoint(context.Background(), store.Everyone(), ep, store.With{})
	if err != nil {
		w.t.Fatal(err)
	}
	ep.Revision = put.Revision
	return &ep
}

// publish publishes the n-th event and returns its id.
func (w *world) publish(key string) string {
	w.t.Helper()
	w.events++
	ev := &grapnel.Event{ID: fmt.Sprint("evt_", w.events), Tenant: "default", Type: "order.made", Key: key, Data: fmt.Appendf(nil,
		"%d", w.events),
		ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}
	for {
		_, err := w.engine.Publish(context.Background(), []store.Incoming{{Event: ev}}, nil)
		if err == nil {
			return ev.ID
		}
		if w.injure.Load() == nil {
			w.t.Fatal(err)
		}
		backoff.Wait(nil, 10*time.Millisecond)
	}
}

// next claims without waiting.
func (w *world) next(q *grapnel.Endpoint, consumer string, most int) []Message {
	w.t.Helper()
	found, err := w.broker.Next(context.Background(), q, consumer, most, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

func (w *world) settle(token string, a Answer) error {
	return w.broker.SettleAll(context.Background(), store.Everyone(), []Settlement{{Token: token, Answer: a}})[0]
}

// delivery is a delivery as the store has it.
func (w *world) delivery(seq int64) *grapnel.Delivery {
	w.t.Helper()
	d, err := w.store.Delivery(context.Background(), store.Everyone(), seq)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func bodies(found []Message) (all []string) {
	for i := range found {
		all = append(all, string(found[i].Event.Data))
	}
	return all
}
