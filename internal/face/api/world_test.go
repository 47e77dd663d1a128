package api

import (
	"bytes"
	"context"
	rand2 "crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/send/catalogue"
	"github.com/grapnelhq/grapnel/internal/send/erase"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/internal/tell/statuspage"
	"github.com/grapnelhq/grapnel/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeEngine is the engine as the API sees it, on the model store, without attempts: deliveries
// stay pending until a test moves them.
type fakeEngine struct {
	*memory.Faulty
	losing sync.Mutex
	lose   func(method string) bool // loses the answer to a call of the store; nil: none is lost
	now    func() time.Time
	health map[string]grapnel.Health // of endpoints that are not just healthy
	quota  *grapnel.Quota            // of every tenant
	broken error                     // what every call that changes something answers with
	still  error                     // why there is nothing to probe
	stale  error                     // why nothing may be answered from memory
	enter  chan struct{}             // not nil: Publish announces itself here, then waits for leave
	leave  chan struct{}
	calls  atomic.Int64 // of Publish
	asked  atomic.Int64 // calls of Healths

	confirmed atomic.Int64 // calls of Confirm
	mu        sync.Mutex
	cached    *store.Config // what config has read; nil: it has changed since
	t         testing.TB
}

// injure loses answers of the store: the effects happen.
func (s *fakeEngine) injure(method string) memory.Fault {
	s.losing.Lock()
	defer s.losing.Unlock()
	if s.lose == nil || !s.lose(method) {
		return memory.Fault{}
	}
	return memory.Fault{Err: fmt.Errorf("the database at /secret: %w: connection reset", store.ErrUnknown), Applied: true}
}

// loses sets which answers are lost from now on. Queues call the store in the background, so the
// former function may be running; loses waits for it.
func (s *fakeEngine) loses(answer func(method string) bool) {
	s.losing.Lock()
	defer s.losing.Unlock()
	s.lose = answer
}

func (s *fakeEngine) config() store.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cached == nil {
		c, err := s.Config(context.Background())
		if err != nil {
			panic(err)
		}
		s.cached = &c
	}
	return *s.cached
}

// forget has the configuration read again. It waits for who reads it, or they would remember what
// it was.
func (s *fakeEngine) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cached = nil
}

func (s *fakeEngine) Publish(ctx context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error) {
	s.calls.Add(1)
	if s.enter != nil {
		s.enter <- struct{}{}
		<-s.leave
	}
	if s.broken != nil {
		return store.Accepted{}, s.broken
	}
	c := s.config()
	for i := range events {
		for _, ep := range c.Endpoints {
			if wants(&ep, events[i].Event) {
				events[i].Targets = append(events[i].Targets, store.Target{Endpoint: ep.ID, Ordered: ep.Ordered(),
					Trigger: grapnel.TriggerSchedule, Drop: ep.DropReason()})
			}
		}
	}
	return s.Append(ctx, store.Batch{Config: c.Version, Events: events, Once: once})
}

func (s *fakeEngine) Quota(string) *grapnel.Quota { return s.quota }

func wants(ep *grapnel.Endpoint, ev *grapnel.Event) bool {
	if ep.Tenant != ev.Tenant || !ep.DeletedAt.IsZero() {
		return false
	}
	for _, pattern := range ep.EventTypes {
		if grapnel.MatchType(pattern, ev.Type) {
			return true
		}
	}
	return len(ep.EventTypes) == 0
}

func (s *fakeEngine) Test(ctx context.Context, scope store.Scope, endpoint string, ev *grapnel.Event,
	delay time.Duration, once *store.Once) (store.Accepted, error) {
	if _, ok := s.Endpoint(scope, endpoint); !ok {
		return store.Accepted{}, store.ErrNotFound("endpoint")
	}
	return s.Append(ctx, store.Batch{Config: s.config().Version, Once: once, Events: []store.Incoming{{
		Event: ev, Targets: []store.Target{{Endpoint: endpoint, Trigger: grapnel.TriggerTest, Delay: delay}},
	}}})
}

func (s *fakeEngine) Retry(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By,
	once *store.Once) (store.Redelivered, error) {
	d, err := s.Delivery(ctx, scope, delivery)
	if err != nil {
		return store.Redelivered{}, err
	}
	if !d.Status.Final() {
		_, err := s.Record(ctx, []store.Change{{Delivery: delivery, Expect: store.AnyAttempts, At: s.now(), Status: grapnel.Pending,
			Due: s.now(), Trigger: grapnel.TriggerManual, Reason: "a person asked for it to be tried now",
			Audit: s.entry(grapnel.VerbRetry, d, by)}})
		return store.Redelivered{Delivery: delivery, CreatedAt: d.CreatedAt}, err
	}
	ep, _ := s.Endpoint(scope, d.EndpointID)
	return s.Again(ctx, scope, store.Redelivery{Of: delivery, Trigger: grapnel.TriggerManual,
		Ordered: ep.Ordered(), At: s.now(), Once: once,
		Audit: s.entry(grapnel.VerbRetry, d, by)})
}

func (s *fakeEngine) RetryAll(ctx context.Context, scope store.Scope, endpoint string, sel *grapnel.Selection, by grapnel.By) (
	n int, more bool, err error) {
	heads, err := s.Heads(ctx, endpoint, 1000)
	for _, h := range heads {
		d, lost := s.Delivery(ctx, scope, h.Delivery)
		if lost == nil && h.Due.After(s.now()) && sel.Of(d.Type, d.Key) && sel.Ended(&d.Last) {
			n++
			_, err = s.Retry(ctx, scope, h.Delivery, by, nil)
		}
	}
	return n, false, err
}

func (s *fakeEngine) Probe(ctx context.Context, scope store.Scope, endpoint string, by grapnel.By) error {
	ep, ok := s.Endpoint(scope, endpoint)
	if !ok {
		return store.ErrNotFound("endpoint")
	}
	if s.still != nil {
		return s.still
	}
	return s.Note(ctx, grapnel.AuditEntry{At: s.now(), Tenant: ep.Tenant, Actor: by.Actor, Verb: grapnel.VerbProbe,
		Endpoint: endpoint, Reason: by.Reason})
}

// entry is what the audit says of an order.
func (s *fakeEngine) entry(verb grapnel.Verb, d *grapnel.Delivery, by grapnel.By) *grapnel.AuditEntry {
	return &grapnel.AuditEntry{At: s.now(), Tenant: d.Tenant, Actor: by.Actor, Verb: verb, Endpoint: d.EndpointID,
		Delivery: d.PlainID(), Reason: by.Reason}
}

func (s *fakeEngine) Skip(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By) error {
	return s.giveUp(ctx, scope, delivery, by, grapnel.Skipped, by.Reason, grapnel.VerbSkip)
}

func (s *fakeEngine) Discard(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By) error {
	return s.giveUp(ctx, scope, delivery, by, grapnel.Discarded, "discarded: "+by.Reason, grapnel.VerbDiscard)
}

func (s *fakeEngine) giveUp(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By, status grapnel.Status,
	reason string, verb grapnel.Verb) error {
	d, err := s.Delivery(ctx, scope, delivery)
	if err != nil {
		return err
	}
	if d.Status.Final() {
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery is finished: it is %s", d.Status)
	}
	_, err = s.Record(ctx, []store.Change{{Delivery: delivery, Expect: store.AnyAttempts, At: s.now(), Status: status, Reason: reason,
		Audit: s.entry(verb, d, by)}})
	return err
}

// Advance is what a replay asks for when it moves, which it does only in a test that says so.
func (s *fakeEngine) Decides(string) bool { return true }

func (s *fakeEngine) Advance(ctx context.Context, _ string, step store.ReplayStep) ([]store.Redelivered, error) {
	return s.Faulty.Advance(ctx, step)
}

func (s *fakeEngine) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error) {
	if s.broken != nil {
		return store.Put{}, s.broken
	}
	defer s.forget()
	return s.Faulty.PutEndpoint(ctx, scope, ep, with)
}

func (s *fakeEngine) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error) {
	if s.broken != nil {
		return store.Put{}, s.broken
	}
	defer s.forget()
	return s.Faulty.PutSource(ctx, scope, src, with)
}

func (s *fakeEngine) DeleteSource(ctx context.Context, scope store.Scope, id string, with store.With) (store.Put, error) {
	for _, ep := range s.Endpoints(scope) {
		if ep.Source == id {
			return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "endpoint %s takes only what comes in through this source", ep.ID)
		}
	}
	defer s.forget()
	return s.Faulty.DeleteSource(ctx, scope, id, with)
}

func (s *fakeEngine) Source(scope store.Scope, id string) (grapnel.Source, bool) {
	for _, src := range s.Sources(scope) {
		if src.ID == id {
			return src, true
		}
	}
	return grapnel.Source{}, false
}

func (s *fakeEngine) Sources(scope store.Scope) (all []grapnel.Source) {
	for _, src := range s.config().Sources {
		if scope.Allows(src.Tenant) {
			all = append(all, src)
		}
	}
	return all
}

func (s *fakeEngine) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	defer s.forget()
	return s.Faulty.PutPolicy(ctx, scope, p, with)
}

func (s *fakeEngine) ChangePolicy(ctx context.Context, scope store.Scope, id string,
	edit func(*grapnel.NamedPolicy) (*grapnel.AuditEntry, error)) (grapnel.NamedPolicy, error) {
	for _, p := range s.Policies(scope) {
		if p.ID != id {
			continue
		}
		audit, err := edit(&p)
		if err == nil {
			_, err = s.PutPolicy(ctx, scope, p, store.With{Audit: audit})
		}
		return p, err
	}
	return grapnel.NamedPolicy{}, store.ErrNotFound("policy")
}

func (s *fakeEngine) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	defer s.forget()
	return s.Faulty.PutKey(ctx, scope, k, with)
}

func (s *fakeEngine) ChangeKey(ctx context.Context, scope store.Scope, id string, edit func(*grapnel.Key) (*grapnel.AuditEntry, error)) (
	grapnel.Key, error) {
	for _, k := range s.Keys(scope) {
		if k.ID != id {
			continue
		}
		audit, err := edit(&k)
		if err == nil {
			_, err = s.PutKey(ctx, scope, k, store.With{Audit: audit})
		}
		return k, err
	}
	return grapnel.Key{}, store.ErrNotFound("key")
}

func (s *fakeEngine) CatchUp(context.Context) error { return nil }

func (s *fakeEngine) Confirm(context.Context) error { s.confirmed.Add(1); return nil }

func (s *fakeEngine) ChangePortal(ctx context.Context, scope store.Scope, tenant string,
	edit func(*grapnel.Portal) (*grapnel.AuditEntry, error)) (grapnel.Portal, error) {
	p := s.Access(grapnel.PortalID(tenant)).Looks()
	audit, err := edit(&p)
	if err == nil {
		_, err = s.PutAccess(ctx, scope, grapnel.PortalRecord(tenant, p), store.With{Audit: audit})
	}
	return p, err
}

func (s *fakeEngine) ChangeTerms(ctx context.Context, scope store.Scope, tenant string,
	edit func(*grapnel.Terms) (*grapnel.AuditEntry, error)) (grapnel.Terms, error) {
	is := s.Terms(tenant)
	audit, err := edit(&is)
	if err == nil {
		_, err = s.PutAccess(ctx, scope, grapnel.TermsRecord(tenant, is), store.With{Audit: audit})
	}
	return is, err
}

func (s *fakeEngine) ChangeSender(ctx context.Context, edit func(*grapnel.Sender) (*grapnel.AuditEntry, error)) (grapnel.Sender, error) {
	is := s.Sender()
	audit, err := edit(&is)
	if err == nil {
		_, err = s.PutAccess(ctx, store.Everyone(), grapnel.SenderRecord(is), store.With{Audit: audit})
	}
	return is, err
}

func (s *fakeEngine) Sender() grapnel.Sender {
	if is := s.Access(grapnel.SenderID).Sender; is != nil {
		return *is
	}
	return grapnel.Sender{}
}

func (s *fakeEngine) CreateTerms(ctx context.Context, scope store.Scope, tenant string,
	edit func(*grapnel.Terms) (store.With, error)) (grapnel.Terms, *store.Answer, error) {
	is := s.Terms(tenant)
	with, err := edit(&is)
	if err != nil {
		return is, nil, err
	}
	done, err := s.PutAccess(ctx, scope, grapnel.TermsRecord(tenant, is), with)
	return is, done.Answer, err
}

func (s *fakeEngine) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	defer s.forget()
	return s.Faulty.DeleteKey(ctx, scope, id, with)
}

func (s *fakeEngine) PutAccess(ctx context.Context, scope store.Scope, r grapnel.AccessRecord, with store.With) (store.Put, error) {
	defer s.forget()
	return s.Faulty.PutAccess(ctx, scope, r, with)
}

func (s *fakeEngine) DeleteAccess(ctx context.Context, scope store.Scope, id string, with store.With) error {
	defer s.forget()
	return s.Faulty.DeleteAccess(ctx, scope, id, with)
}

func (s *fakeEngine) DeleteEndpoint(ctx context.Context, scope store.Scope, id string, by grapnel.By) error {
	ep, ok := s.Endpoint(scope, id)
	if !ok {
		return store.ErrNotFound("endpoint")
	}
	defer s.forget()
	ep.DeletedAt = s.now()
	_, err := s.Faulty.PutEndpoint(ctx, scope, ep, store.With{Audit: &grapnel.AuditEntry{At: s.now(), Tenant: ep.Tenant, Actor: by.Actor,
		Verb: grapnel.VerbDelete, Endpoint: id, Reason: by.Reason}})
	return err
}

func (s *fakeEngine) DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error {
	for _, p := range s.Policies(scope) {
		for _, ep := range s.Endpoints(scope) {
			if p.ID == id && ep.PolicyName == p.Name && ep.Tenant == p.Tenant {
				return grapnel.Errorf(grapnel.CodeConflict, "the policy is used by endpoint %s", ep.ID)
			}
		}
	}
	defer s.forget()
	return s.Faulty.DeletePolicy(ctx, scope, id, with)
}

func (s *fakeEngine) Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool) {
	for _, ep := range s.Endpoints(scope) {
		if ep.ID == id {
			return ep, true
		}
	}
	return grapnel.Endpoint{}, false
}

func (s *fakeEngine) Endpoints(scope store.Scope) (eps []grapnel.Endpoint) {
	for _, ep := range s.config().Endpoints {
		if scope.Covers(ep.Tenant, ep.ID) && ep.DeletedAt.IsZero() {
			eps = append(eps, ep)
		}
	}
	return eps
}

func (s *fakeEngine) EachEndpoint(scope store.Scope, see func(*grapnel.Endpoint) bool) {
	for _, ep := range s.Endpoints(scope) {
		if !see(&ep) {
			return
		}
	}
}

func (s *fakeEngine) Policies(scope store.Scope) (ps []grapnel.NamedPolicy) {
	for _, p := range s.config().Policies {
		if scope.Allows(p.Tenant) {
			ps = append(ps, p)
		}
	}
	return ps
}

func (s *fakeEngine) EventTypes(scope store.Scope) (all []grapnel.EventType) {
	for _, t := range s.config().Types {
		if scope.Allows(t.Tenant) {
			all = append(all, t)
		}
	}
	return all
}

func (s *fakeEngine) EventType(scope store.Scope, id string) (grapnel.EventType, bool) {
	for _, t := range s.EventTypes(scope) {
		if t.ID == id {
			return t, true
		}
	}
	return grapnel.EventType{}, false
}

func (s *fakeEngine) PutEventType(ctx context.Context, scope store.Scope, t grapnel.EventType, with store.With) (store.Put, error) {
	defer s.forget()
	return s.Faulty.PutEventType(ctx, scope, t, with)
}

func (s *fakeEngine) DeleteEventType(ctx context.Context, scope store.Scope, id string, with store.With) error {
	defer s.forget()
	return s.Faulty.DeleteEventType(ctx, scope, id, with)
}

// schemaUnits is the work that one request may do.
const schemaUnits = 1_000_000

func (s *fakeEngine) Check(_ context.Context, events []store.Incoming) (map[int][]catalogue.Fault, error) {
	faults := map[int][]catalogue.Fault{}
	for i, in := range events {
		for _, t := range s.EventTypes(store.Of(in.Event.Tenant)) {
			if t.Name != in.Event.Type || t.Check == grapnel.CheckOff {
				continue
			}
			found, err := catalogue.Judge(&t, in.Event, catalogue.NewMeter(schemaUnits, nil), func(n int) (*catalogue.Schema, error) {
				s, _ := catalogue.Compile([]byte(t.Version(n).Schema))
				return s, nil
			})
			if err != nil {
				return nil, grapnel.Errorf(grapnel.CodeSchemaTooCostly, "too costly")
			}
			if found != nil {
				faults[i] = found
			}
		}
	}
	if len(faults) == 0 {
		return nil, nil
	}
	return faults, nil
}

func (s *fakeEngine) WorkOnSchemas(_ context.Context, _ string, do func(*catalogue.Meter) error) error {
	err := do(catalogue.NewMeter(schemaUnits, nil))
	if errors.Is(err, catalogue.ErrTooCostly) {
		return grapnel.Errorf(grapnel.CodeSchemaTooCostly, "too costly")
	}
	return err
}

func (s *fakeEngine) Keys(scope store.Scope) (ks []grapnel.Key) {
	for _, k := range s.config().Keys {
		if scope.Allows(k.Tenant) {
			ks = append(ks, k)
		}
	}
	return ks
}

func (s *fakeEngine) Current() error { return s.stale }

func (s *fakeEngine) Caller(hash [32]byte) (grapnel.Key, bool, error) {
	for _, k := range s.config().Keys {
		if k.Hash == hash && s.stale == nil {
			return k, true, nil
		}
	}
	return grapnel.Key{}, false, s.stale
}

func (s *fakeEngine) WhileKey(ctx context.Context, _ [32]byte, _ func(*grapnel.Key) bool) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func (s *fakeEngine) Holds(p *pass.Pass) bool { return p.Holds(s) }

func (s *fakeEngine) MakerKey(p *pass.Pass) (grapnel.Key, bool) { return p.MakerKey(s) }

func (s *fakeEngine) Key(id string) *grapnel.Key {
	for _, k := range s.config().Keys {
		if k.ID == id {
			return &k
		}
	}
	return nil
}

func (s *fakeEngine) Terms(tenant string) grapnel.Terms {
	if is := s.Access(grapnel.TermsRecord(tenant, grapnel.Terms{}).ID).Terms; is != nil {
		return *is
	}
	return grapnel.Terms{}
}

func (s *fakeEngine) Access(id string) *grapnel.AccessRecord {
	for _, r := range s.config().Access {
		if r.ID == id {
			return &r
		}
	}
	return &grapnel.AccessRecord{}
}

func (s *fakeEngine) Endings(tenant string) (all []grapnel.AccessRecord) {
	for _, r := range s.config().Access {
		if r.Ended != nil && r.Tenant == tenant {
			all = append(all, r)
		}
	}
	return all
}

func (s *fakeEngine) WhilePass(ctx context.Context, _ *pass.Pass) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func (s *fakeEngine) Healths(ids []string) []grapnel.Health {
	s.asked.Add(1)
	all := make([]grapnel.Health, len(ids))
	for i, id := range ids {
		all[i].State = grapnel.HealthHealthy
		if ep, _ := s.Endpoint(store.Everyone(), id); ep.ID != "" && ep.Status != grapnel.EndpointEnabled {
			all[i].State = grapnel.HealthState(ep.Status)
		} else if h, known := s.health[id]; known {
			all[i] = h
		}
	}
	return all
}

func (s *fakeEngine) Tenants() []string {
	var all []string
	for _, ep := range s.Endpoints(store.Everyone()) {
		all = append(all, ep.Tenant)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (s *fakeEngine) Held() (ids []string) {
	for _, ep := range s.config().Endpoints {
		if ep.Status != grapnel.EndpointEnabled || s.health[ep.ID].State == grapnel.HealthOpen {
			ids = append(ids, ep.ID)
		}
	}
	return ids
}

// seeded is randomness that is the same in every run, for any number of goroutines.
type seeded struct {
	mu  sync.Mutex
	src *rand.ChaCha8
}

func (s *seeded) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.src.Read(b)
}

// Keys of the test world. "acme-…" are bound to a tenant.
const (
	admin     = "grp_test_admin_of_everything"
	acmeAdmin = "grp_test_admin_of_acme"
)

// world is the whole API on a model store, at an instant that stands still until a test moves it.
type world struct {
	t       testing.TB
	engine  *fakeEngine
	options Options
	handler http.Handler
	clock   time.Time
	logged  *bytes.Buffer
}

// ample are the bounds that a server has, under are those of the worlds that are made now; see
// TestTinyBounds.
var (
	ample = bounds.Fill(Bounds{})
	under = ample
)

// storeIDs makes the ids of deliveries in all worlds.
var storeIDs = memory.New().IDs()

func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, clock: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC), logged: &bytes.Buffer{}}
	now := func() time.Time { return w.clock }
	w.engine = &fakeEngine{t: t, Faulty: &memory.Faulty{Store: memory.New()}, now: now, health: map[string]grapnel.Health{}}
	w.engine.Injure = w.engine.injure
	w.options = Options{
		Engine: w.engine, History: w.engine.Faulty, Idempotency: w.engine.Faulty, Clock: now,
		Random: &seeded{src: rand.NewChaCha8([32]byte{1})}, Log: slog.New(slog.NewTextHandler(w.logged, nil)),
		Documents: w.engine.Faulty, Promises: kept(now), Bounds: under,
		Passes:    pass.NewSealer(storeIDs.Subkey, func() string { return w.engine.Access(grapnel.SeriesID("")).Series }, rand2.Reader),
		MasterKey: rewrapped{}, Reveals: true,
	}
	w.options.Replays = replay.New(replay.Options{Engine: w.engine, Store: w.engine.Faulty, Log: w.options.Log, Now: now,
		Random: w.options.Random})
	w.options.Erasures = erase.New(erase.Options{Engine: eraser{fakeEngine: w.engine}, Store: w.engine.Faulty, Log: w.options.Log, Now: now, Random: w.options.Random})
	w.options.Alerts, w.options.Contacts, w.options.Consents = w.alerts(), &asker{w: w}, &agreeing{w: w}
	w.options.Bounds.Wrong, w.options.Bounds.RefusalBurst = 1<<30, 1<<30 // tests try many
	for _, f := range change {
		f(&w.options)
	}
	if w.options.Status == nil {
		w.options.Status = statuspage.NewPages(func() error {
			if w.options.Ready == nil {
				return nil
			}
			return w.options.Ready()
		}, Plainly, "")
	}
	w.handler = New(w.options)
	w.key("key_admin", admin, "", grapnel.ScopeAdmin)
	w.key("key_acme", acmeAdmin, "acme", grapnel.ScopeAdmin)
	for _, s := range grapnel.Scopes() {
		if s != grapnel.ScopeAdmin {
			w.key("key_"+string(s), scoped(s), "", s)
			w.key("key_acme_"+string(s), scoped(s)+"_acme", "acme", s)
		}
	}
	return w
}

func scoped(s grapnel.Scope) string { return "grp_test_only_" + string(s) }

func (w *world) key(id, text, tenant string, scopes ...grapnel.Scope) {
	w.t.Helper()
	k := grapnel.Key{ID: id, Name: id, Tenant: tenant, Scopes: scopes, Hash: sha256.Sum256([]byte(text)), CreatedAt: w.clock}
	if _, err := w.engine.PutKey(context.Background(), store.Everyone(), k, store.With{}); err != nil {
		w.t.Fatal(err)
	}
}

// reply is an answer with its body read.
type reply struct {
	*http.Response
	body []byte
}

// ask sends a request with a key. header is names and values in turn; a Content-Type is JSON if
// there is a body and none is given.
func (w *world) ask(key, method, target, body string, header ...string) reply {
	w.t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, target, content)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if path, _, _ := strings.Cut(target, "?"); strings.HasSuffix(path, "/portal-links") {
		r.Host = "localhost" // the only host that the server believes without --public-url
	}
	return w.send(r)
}

func (w *world) send(r *http.Request) reply {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	resp := rec.Result()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	got := reply{resp, body}
	w.checkAnswer(r, got)
	return got
}

// must is ask with the admin key, for an answer that has to have this status; its body is returned
// as a map.
func (w *world) must(status int, method, target, body string, header ...string) map[string]any {
	w.t.Helper()
	return w.as(admin, status, method, target, body, header...)
}

func (w *world) as(key string, status int, method, target, body string, header ...string) map[string]any {
	w.t.Helper()
	r := w.ask(key, method, target, body, header...)
	if r.StatusCode != status {
		w.t.Fatalf("%s %s: answered %d, want %d: %s", method, target, r.StatusCode, status, r.body)
	}
	return r.object(w.t)
}

func (r reply) object(t testing.TB) map[string]any {
	t.Helper()
	if len(r.body) == 0 {
		return nil
	}
	var m map[string]any
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	return m
}

// endpoint makes an endpoint and returns its id. settings are members of the body, each with a
// comma before it.
func (w *world) endpoint(key, settings string) string {
	w.t.Helper()
	return w.as(key, 201, "POST", "/v1/endpoints", `{"url":"https://receiver.example/hook"`+settings+`}`)["id"].(string)
}

// only is the one delivery that there is.
func (w *world) only() *grapnel.Delivery {
	w.t.Helper()
	all, err := w.engine.DeliveryList(context.Background(), store.Everyone(), store.DeliveryQuery{Limit: 2})
	if err != nil || len(all) != 1 {
		w.t.Fatalf("there are %d deliveries: %v", len(all), err)
	}
	return &all[0]
}

// finish ends a delivery as the engine would.
func (w *world) finish(d *grapnel.Delivery, status grapnel.Status, code grapnel.ReasonCode, reason string) {
	w.t.Helper()
	if _, err := w.engine.Record(context.Background(), []store.Change{{Delivery: d.Seq, Expect: store.AnyAttempts, At: w.clock, Status: status,
		ReasonCode: code, Reason: reason}}); err != nil {
		w.t.Fatal(err)
	}
}

// dump is everything that the store holds and that a request could have changed.
func (w *world) dump() string {
	w.t.Helper()
	ctx, everyone := context.Background(), store.Everyone()
	events, err := w.engine.EventList(ctx, everyone, store.EventQuery{Limit: 1 << 20})
	if err != nil {
		w.t.Fatal(err)
	}
	deliveries, err := w.engine.DeliveryList(ctx, everyone, store.DeliveryQuery{Limit: 1 << 20})
	if err != nil {
		w.t.Fatal(err)
	}
	audit, err := w.engine.AuditList(ctx, everyone, store.AuditQuery{Limit: 1 << 20})
	if err != nil {
		w.t.Fatal(err)
	}
	replays, err := w.engine.ReplayList(ctx, everyone, store.ReplayQuery{Limit: 1 << 20})
	if err != nil {
		w.t.Fatal(err)
	}
	config := w.engine.config()
	text := w.documents() +
		fmt.Sprintf("version %d\n%v\n%v\n%v\n%v\n", config.Version, events, deliveries, replays, audit)
	for _, v := range []any{config.Endpoints, config.Sources, config.Policies, config.Keys} {
		raw, err := json.Marshal(v)
		if err != nil {
			w.t.Fatal(err)
		}
		text += string(raw) + "\n"
	}
	return text
}

// attempt records an attempt that failed with a status, and when the next one is due.
func (w *world) attempt(d *grapnel.Delivery, number, status int, next time.Time) {
	w.t.Helper()
	at := &grapnel.Attempt{
		Number: number, Trigger: grapnel.TriggerSchedule, ScheduledFor: w.clock, StartedAt: w.clock, Duration: 12 * time.Millisecond,
		Phases:         grapnel.Phases{DNS: time.Millisecond, Connect: 2 * time.Millisecond, FirstByte: 5 * time.Millisecond},
		RequestHeaders: []grapnel.Header{{Name: "User-Agent", Value: "Grapnel/1"}, {Name: "X-Own", Value: "[redacted]"}},
		StatusCode:     status, Class: policy.ClassStatus5xx, Error: "the endpoint answered 503",
		ResponseHeaders: map[string]string{"Server": "x"},
		ResponseBody:    []byte("down \xff"), Decision: policy.Retry, NextAttemptAt: next, PolicyRevision: 1,
	}
	_, err := w.engine.Record(context.Background(), []store.Change{{Delivery: d.Seq, Expect: number - 1, Attempt: at, At: w.clock,
		Status: grapnel.Pending, Due: next, Trigger: grapnel.TriggerSchedule, Reason: "attempt 1 failed: the endpoint answered 503"}})
	if err != nil {
		w.t.Fatal(err)
	}
}

// newest is the last delivery that was made.
func (w *world) newest(t testing.TB) *grapnel.Delivery {
	t.Helper()
	all, err := w.engine.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 1})
	if err != nil || len(all) == 0 {
		t.Fatalf("there are %d deliveries: %v", len(all), err)
	}
	return &all[0]
}

// rewrapped is a master key that is rotated already.
type rewrapped struct{}

func (rewrapped) Rotate(context.Context) (seal.Rotated, error) {
	return seal.Rotated{Master: "m", Keys: 2}, nil
}
