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
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/egress"
	"github.com/grapnelhq/grapnel/internal/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a running engine with receivers on an in-memory network, to be used inside a synctest bubble.
type bench struct {
	t      *testing.T
	store  store.Store
	net    *pipenet.Network
	engine *Engine
	stop   context.CancelFunc
	done   sync.WaitGroup
	sender *egress.Sender
	count  int
}

func newBench(t *testing.T, s store.Store) *bench {
	b := &bench{t: t, store: s, net: pipenet.New()}
	b.start(core.Options{})
	return b
}

func (b *bench) start(o core.Options) {
	b.sender = egress.New(egress.Options{Dial: b.net.Dial, Node: "n1"})
	e, err := New(context.Background(), Options{
		Store: b.store, Sender: b.sender, Log: slog.New(slog.NewTextHandler(b.t.Output(), nil)), Core: o,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.engine, b.stop = e, cancel
	b.done.Go(func() { e.Run(ctx) })
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
	r.seen = append(r.seen, request{req.Header.Get("webhook-id"), req.Header.Get("grapnel-attempt"), req.Header.Get("grapnel-trigger"), time.Now()})
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
func (b *bench) endpoint(id string, r *receiver, change func(*grapnel.Endpoint)) {
	b.t.Helper()
	b.net.Handle(id+".test", r)
	ep := grapnel.Endpoint{ID: id, Tenant: "default", URL: "http://" + id + ".test/", PolicyName: "standard", Ordering: grapnel.OrderByKey,
		MaxConcurrency: grapnel.DefaultMaxConcurrency, Format: grapnel.FormatStandard, Status: grapnel.EndpointEnabled, CreatedAt: time.Now(), UpdatedAt: time.Now(),
		Secrets: []grapnel.Secret{{Text: testSecret}}}
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
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.New())
		defer b.close()
		test(t, b)
	})
}

// TestPresetSchedules runs every preset to its end, days of it, through the real HTTP stack in fake time. The times expected
// are the policy's own; package policy holds those against the published tables.
func TestPresetSchedules(t *testing.T) {
	for _, p := range policy.Presets() {
		t.Run(p.Name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				r := &receiver{then: status(http.StatusServiceUnavailable)}
				b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName = p.Name })
				start := time.Now()
				b.publish("k", 1)
				time.Sleep(200 * time.Hour)
				synctest.Wait()
				d := b.only("ep")
				plan := p.Plan(policy.Progress{Anchor: start, Seed: uint64(d.Seq)}, start, 1000)
				got := r.log()
				if len(got) != len(plan) {
					t.Fatalf("%d attempts, planned were %d", len(got), len(plan))
				}
				for i := range got {
					if late := got[i].at.Sub(plan[i].At); late < 0 || late > time.Second {
						t.Errorf("attempt %d at %v, planned for %v", i+1, got[i].at.Sub(start), plan[i].At.Sub(start))
					}
					if fmt.Sprint(i+1) != got[i].attempt {
						t.Errorf("attempt %d says it is number %s", i+1, got[i].attempt)
					}
				}
				if d.AttemptsMade != len(plan) || !d.Status.Final() {
					t.Errorf("it ended as %s after %d attempts: %s", d.Status, d.AttemptsMade, d.Reason)
				}
				if p.OnExhausted == policy.Discard && d.Status != grapnel.Discarded || p.OnExhausted == policy.DeadLetter && d.Status != grapnel.Failed {
					t.Errorf("exhausted, it is %s", d.Status)
				}
			})
		})
	}
}

// TestOrder: while a key's head is retried its followers wait, and other keys flow.
func TestOrder(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var broken sync.Map
		r := &receiver{}
		r.then = func(_ int, w http.ResponseWriter, req *http.Request) {
			if _, bad := broken.Load(req.Header.Get("webhook-id")); bad {
				w.WriteHeader(500)
			}
		}
		b.endpoint("ep", r, nil)
		broken.Store("evt_1", true)
		a, c := b.publish("a", 3), b.publish("c", 3)
		time.Sleep(time.Minute)
		if got := r.ids(); !slices.Equal(slices.DeleteFunc(got, func(id string) bool { return id == a[0] }), c) {
			t.Errorf("the other key got %v, not %v", got, c)
		}
		broken.Delete("evt_1")
		time.Sleep(10 * time.Minute)
		var of []string
		for _, id := range r.ids() {
			if slices.Contains(a, id) {
				of = append(of, id)
			}
		}
		if of = slices.Compact(of); !slices.Equal(of, a) {
			t.Errorf("the key arrived as %v", of)
		}
	})
}

// TestRestart: what waits in the store goes on after a restart, at its time.
func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{then: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 2 {
				w.WriteHeader(500)
			}
		}}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName = "paylera" })
		b.publish("k", 2)
		time.Sleep(time.Second)
		b.halt()
		time.Sleep(5 * time.Second)
		b.start(core.Options{})
		time.Sleep(10 * time.Minute)
		got := r.log()
		if len(got) != 4 {
			t.Fatalf("%d requests", len(got))
		}
		if wait := got[1].at.Sub(got[0].at); wait < 15*time.Second || wait > 17*time.Second {
			t.Errorf("the second attempt came after %v", wait)
		}
		for _, d := range b.deliveries("ep") {
			if d.Status != grapnel.Delivered {
				t.Errorf("%s is %s", d.EventID, d.Status)
			}
		}
	})
}

// TestDrain: stopping lets the request in flight finish and records it, so it is not repeated.
func TestDrain(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{then: func(int, http.ResponseWriter, *http.Request) { time.Sleep(3 * time.Second) }}
		b.endpoint("ep", r, nil)
		b.publish("k", 2)
		time.Sleep(time.Second)
		b.halt()
		if n := len(r.log()); n != 1 {
			t.Errorf("%d requests: the next in the lane must not start while draining", n)
		}
		if d := b.deliveries("ep")[0]; d.Status != grapnel.Delivered {
			t.Errorf("the first is %s", d.Status)
		}
		b.start(core.Options{})
		time.Sleep(time.Minute)
		if got := r.ids(); !slices.Equal(got, []string{"evt_1", "evt_2"}) {
			t.Errorf("got %v", got)
		}
	})
}

// TestPauseDisableDelete: when the call returns no further attempt starts; what waits is held, or ends as dropped.
func TestPauseDisableDelete(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{}
		b.endpoint("ep", r, nil)
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
		b.publish("k", 3)
		time.Sleep(time.Hour)
		if n := len(r.log()); n != 0 {
			t.Fatalf("%d requests to a paused endpoint", n)
		}
		if got := b.engine.Held(); !slices.Equal(got, []string{"ep"}) {
			t.Errorf("held: %v", got)
		}
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
		time.Sleep(time.Second)
		if n := len(r.log()); n != 3 {
			t.Fatalf("%d requests after resuming", n)
		}
		r.answer(status(500))
		b.publish("k", 3)
		time.Sleep(time.Second)
		if err := b.engine.DeleteEndpoint(context.Background(), store.Everyone(), "ep", grapnel.By{}); err != nil {
			t.Fatal(err)
		}
		before := len(r.log())
		time.Sleep(24 * time.Hour)
		if n := len(r.log()); n != before {
			t.Errorf("%d requests after the endpoint was deleted", n-before)
		}
		for _, d := range b.deliveries("ep")[3:] {
			if d.Status != grapnel.Dropped || d.ReasonCode != grapnel.ReasonEndpointGone {
				t.Errorf("%s is %s (%s)", d.EventID, d.Status, d.ReasonCode)
			}
		}
		if _, ok := b.engine.Endpoint(store.Everyone(), "ep"); ok {
			t.Error("the endpoint is still there")
		}
	})
}

// TestGoneDisables: 410 ends the delivery and closes the endpoint; enabling it again drains what waited.
func TestGoneDisables(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{then: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 0 {
				w.WriteHeader(http.StatusGone)
			}
		}}
		b.endpoint("ep", r, nil)
		b.publish("k", 2)
		time.Sleep(time.Minute)
		ep, _ := b.engine.Endpoint(store.Everyone(), "ep")
		if ep.Status != grapnel.EndpointDisabled || ep.DisabledReason == "" || len(r.log()) != 1 {
			t.Fatalf("status %s, reason %q, %d requests", ep.Status, ep.DisabledReason, len(r.log()))
		}
		if d := b.deliveries("ep")[0]; d.Status != grapnel.Failed || d.ReasonCode != grapnel.ReasonPermanent {
			t.Errorf("the delivery is %s (%s)", d.Status, d.ReasonCode)
		}
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
		time.Sleep(time.Minute)
		if d := b.deliveries("ep")[1]; d.Status != grapnel.Delivered {
			t.Errorf("the one that waited is %s", d.Status)
		}
	})
}

// TestRetryAndSkip: what people do to single deliveries.
func TestRetryAndSkip(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		ctx, all := context.Background(), store.Everyone()
		r := &receiver{then: status(500)}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName = "paylera" })
		b.publish("k", 3)
		time.Sleep(time.Minute)
		ds := b.deliveries("ep")
		before := len(r.log())
		if _, err := b.engine.Retry(ctx, all, ds[0].Seq, grapnel.By{}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := r.log(); len(got) != before+1 || got[before].trigger != "manual" {
			t.Fatalf("retry now made %d requests", len(got)-before)
		}
		if _, err := b.engine.Retry(ctx, all, ds[1].Seq, grapnel.By{}, nil); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("retrying one that waits behind its key: %v", err)
		}
		for _, d := range []int{1, 0} {
			if err := b.engine.Skip(ctx, all, ds[d].Seq, grapnel.By{Reason: "a person says so"}); err != nil {
				t.Fatal(err)
			}
		}
		r.answer(nil)
		time.Sleep(time.Minute)
		ds = b.deliveries("ep")
		if ds[0].Status != grapnel.Skipped || ds[0].Reason != "a person says so" || ds[1].Status != grapnel.Skipped || ds[2].Status != grapnel.Delivered {
			t.Errorf("they are %s (%s), %s, %s", ds[0].Status, ds[0].Reason, ds[1].Status, ds[2].Status)
		}
		if err := b.engine.Skip(ctx, all, ds[2].Seq, grapnel.By{Reason: "x"}); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("skipping what is over: %v", err)
		}
		again, err := b.engine.Retry(ctx, all, ds[2].Seq, grapnel.By{}, nil)
		if err != nil || again.Delivery == ds[2].Seq {
			t.Fatalf("delivering again: %v", err)
		}
		time.Sleep(time.Second)
		if ds := b.deliveries("ep"); ds[3].ReplayOf != ds[2].Seq || ds[3].Status != grapnel.Delivered || ds[3].EventID != ds[2].EventID {
			t.Errorf("the new delivery is %+v", ds[3])
		}
	})
}

// TestLostRecord: while outcomes cannot be recorded, or nobody hears that they were, nothing is sent twice.
func TestLostRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var broken, applied bool
		faulty := &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			if method != "Record" || !broken {
				return memory.Fault{}
			}
			return memory.Fault{Err: io.ErrUnexpectedEOF, Applied: applied}
		}}
		b := newBench(t, faulty)
		defer b.close()
		r := &receiver{}
		b.endpoint("ep", r, nil)
		mu.Lock()
		broken = true
		mu.Unlock()
		ids := b.publish("k", 5)
		time.Sleep(time.Minute)
		if n := len(r.log()); n != 1 {
			t.Errorf("%d requests although the first outcome is not durable", n)
		}
		mu.Lock()
		applied = true // now they are, but nobody hears of it
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		broken = false
		mu.Unlock()
		time.Sleep(time.Minute)
		if got := r.ids(); !slices.Equal(got, ids) {
			t.Errorf("got %v", got)
		}
	})
}

// TestSlowEndpointCostsOthersNothing: one endpoint that hangs on every request, with a backlog, and one that answers.
func TestSlowEndpointCostsOthersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, store: memory.New(), net: pipenet.New()}
		b.start(core.Options{Slots: 16})
		defer b.close()
		hang := &receiver{then: func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		quick := &receiver{}
		b.endpoint("hang", hang, func(ep *grapnel.Endpoint) { ep.MaxConcurrency = 100 })
		b.endpoint("quick", quick, nil)
		for i := range 200 {
			b.publish(fmt.Sprintf("k%d", i), 1)
			time.Sleep(50 * time.Millisecond)
		}
		for i, q := range quick.log() {
			if i > 0 && q.at.Sub(quick.log()[i-1].at) > 60*time.Millisecond {
				t.Fatalf("request %d waited %v", i, q.at.Sub(quick.log()[i-1].at))
			}
		}
		if n := len(quick.log()); n != 200 {
			t.Errorf("%d of 200 arrived", n)
		}
	})
}

// TestExpiredAnswersAreForgotten: idempotency keys do not pile up.
func TestExpiredAnswersAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		ctx := context.Background()
		once := &store.Once{Key: "key_1/a", Now: time.Now(), Expires: time.Now().Add(48 * time.Hour), Answer: func(any) store.Answer { return store.Answer{Status: 200} }}
		if err := b.store.Remember(ctx, once); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait time.Duration
			kept bool
		}{{47 * time.Hour, true}, {2 * time.Hour, false}} {
			time.Sleep(step.wait)
			answer, err := b.store.Recall(ctx, once.Key, time.Time{}) // as of long ago, so that only deletion counts
			if err != nil || (answer != nil) != step.kept {
				t.Fatalf("after %v more: kept %v, %v", step.wait, answer != nil, err)
			}
		}
	})
}

// TestPoliciesAreFollowed: endpoints that name a policy follow its changes at once, and keep it from being deleted.
func TestPoliciesAreFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		ctx, all := context.Background(), store.Everyone()
		p := grapnel.NamedPolicy{ID: "pol_1", Tenant: "default", Name: "mine", Policy: parsed(t, `{"schedule":{"mode":"since_previous","delays":["0s","10s"],"tail":"repeat"},"jitter":0,"timeout":"3s"}`)}
		if _, err := b.engine.PutPolicy(ctx, all, p, nil); err != nil {
			t.Fatal(err)
		}
		r := &receiver{then: status(500)}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName = "mine" })
		b.endpoint("other", &receiver{}, nil)
		b.publish("k", 1)
		time.Sleep(25 * time.Second)
		p.Policy = parsed(t, `{"schedule":{"mode":"since_previous","delays":["0s","60s"],"tail":"repeat"},"jitter":0,"timeout":"3s"}`)
		p.Revision = 1
		if _, err := b.engine.PutPolicy(ctx, all, p, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		var gaps []string
		log := r.log()
		for i := range log[1:] {
			gaps = append(gaps, log[i+1].at.Sub(log[i].at).Round(time.Second).String())
		}
		if !slices.Equal(gaps, []string{"10s", "10s", "10s", "1m0s"}) {
			t.Errorf("waits: %v", gaps)
		}
		if err := b.engine.DeletePolicy(ctx, all, "pol_1"); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("deleting a policy in use: %v", err)
		}
		b.update("ep", func(ep *grapnel.Endpoint) { ep.PolicyName = "standard" })
		if err := b.engine.DeletePolicy(ctx, all, "pol_1"); err != nil || len(b.engine.Policies(all)) != 0 {
			t.Errorf("deleting it: %v, left %d", err, len(b.engine.Policies(all)))
		}
	})
}

func parsed(t *testing.T, json string) policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(json))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestConfigurationIsWhatTheStoreHas: what changes are applied to in memory never differs from what a restart would read.
func TestConfigurationIsWhatTheStoreHas(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		ctx, all := context.Background(), store.Everyone()
		same := func(what string) {
			t.Helper()
			c, err := b.store.Config(ctx)
			if err != nil {
				t.Fatal(err)
			}
			read, err := newConfiguration(c)
			have := b.engine.config.Load()
			if err != nil || fmt.Sprint(read.endpoints, read.targets, read.policies, read.byHash, read.version, read.newest) !=
				fmt.Sprint(have.endpoints, have.targets, have.policies, have.byHash, have.version, have.newest) {
				t.Errorf("after %s the engine has\n%v\nand the store\n%v", what, have, read)
			}
		}
		for _, id := range []string{"c", "a", "b"} {
			b.endpoint(id, &receiver{}, nil)
			same("creating " + id)
		}
		b.update("b", func(ep *grapnel.Endpoint) { ep.Status, ep.EventTypes = grapnel.EndpointPaused, []string{"a.*"} })
		same("changing")
		b.publish("k", 1)
		k := grapnel.Key{ID: "key_1", Hash: [32]byte{1}, Scopes: []grapnel.Scope{grapnel.ScopeRead}}
		if _, err := b.engine.PutKey(ctx, all, k, nil); err != nil {
			t.Fatal(err)
		}
		same("a key")
		if _, ok := b.engine.KeyByHash(k.Hash); !ok {
			t.Error("the key is not found")
		}
		if err := b.engine.DeleteKey(ctx, all, "key_1"); err != nil {
			t.Fatal(err)
		}
		same("deleting the key")
		if err := b.engine.DeleteEndpoint(ctx, all, "a", grapnel.By{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // until it is forgotten
		same("deleting an endpoint")
		if n := len(b.engine.config.Load().endpoints); n != 2 {
			t.Errorf("%d endpoints are left", n)
		}
	})
}

// TestThrottledEndpointIsSpared: 429 with Retry-After holds all of an endpoint's deliveries until then, but not what a person
// asks for.
func TestThrottledEndpointIsSpared(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{then: func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
		}}
		b.endpoint("ep", r, nil)
		b.publish("a", 1)
		time.Sleep(time.Second)
		b.publish("b", 1)
		time.Sleep(9 * time.Minute)
		if n := len(r.log()); n != 1 {
			t.Fatalf("%d requests while it wants to be spared", n)
		}
		if h := b.engine.Health("ep"); h.State != "throttled" {
			t.Errorf("health: %+v", h)
		}
		r.answer(nil)
		if _, err := b.engine.Retry(context.Background(), store.Everyone(), b.deliveries("ep")[1].Seq, grapnel.By{}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := r.log(); len(got) != 2 || got[1].trigger != "manual" {
			t.Errorf("%d requests after a person asked for one", len(got))
		}
		time.Sleep(2 * time.Minute)
		if n := len(r.log()); n != 3 {
			t.Errorf("%d requests after the wait", n)
		}
	})
}

// TestExhaustion: what is discarded blocks nobody; what blocks says why; the last attempt's decision is to give up.
func TestExhaustion(t *testing.T) {
	for name, c := range map[string]struct {
		onExhausted, then string
		status            grapnel.Status
		code              grapnel.ReasonCode
		arrives           bool // the next event of the key
	}{
		"dead letter, advance": {"dead_letter", "advance", grapnel.Failed, grapnel.ReasonExhausted, true},
		"dead letter, block":   {"dead_letter", "block", grapnel.Pending, grapnel.ReasonExhausted, false},
		"discard, block":       {"discard", "block", grapnel.Discarded, grapnel.ReasonNone, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				r := &receiver{then: func(n int, w http.ResponseWriter, _ *http.Request) {
					if n < 2 {
						w.WriteHeader(500)
					}
				}}
				p := parsed(t, fmt.Sprintf(`{"schedule":{"mode":"since_previous","delays":["0s","1s"]},"jitter":0,"max_attempts":2,"on_exhausted":%q,"then":%q}`, c.onExhausted, c.then))
				b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy = "", p })
				ids := b.publish("k", 2)
				time.Sleep(time.Hour)
				d := b.deliveries("ep")[0]
				if d.Status != c.status || d.ReasonCode != c.code || d.Waiting.Blocked != (c.status == grapnel.Pending) {
					t.Errorf("it is %s (%s), blocked %v: %s", d.Status, d.ReasonCode, d.Waiting.Blocked, d.Reason)
				}
				if got := d.Attempts; got[0].Decision != policy.Retry || got[1].Decision != policy.Fail {
					t.Errorf("decisions: %s, %s", got[0].Decision, got[1].Decision)
				}
				if arrived := slices.Contains(r.ids(), ids[1]); arrived != c.arrives {
					t.Errorf("the next of its key arrived: %v", arrived)
				}
			})
		})
	}
}
