package alerting_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
	"github.com/grapnelhq/grapnel/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// world is a store, receivers, and the process between them, which can be killed and started again.
type world struct {
	t      *testing.T
	store  store.Store
	net    *pipenet.Network
	disk   func(context.Context) (uint64, uint64, error)
	shows  func(context.Context) (time.Time, error) // the certificate at the public URL
	every  time.Duration                            // between two rounds; 0: the default
	keep   time.Duration                            // retention of deliveries; 0: for ever
	late   int                                      // alerting.Bounds.Late
	log    io.Writer                                // nil: nothing is logged
	sender *egress.Sender
	engine *engine.Engine
	deaf   atomic.Bool  // the owners of endpoints do not answer
	ahead  atomic.Int64 // by which the keeper's clock is ahead, in nanoseconds
	keeper *alerting.Keeper
	mortal *mortal
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// mortal is the store as one process sees it: once that is dead, nothing it does arrives.
type mortal struct {
	store.Store
	dead atomic.Bool
	away atomic.Bool  // single events cannot be read
	lost atomic.Bool  // documents cannot be read
	dark atomic.Bool  // backlogs cannot be read
	lose atomic.Int64 // answers to PutDocuments that are lost although it happened

	fails atomic.Int64 // dead letters of each hour up to now
	until atomic.Int64 // end of the certificate that all endpoints showed, in seconds since 1970; 0: as stored
	empty atomic.Bool  // all events were purged
}

var errDead = errors.New("the process is dead")

func (m *mortal) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	if m.dead.Load() {
		return make([]store.Changed, len(changes)), nil // so that the rest of the process can end
	}
	return m.Store.Record(ctx, changes)
}

func (m *mortal) EventList(ctx context.Context, scope store.Scope, q store.EventQuery) ([]grapnel.Event, error) {
	switch {
	case m.away.Load():
		return nil, errDead
	case m.empty.Load():
		return nil, nil
	}
	return m.Store.EventList(ctx, scope, q)
}

func (m *mortal) DeliveryList(ctx context.Context, scope store.Scope, q store.DeliveryQuery) ([]grapnel.Delivery, error) {
	if m.until.Load() == 0 {
		return m.Store.DeliveryList(ctx, scope, q)
	}
	return []grapnel.Delivery{{AttemptsMade: 1}}, nil
}

func (m *mortal) Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error) {
	until := m.until.Load()
	if until == 0 {
		return m.Store.Delivery(ctx, scope, seq)
	}
	return &grapnel.Delivery{Attempts: []grapnel.Attempt{{Peer: grapnel.Peer{CertificateUntil: time.Unix(until, 0).UTC()}}}}, nil
}

func (m *mortal) Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) (all []grapnel.Bucket, _ error) {
	if m.fails.Load() == 0 {
		return m.Store.Totals(ctx, scope, q)
	}
	for at := q.From; at.Before(time.Now()); at = at.Add(time.Hour) {
		all = append(all, grapnel.Bucket{At: at, Totals: grapnel.Totals{Failed: m.fails.Load()}})
	}
	return all, nil
}

func (m *mortal) PutDocuments(ctx context.Context, scope store.Scope, writes []store.DocumentWrite, with store.With) (store.Put, error) {
	if m.dead.Load() {
		return store.Put{}, errDead
	}
	put, err := m.Store.PutDocuments(ctx, scope, writes, with)
	if m.lose.Add(-1) >= 0 {
		return store.Put{}, store.ErrUnknown
	}
	return put, err
}

func within(t *testing.T, s store.Store, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: s, net: pipenet.New()}
		w.start()
		defer func() {
			w.end()
			w.net.Close()
		}()
		test(w)
	})
}

func (w *world) start() {
	w.t.Helper()
	w.mortal = &mortal{Store: w.store}
	w.sender = egress.New(egress.Options{Dial: w.net.Dial, Node: "n1"})
	log := slog.New(slog.DiscardHandler)
	if w.log != nil {
		log = slog.New(slog.NewTextHandler(w.log, nil))
	}
	var err error
	within := engine.Bounds{Rest: w.every, Unaware: w.every, Duplicates: engine.DuplicateBounds{Every: w.every},
		Recorder: engine.RecorderBounds{Tidy: w.every}}
	options := engine.Options{Store: w.mortal, Sender: w.sender, Log: log, DrainTimeout: time.Second, Bounds: within,
		Keep: engine.Retention{For: w.keep}}
	if w.engine, err = engine.New(ctx, options); err != nil {
		w.t.Fatal(err)
	}
	base, _ := url.Parse("https://hooks.example/base")
	w.keeper = alerting.New(alerting.Options{Bounds: alerting.Bounds{LinkFor: time.Hour, Every: w.every, Late: w.late},
		Engine: asked{w.engine, &w.deaf}, Store: w.mortal, Log: log, PublicURL: base, Disk: w.disk,
		Certificate: w.shows, Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) },
		Sealer: pass.NewSealer(w.engine.IDs().Subkey, nil, noise{})})
	running, stop := context.WithCancel(ctx)
	w.stop = stop
	w.done.Go(func() { w.engine.Run(running) })
	w.done.Go(func() { w.keeper.Run(running) })
}

// asked is the engine as the keeper sees it.
type asked struct {
	*engine.Engine
	deaf *atomic.Bool
}

func (m *mortal) DocumentList(ctx context.Context, scope store.Scope, q store.DocumentQuery) ([]store.Document, error) {
	if m.lost.Load() {
		return nil, errDead
	}
	return m.Store.DocumentList(ctx, scope, q)
}

func (m *mortal) Backlogs(ctx context.Context, scope store.Scope, tenant string, now time.Time, limit int64) ([]store.Backlog, error) {
	if m.dark.Load() {
		return nil, errDead
	}
	return m.Store.Backlogs(ctx, scope, tenant, now, limit)
}

func (a asked) Healths(ids []string) []grapnel.Health {
	if a.deaf.Load() {
		return make([]grapnel.Health, len(ids))
	}
	return a.Engine.Healths(ids)
}

// noise is enough for nonces in tests.
type noise struct{}

func (noise) Read(p []byte) (int, error) { return len(p), nil }

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

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// endpoint makes an endpoint whose host is its id.
func (w *world) endpoint(id string, r http.Handler, change func(*grapnel.Endpoint)) {
	w.t.Helper()
	if r != nil {
		w.net.Handle(id+".test", r)
	}
	p, _ := policy.Preset("standard")
	ep := grapnel.Endpoint{ID: id, Tenant: "acme", URL: "http://" + id + ".test/", Policy: p, Ordering: grapnel.OrderByKey,
		MaxConcurrency: 10,
		Format:         grapnel.FormatStandard, Status: grapnel.EndpointEnabled, CreatedAt: time.Now(), UpdatedAt: time.Now(),
		Secrets: []grapnel.Secret{{Text: secret}}}
	if change != nil {
		change(&ep)
	}
	_, err := w.engine.PutEndpoint(ctx, store.Everyone(), ep, store.With{})
	w.must(err)
}

// channel makes an endpoint that gets alerts.
func (w *world) channel(id, tenant string) *receiver {
	w.t.Helper()
	r := &receiver{}
	w.endpoint(id, r, func(ep *grapnel.Endpoint) { ep.Tenant, ep.EventTypes = tenant, []string{grapnel.ChannelPattern} })
	return r
}

// change changes a stored endpoint.
func (w *world) change(id string, change func(*grapnel.Endpoint)) {
	w.t.Helper()
	ep, ok := w.engine.Endpoint(store.Everyone(), id)
	if !ok {
		w.t.Fatal("no endpoint ", id)
	}
	change(&ep)
	_, err := w.engine.PutEndpoint(ctx, store.Everyone(), ep, store.With{})
	w.must(err)
}

func (w *world) publish(id, kind string) {
	w.t.Helper()
	_, err := w.engine.Publish(ctx, []store.Incoming{{Event: &grapnel.Event{ID: id, Tenant: "acme", Type: kind, Data: []byte(`{}`),
		ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}}}, nil)
	w.must(err)
}

// alerts lists alerts.
func (w *world) alerts(q alerting.Query) []alert.Alert {
	w.t.Helper()
	if q.Limit == 0 {
		q.Limit = 10_000
	}
	list, next, err := w.keeper.List(ctx, store.Everyone(), q)
	w.must(err)
	if next != "" {
		w.t.Fatalf("there are more: %s", next)
	}
	return list
}

// message is an alert as a receiver gets it.
type message struct {
	id, kind string
	data     alert.Data
}

func (m message) String() string { return fmt.Sprintf("%s %s %q", m.kind, m.data.Rule, m.data.Title) }

// receiver records messages. While it is down it answers 503.
type receiver struct {
	mu   sync.Mutex
	got  []message
	down bool
}

func (r *receiver) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	var envelope struct {
		Type string     `json:"type"`
		Data alert.Data `json:"data"`
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if json.Unmarshal(body, &envelope) == nil {
		r.got = append(r.got, message{req.Header.Get("webhook-id"), envelope.Type, envelope.Data})
	}
}

func (r *receiver) set(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// messages are what arrived, each event once: receivers deduplicate by the id.
func (r *receiver) messages() (all []message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for _, m := range r.got {
		if !seen[m.id] {
			seen[m.id] = true
			all = append(all, m)
		}
	}
	return all
}
