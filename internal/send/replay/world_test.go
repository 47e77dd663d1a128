package replay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// world is a store, a receiver, and the process that replays between them, which can be killed and
// started again.
type world struct {
	t        *testing.T
	store    store.Store // survives a crash
	net      *pipenet.Network
	receiver *receiver
	tune     func(*engine.Options)
	tiny     uint64 // not 0: the seed of tiny bounds for everything

	engine *engine.Engine
	runner *replay.Runner
	*process
}

// process is one life.
type process struct {
	mortal *mortal
	stop   context.CancelFunc
	done   sync.WaitGroup
	sender *egress.Sender
}

// mortal is the store as one process sees it: once that is dead, nothing it does arrives.
type mortal struct {
	store.Store
	dead      atomic.Bool
	advancing atomic.Pointer[func()] // nil, or called before each step
}

var errDead = errors.New("the process is dead")

func (m *mortal) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	if m.dead.Load() {
		return make([]store.Changed, len(changes)), nil // so that the rest of the process can end
	}
	return m.Store.Record(ctx, changes)
}

func (m *mortal) Advance(ctx context.Context, s store.ReplayStep) ([]store.Redelivered, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	if f := m.advancing.Load(); f != nil {
		(*f)()
	}
	return m.Store.Advance(ctx, s)
}

func (m *mortal) PutReplay(ctx context.Context, scope store.Scope, r grapnel.Replay, with store.With) (store.Put, error) {
	if m.dead.Load() {
		return store.Put{}, errDead
	}
	return m.Store.PutReplay(ctx, scope, r, with)
}

const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// bubble runs a test against an endpoint "ep" whose deliveries fail at the first refusal.
func bubble(t *testing.T, s store.Store, tune func(*engine.Options), test func(t *testing.T, w *world)) {
	t.Helper()
	within(t, 0, s, tune, test)
}

// within is bubble with tiny bounds, unless the seed is 0.
func within(t *testing.T, tiny uint64, s store.Store, tune func(*engine.Options), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: s, net: pipenet.New(), receiver: &receiver{}, tune: tune, tiny: tiny}
		w.net.Handle("ep.test", w.receiver)
		p, _ := policy.Preset("standard")
		p.Classify = map[string]policy.Decision{"4xx": policy.Fail}
		p.Disable = policy.Disable{}
		if _, err := s.PutEndpoint(ctx, store.Everyone(), grapnel.Endpoint{ID: "ep", Tenant: "default", URL: "http://ep.test/", Policy: p,
			Ordering: grapnel.OrderByKey, MaxConcurrency: 100, Format: grapnel.FormatStandard, Status: grapnel.EndpointEnabled,
			CreatedAt: time.Now(), UpdatedAt: time.Now(), Secrets: []grapnel.Secret{{Text: secret}}}, store.With{}); err != nil {
			t.Fatal(err)
		}
		w.start()
		defer func() {
			w.end()
			w.net.Close()
		}()
		test(t, w)
	})
}

func (w *world) start() {
	var small struct {
		engine engine.Bounds
		replay replay.Bounds
		egress egress.Bounds
	}
	if w.tiny != 0 {
		small.engine, small.replay = bounds.Tiny[engine.Bounds](w.tiny), bounds.Tiny[replay.Bounds](w.tiny)
		small.egress = bounds.Tiny[egress.Bounds](w.tiny)
	}
	w.process = &process{mortal: &mortal{Store: w.store}, sender: egress.New(egress.Options{Bounds: small.egress, Dial: w.net.Dial,
		Node: "n1"})}
	log := slog.New(slog.NewTextHandler(w.t.Output(), nil))
	o := engine.Options{Bounds: small.engine, Store: w.mortal, Sender: w.sender, Log: log, DrainTimeout: time.Second,
		Replayed: func(endpoint string) { w.runner.Ended(endpoint) }}
	if w.tune != nil {
		w.tune(&o)
	}
	var err error
	if w.engine, err = engine.New(ctx, o); err != nil {
		w.t.Fatal(err)
	}
	w.runner = replay.New(replay.Options{Bounds: small.replay, Engine: w.engine, Store: w.mortal, Log: o.Log})
	running, stop := context.WithCancel(ctx)
	w.stop = stop
	w.done.Go(func() { w.engine.Run(running) })
	w.done.Go(func() { w.runner.Run(running) })
}

// end stops the process in good order.
func (w *world) end() {
	w.stop()
	w.done.Wait()
	w.sender.Close()
}

// kill ends the process without anything of it being recorded any more, and starts the next one.
func (w *world) kill() {
	w.mortal.dead.Store(true)
	w.end()
	w.start()
}

// letters creates dead letters over some keys in turn, numbered from 0; it returns the key of each
// event by its id.
func (w *world) letters(n, keys int) map[string]string {
	w.t.Helper()
	synctest.Wait() // the engine has looked for pending deliveries, and does not see these before they have failed
	version, _, err := w.store.Version(ctx)
	w.must(err)
	keyOf := map[string]string{}
	var events []store.Incoming
	for i := range n {
		ev := &grapnel.Event{ID: fmt.Sprintf("evt_%05d", i), Tenant: "default", Type: "test.event", Data: []byte(`{}`),
			ContentType: grapnel.JSONType,
			OccurredAt:  time.Now(), AcceptedAt: time.Now()}
		if keys > 0 {
			ev.Key = fmt.Sprint("k", i%keys)
		}
		keyOf[ev.ID] = ev.Key
		events = append(events, store.Incoming{Event: ev, Targets: []store.Target{{Endpoint: "ep", Ordered: true,
			Trigger: grapnel.TriggerSchedule}}})
	}
	_, err = w.store.Append(ctx, store.Batch{Config: version, Events: events})
	w.must(err)
	for {
		heads, err := w.store.Heads(ctx, "ep", 10_000)
		w.must(err)
		if len(heads) == 0 {
			break
		}
		changes := make([]store.Change, len(heads))
		for i := range heads {
			changes[i] = store.Change{Delivery: heads[i].Delivery, At: time.Now(), Status: grapnel.Failed, ReasonCode: grapnel.ReasonExhausted}
		}
		_, err = w.store.Record(ctx, changes)
		w.must(err)
	}
	time.Sleep(time.Millisecond)
	return keyOf
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// begin starts a replay of failed deliveries.
func (w *world) begin(change func(*replay.Request)) string {
	w.t.Helper()
	q := replay.Request{Endpoint: "ep", Rate: 1000}
	if change != nil {
		change(&q)
	}
	started, err := w.runner.Start(ctx, store.Everyone(), replay.Order{Request: q, By: grapnel.By{Actor: "key_1", Reason: "repaired"}})
	w.must(err)
	return started.ID
}

func (w *world) get(id string) replay.Progress {
	w.t.Helper()
	p, err := w.runner.Get(ctx, store.Everyone(), id)
	w.must(err)
	return p
}

// is waits until a replay has a status.
func (w *world) is(id string, status grapnel.ReplayStatus, within time.Duration) replay.Progress {
	w.t.Helper()
	var p replay.Progress
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if p = w.get(id); p.Status == status {
			return p
		}
	}
	w.t.Fatalf("after %v the replay is %s, not %s: %+v", within, p.Status, status, p)
	return p
}

// items returns all deliveries that a replay has created.
func (w *world) items(id string) (all []grapnel.ReplayItem) {
	w.t.Helper()
	for after := int64(0); ; {
		page, err := w.runner.Items(ctx, store.Everyone(), id, after, 300)
		w.must(err)
		all = append(all, page...)
		if len(page) < 300 {
			return all
		}
		after = page[len(page)-1].Original
	}
}

// onceEach checks that n originals were redelivered once each, in their order, and that the copies
// have finished.
func (w *world) onceEach(id string, n int) {
	w.t.Helper()
	items, made := w.items(id), map[int64]bool{}
	for i, item := range items {
		if made[item.Made] || i > 0 && (item.Original <= items[i-1].Original || item.Made <= items[i-1].Made) {
			w.t.Errorf("%d was made as %d after %d was made as %d", item.Original, item.Made, items[i-1].Original, items[i-1].Made)
		}
		made[item.Made] = true
		if item.Status != grapnel.Delivered {
			w.t.Errorf("%d is %s", item.Original, item.Status)
		}
	}
	if len(items) != n {
		w.t.Errorf("%d deliveries were made, not %d", len(items), n)
	}
	ds, err := w.store.DeliveryList(ctx, store.Everyone(), store.DeliveryQuery{Endpoint: "ep", Limit: 100_000})
	w.must(err)
	repeats := map[int64]int{}
	for i := range ds {
		if ds[i].ReplayOf != 0 {
			repeats[ds[i].ReplayOf]++
		}
	}
	if len(repeats) != n {
		w.t.Errorf("%d of %d originals have been repeated", len(repeats), n)
	}
	for of, times := range repeats {
		if times != 1 {
			w.t.Errorf("%d was repeated %d times", of, times)
		}
	}
}

// receiver records its requests and answers with a status, after a delay.
type receiver struct {
	mu     sync.Mutex
	ids    []string
	status int
	takes  time.Duration
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body)
	r.mu.Lock()
	r.ids = append(r.ids, req.Header.Get("webhook-id"))
	status, takes := r.status, r.takes
	r.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-req.Context().Done():
		}
	}
	if status != 0 {
		w.WriteHeader(status)
	}
}

func (r *receiver) answer(status int, takes time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.takes = status, takes
}

func (r *receiver) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.ids...)
}

// ordered checks that within each key nothing came for the first time after something later, and
// how many came more than once.
func (r *receiver) ordered(t *testing.T, keyOf map[string]string) (seen, twice int) {
	t.Helper()
	newest, counted := map[string]string{}, map[string]int{}
	for _, id := range r.got() {
		if counted[id]++; counted[id] > 1 {
			twice++
			continue
		}
		key := keyOf[id]
		if strings.Compare(id, newest[key]) < 0 {
			t.Errorf("%s came after %s of its key", id, newest[key])
		}
		newest[key] = id
	}
	return len(counted), twice
}

func memoryStore() store.Store { return memory.New() }
