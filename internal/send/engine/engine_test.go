package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a running engine with receivers on an in-memory network, to be used inside a synctest
// bubble.
type bench struct {
	t      *testing.T
	store  store.Store
	net    *pipenet.Network
	engine *Engine
	stop   context.CancelFunc
	done   sync.WaitGroup
	sender *egress.Sender
	tune   func(*Options) // nil, or changes what the engine is made of
	count  int
}

func (b *bench) health(id string) grapnel.Health { return b.engine.Healths([]string{id})[0] }

func newBench(t *testing.T, s store.Store) *bench { return newTunedBench(t, s, nil) }

func newTunedBench(t *testing.T, s store.Store, tune func(*Options)) *bench {
	b := &bench{t: t, store: s, net: pipenet.New(), tune: tune}
	b.start(core.Options{})
	return b
}

func (b *bench) start(o core.Options) {
	b.sender = egress.New(egress.Options{Dial: b.net.Dial, Node: "n1"})
	options := Options{Store: b.store, Sender: b.sender, Log: slog.New(slog.NewTextHandler(b.t.Output(), nil)), Core: o}
	if b.tune != nil {
		b.tune(&options)
	}
	e, err := New(context.Background(), options)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.engine, b.stop = e, cancel
	b.done.Go(func() { e.Run(ctx) })
}

// unhurried has the engine do every half hour what it does every few seconds or each minute.
// Months pass quickly then.
func unhurried(o *Options) {
	for _, every := range []*time.Duration{&o.Bounds.Issues.Flush, &o.Bounds.Duplicates.Every, &o.Bounds.Rest, &o.Bounds.Unaware,
		&o.Bounds.Recorder.Tidy, &o.Core.Bounds.Poll} {
		*every = 30 * time.Minute
	}
}

// halt drains the engine.
func (b *bench) halt() {
	b.stop()
	b.done.Wait()
	b.sender.Close()
}

func (b *bench) close() {
	b.halt()
	b.net.Close()
}

// testSecret signs what the tests send. It is made up.
const testSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// request is what a receiver saw.
type request struct {
	id, attempt, trigger string
	at                   time.Time
}

// receiver answers with what the script says for the n-th request, from 0.
type receiver struct {
	mu   sync.Mutex
	seen []request
	then func(n int, w http.ResponseWriter, r *http.Request)
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body)
	r.mu.Lock()
	n := len(r.seen)
	r.seen = append(
		r.seen,
		request{req.Header.Get("webhook-id"), req.Header.Get("grapnel-attempt"), req.Header.Get("grapnel-trigger"), time.Now()},
	)
	then := r.then
	r.mu.Unlock()
	if then != nil {
		then(n, w, req)
	}
}

// answer changes what the receiver says from now on.
func (r *receiver) answer(then func(int, http.ResponseWriter, *http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.then = then
}

func (r *receiver) log() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

func (r *receiver) ids() (ids []string) {
	for _, q := range r.log() {
		ids = append(ids, q.id)
	}
	return ids
}

func status(code int) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// endpoint creates one with a receiver behind it.
func (b *bench) endpoint(id string, r http.Handler, change func(*grapnel.Endpoint)) {
	b.t.Helper()
	b.net.Handle(id+".test", r)
	ep := grapnel.Endpoint{
		ID:             id,
		Tenant:         "default",
		URL:            "http://" + id + ".test/",
		PolicyName:     "standard",
		Ordering:       grapnel.OrderByKey,
		MaxConcurrency: grapnel.DefaultMaxConcurrency,
		Format:         grapnel.FormatStandard,
		Status:         grapnel.EndpointEnabled,
		CreatedAt:      time.Now(),
		UpdatedAt:      time.Now(),
		Secrets:        []grapnel.Secret{{Text: testSecret}},
	}
	if change != nil {
		change(&ep)
	}
	if _, err := b.engine.PutEndpoint(context.Background(), store.Everyone(), ep, store.With{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) update(id string, change func(*grapnel.Endpoint)) {
	b.t.Helper()
	ep, ok := b.engine.Endpoint(store.Everyone(), id)
	if !ok {
		b.t.Fatalf("no endpoint %s", id)
	}
	change(&ep)
	if _, err := b.engine.PutEndpoint(context.Background(), store.Everyone(), ep, store.With{}); err != nil {
		b.t.Fatal(err)
	}
}

// publish publishes events of a key and returns their ids.
func (b *bench) publish(key string, n int) (ids []string) {
	b.t.Helper()
	for range n {
		b.count++
		ev := &grapnel.Event{ID: fmt.Sprintf("evt_%d", b.count), Tenant: "default", Type: "test.event", Key: key, Data: []byte(`{"a":1}`),
			ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}
		if _, err := b.engine.Publish(context.Background(), []store.Incoming{{Event: ev}}, nil); err != nil {
			b.t.Fatal(err)
		}
		ids = append(ids, ev.ID)
	}
	return ids
}

// deliveries returns all of an endpoint, the oldest first, with attempts.
func (b *bench) deliveries(endpoint string) []grapnel.Delivery {
	b.t.Helper()
	ds, err := b.store.DeliveryList(context.Background(), store.Everyone(), store.DeliveryQuery{Endpoint: endpoint, Limit: 1000})
	if err != nil {
		b.t.Fatal(err)
	}
	slices.Reverse(ds)
	for i := range ds {
		d, err := b.store.Delivery(context.Background(), store.Everyone(), ds[i].Seq)
		if err != nil {
			b.t.Fatal(err)
		}
		ds[i] = *d
	}
	return ds
}

func (b *bench) only(endpoint string) grapnel.Delivery {
	b.t.Helper()
	ds := b.deliveries(endpoint)
	if len(ds) != 1 {
		b.t.Fatalf("%d deliveries", len(ds))
	}
	return ds[0]
}

func bubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	tuned(t, nil, test)
}

// days is a bubble for tests of many days.
func days(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	tuned(t, unhurried, test)
}

func tuned(t *testing.T, tune func(*Options), test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newTunedBench(t, memory.New(), tune)
		defer b.close()
		test(t, b)
	})
}
