package consent_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/consent"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an engine with a keeper, and receivers on a network in memory, inside a synctest bubble.
type bench struct {
	t      testing.TB
	store  *memory.Store
	net    *pipenet.Network
	bounds consent.Bounds
	rule   grapnel.ConsentRule // of the server

	engine *engine.Engine
	keeper *consent.Keeper
	sender *egress.Sender
	stop   context.CancelFunc
	done   sync.WaitGroup
	count  int
}

func newBench(t testing.TB, bounds consent.Bounds) *bench {
	b := &bench{t: t, store: memory.New(), net: pipenet.New(), bounds: bounds, rule: grapnel.ConsentRequired}
	b.start()
	return b
}

func (b *bench) start() {
	log := slog.New(slog.NewTextHandler(b.t.Output(), nil))
	b.sender = egress.New(egress.Options{Dial: b.net.Dial})
	e, err := engine.New(context.Background(), engine.Options{Store: b.store, Sender: b.sender, Log: log,
		Limits: engine.Limits{Consent: b.rule}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.engine = e
	b.keeper = consent.New(consent.Options{Bounds: b.bounds, Engine: e, Sender: b.sender, Random: rand.Reader, Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	b.done.Go(func() { e.Run(ctx) })
	b.done.Go(func() { b.keeper.Run(ctx) })
}

func (b *bench) halt() {
	b.stop()
	b.done.Wait()
	b.sender.Close()
}

func (b *bench) close() {
	b.halt()
	b.net.Close()
}

// receiver answers deliveries, and challenges as its field says.
type receiver struct {
	mu         sync.Mutex
	answer     func(w http.ResponseWriter, token string) // nil: 200 without a body
	consented  bool                                      // it has answered a challenge with the token
	challenges []time.Time
	deliveries []string // ids of events
	early      []string // those that came before consent
	last       *http.Request
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	var in struct {
		Type string            `json:"type"`
		Data consent.Challenge `json:"data"`
	}
	_ = json.Unmarshal(body, &in)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = req
	if in.Type == grapnel.EventConsent {
		r.challenges = append(r.challenges, time.Now())
		if r.answer != nil {
			r.answer(w, in.Data.Challenge)
		}
		return
	}
	id := req.Header.Get("webhook-id")
	r.deliveries = append(r.deliveries, id)
	if !r.consented {
		r.early = append(r.early, id)
	}
}

// slowly answers after a while, so that things happen in between.
type slowly struct{ *receiver }

func (s slowly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(50 * time.Millisecond)
	s.receiver.ServeHTTP(w, r)
}

// agrees answers with the token.
func (r *receiver) agrees() *receiver {
	r.answer = func(w http.ResponseWriter, token string) {
		r.consented = true
		_, _ = io.WriteString(w, token)
	}
	return r
}

func (r *receiver) counts() (challenges, deliveries, early int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.challenges), len(r.deliveries), len(r.early)
}

// host opens a host, and returns the URL of an endpoint there.
func (b *bench) host(name string, r http.Handler) string {
	b.net.Handle(name, r)
	return "http://" + name + "/hooks"
}

// create makes an endpoint as the API does.
func (b *bench) create(id, tenant, url string) {
	b.t.Helper()
	now := time.Now()
	ep := grapnel.Endpoint{ID: id, Tenant: tenant, URL: url, PolicyName: "standard", Ordering: grapnel.OrderByKey,
		MaxConcurrency: grapnel.DefaultMaxConcurrency, Format: grapnel.FormatStandard, Status: grapnel.EndpointEnabled,
		CreatedAt: now, UpdatedAt: now, Secrets: []grapnel.Secret{{Text: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}}}
	ep.AskConsent(nil, b.engine.Consent(tenant), now)
	if _, err := b.engine.PutEndpoint(context.Background(), store.Everyone(), ep, store.With{}); err != nil {
		b.t.Fatal(err)
	}
	b.keeper.Due(id)
}

// change edits an endpoint as the API does.
func (b *bench) change(id string, edit func(*grapnel.Endpoint)) {
	b.t.Helper()
	for {
		ep := *b.at(id)
		before := ep
		edit(&ep)
		ep.UpdatedAt = time.Now()
		ep.AskConsent(&before, b.engine.Consent(ep.Tenant), ep.UpdatedAt)
		_, err := b.engine.PutEndpoint(context.Background(), store.Everyone(), ep, store.With{})
		if grapnel.CodeOf(err) == grapnel.CodeConflict {
			continue
		}
		if err != nil {
			b.t.Fatal(err)
		}
		b.keeper.Due(id)
		return
	}
}

func (b *bench) at(id string) *grapnel.Endpoint {
	b.t.Helper()
	ep, ok := b.engine.Endpoint(store.Everyone(), id)
	if !ok {
		b.t.Fatalf("no endpoint %s", id)
	}
	return &ep
}

// terms gives a tenant its own rule.
func (b *bench) terms(tenant string, rule grapnel.ConsentRule) {
	b.t.Helper()
	_, err := b.engine.ChangeTerms(context.Background(), store.Everyone(), tenant, func(is *grapnel.Terms) (*grapnel.AuditEntry, error) {
		is.Consent = rule
		return &grapnel.AuditEntry{At: time.Now(), Tenant: tenant, Actor: "key_1", Verb: grapnel.VerbChange, Endpoint: tenant}, nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// publish publishes an event of a tenant.
func (b *bench) publish(tenant, key string) {
	b.t.Helper()
	b.count++
	now := time.Now()
	ev := &grapnel.Event{ID: fmt.Sprintf("evt_%d", b.count), Tenant: tenant, Type: "test.event", Key: key, Data: []byte(`{"a":1}`),
		ContentType: grapnel.JSONType, OccurredAt: now, AcceptedAt: now}
	if _, err := b.engine.Publish(context.Background(), []store.Incoming{{Event: ev}}, nil); err != nil {
		b.t.Fatal(err)
	}
}

// lagging is the engine of a node that has not learnt of a change yet: it shows an endpoint as it
// was, the first time that each keeper asks.
type lagging struct {
	consent.Engine
	ep    grapnel.Endpoint
	shown map[*consent.Keeper]bool
	of    *consent.Keeper
}

func (l *lagging) Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool) {
	if !l.shown[l.of] {
		l.shown[l.of] = true
		return l.ep, true
	}
	return l.Engine.Endpoint(scope, id)
}

// another is the keeper of another node.
func (b *bench) another(of *lagging) *consent.Keeper {
	k := consent.New(consent.Options{Engine: of, Sender: b.sender, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if of.shown == nil {
		of.shown = map[*consent.Keeper]bool{}
	}
	of.of = k
	return k
}

// following is the engine of a node that does not lead.
type following struct{ consent.Engine }

func (following) Leads() bool { return false }

// follower is the keeper of a node that does not lead.
func (b *bench) follower(leader func(ctx context.Context, tenant string, hosts []string, back bool) error) *consent.Keeper {
	return consent.New(consent.Options{Engine: following{b.engine}, Sender: b.sender, Random: rand.Reader,
		Log: slog.New(slog.DiscardHandler), Leader: leader})
}
