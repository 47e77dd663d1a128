package api

import (
	"context"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/inbound/queue"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/send/catalogue"
	"github.com/grapnelhq/grapnel/internal/send/erase"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
	"github.com/grapnelhq/grapnel/internal/tell/contacts"
)

// Uses are the last uses of API keys.
type Uses interface {
	Saw(key string, now time.Time)
	Last(key string) time.Time // zero: none is known
	// Read learns what other nodes know, unless it did so lately.
	Read(ctx context.Context) error
}

// Engine is what the API needs of the engine: the way in, the operator's hand, and the
// configuration it holds in memory.
type Engine interface {
	Publisher
	Operator
	Registrar
	Directory
	Catalogue
}

// Publisher takes events in. It returns once they are durable.
type Publisher interface {
	// Publish matches events with endpoints and commits them. Targets are filled by it.
	Publish(ctx context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error)
	// Quota is the limit of publishing of which a tenant has least left; nil: it has no limit.
	Quota(tenant string) *grapnel.Quota
	// Test commits one event with one delivery, to the endpoint named, whatever it subscribes to.
	Test(ctx context.Context, scope store.Scope, endpoint string, ev *grapnel.Event, delay time.Duration,
		once *store.Once) (store.Accepted, error)
}

// Catalogue has the event types that tenants have registered.
type Catalogue interface {
	EventType(scope store.Scope, id string) (grapnel.EventType, bool)
	EventTypes(scope store.Scope) []grapnel.EventType // sorted by id
	// PutEventType returns grapnel.CodeConflict if the event type was changed since it was read.
	PutEventType(ctx context.Context, scope store.Scope, t grapnel.EventType, with store.With) (store.Put, error)
	DeleteEventType(ctx context.Context, scope store.Scope, id string, with store.With) error
	// Check returns the faults of events that do not satisfy the schemas of their types, by their
	// index; nil: there are none.
	Check(ctx context.Context, events []store.Incoming) (map[int][]catalogue.Fault, error)
	// WorkOnSchemas calls do when it is the tenant's turn, with the meter of the work.
	WorkOnSchemas(ctx context.Context, tenant string, do func(m *catalogue.Meter) error) error
}

// Operator does to single deliveries what a person asks for.
type Operator interface {
	// Retry makes a waiting delivery due now and answers with it; of one that is final it makes a
	// new delivery.
	Retry(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By, once *store.Once) (store.Redelivered, error)
	// RetryAll makes the heads of an endpoint that are due later, or blocked, due now, if the
	// selection wants them. more says that there were too many for one call.
	RetryAll(ctx context.Context, scope store.Scope, endpoint string, s *grapnel.Selection, by grapnel.By) (retried int, more bool, err error)
	// Skip ends a waiting delivery; one that is final already is grapnel.CodeConflict.
	Skip(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By) error
	// Discard ends a waiting delivery as discarded; one that is final already is
	// grapnel.CodeConflict.
	Discard(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By) error
	// Probe tries at once an endpoint that is left alone, because its breaker is open or because it
	// asked for it; when it is not, or nothing waits for it, that is grapnel.CodeConflict.
	Probe(ctx context.Context, scope store.Scope, endpoint string, by grapnel.By) error
	// Empty discards everything that is in a queue and says how many deliveries that were.
	Empty(ctx context.Context, scope store.Scope, queue string, by grapnel.By) (int, error)
}

// Registrar changes the configuration.
type Registrar interface {
	PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error)
	DeleteEndpoint(ctx context.Context, scope store.Scope, id string, by grapnel.By) error
	PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error)
	// ChangePolicy replaces a policy by what edit makes of it; edit may be called again.
	ChangePolicy(ctx context.Context, scope store.Scope, id string, edit func(*grapnel.NamedPolicy) (*grapnel.AuditEntry, error)) (
		grapnel.NamedPolicy, error)
	DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error
	PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error)
	// DeleteSource is grapnel.CodeConflict while an endpoint takes only events of the
	// source.
	DeleteSource(ctx context.Context, scope store.Scope, id string, with store.With) (store.Put, error)
	PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error)
	// ChangeKey replaces a key by what edit makes of it; edit may be called again.
	ChangeKey(ctx context.Context, scope store.Scope, id string, edit func(*grapnel.Key) (*grapnel.AuditEntry, error)) (grapnel.Key, error)
	DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error
	PutAccess(ctx context.Context, scope store.Scope, r grapnel.AccessRecord, with store.With) (store.Put, error)
	DeleteAccess(ctx context.Context, scope store.Scope, id string, with store.With) error
	// ChangePortal replaces how a portal looks by what edit makes of it; edit may be called again.
	ChangePortal(ctx context.Context, scope store.Scope, tenant string, edit func(*grapnel.Portal) (*grapnel.AuditEntry, error)) (
		grapnel.Portal, error)
	// CreateTerms stores a tenant's settings with an answer to the request; see configuration.Book.
	CreateTerms(ctx context.Context, scope store.Scope, tenant string, edit func(*grapnel.Terms) (store.With, error)) (
		grapnel.Terms, *store.Answer, error)
	// ChangeTerms replaces the operator's settings for a tenant likewise.
	ChangeTerms(ctx context.Context, scope store.Scope, tenant string, edit func(*grapnel.Terms) (*grapnel.AuditEntry, error)) (
		grapnel.Terms, error)
	// ChangeSender replaces how messages reach contacts likewise.
	ChangeSender(ctx context.Context, edit func(*grapnel.Sender) (*grapnel.AuditEntry, error)) (grapnel.Sender, error)
}

// Directory is the configuration in memory, with the health of endpoints. Lists are
// sorted by id and hold nothing that is deleted; they belong to the engine and are not changed
// here.
type Directory interface {
	Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool)
	Endpoints(scope store.Scope) []grapnel.Endpoint
	// EachEndpoint shows those in scope, sorted by id, until see returns false. see changes nothing.
	EachEndpoint(scope store.Scope, see func(*grapnel.Endpoint) bool)
	// Queue finds an endpoint that is a queue by its id or, in a tenant, by its name; no tenant:
	// any that alone has the name.
	Queue(scope store.Scope, tenant, name string) (grapnel.Endpoint, bool)
	Queues(scope store.Scope) []grapnel.Endpoint
	Source(scope store.Scope, id string) (grapnel.Source, bool)
	Sources(scope store.Scope) []grapnel.Source
	Policies(scope store.Scope) []grapnel.NamedPolicy
	Keys(scope store.Scope) []grapnel.Key
	// Current returns an error while the configuration in memory may be out of date and nothing may
	// be answered from it.
	Current() error
	// Confirm returns once every node has applied every change of the configuration that was
	// committed before the call.
	Confirm(ctx context.Context) error
	// Caller finds a key by its hash; the error is Current's.
	Caller(hash [32]byte) (key grapnel.Key, known bool, err error)
	// WhileKey returns a context that also ends once there is no key with the hash any more for
	// which may is true.
	WhileKey(ctx context.Context, hash [32]byte, may func(*grapnel.Key) bool) (context.Context, context.CancelFunc)
	// Access is the access record with an id; one without content if there is none.
	Access(id string) *grapnel.AccessRecord
	Sender() grapnel.Sender // of messages to contacts
	// Accepts returns grapnel.CodeTenantEnds if the tenant is being deleted: nothing is created for it.
	Accepts(tenant string) error
	// Consent is the rule for new addresses of a tenant's endpoints.
	Consent(tenant string) grapnel.ConsentRule
	// Terms are the operator's settings for a tenant.
	Terms(tenant string) grapnel.Terms
	// Holds says whether a pass is not revoked.
	Holds(p *pass.Pass) bool
	// MakerKey is the key whose session a pass is; false: there is none any more.
	MakerKey(p *pass.Pass) (grapnel.Key, bool)
	// WhilePass returns a context that also ends once the pass is revoked.
	WhilePass(ctx context.Context, p *pass.Pass) (context.Context, context.CancelFunc)
	// Endings lists the records of ended sessions of a tenant.
	Endings(tenant string) []grapnel.AccessRecord
	// Healths says how endpoints are doing, in the order asked for, all at one instant. One that is
	// not known has the zero Health.
	Healths(endpoints []string) []grapnel.Health
	// Held are the ids of endpoints whose deliveries are held now: they are paused, disabled, or
	// their breaker is open.
	Held() []string
	// IDs makes and reads the ids of the store's deliveries.
	IDs() *grapnel.IDs
	// Tenants lists the tenants that own anything in the configuration, sorted.
	Tenants() []string
}

// History is what the API reads from a store: events, deliveries, totals, pending deliveries and
// the audit.
type History interface {
	store.History
	store.Audit
	store.Documents
	Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error)
	Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error)
	Annotate(ctx context.Context, scope store.Scope, a store.Annotation) error
	Aside(ctx context.Context, scope store.Scope, id string) (grapnel.Aside, error)
	AsideList(ctx context.Context, scope store.Scope, q store.AsideQuery) ([]grapnel.Aside, error)
	DocumentList(ctx context.Context, scope store.Scope, q store.DocumentQuery) ([]store.Document, error)
}

// Idempotency remembers answers. It is a part of store.Configuration.
type Idempotency interface {
	Recall(ctx context.Context, key string, now time.Time) (*store.Answer, error)
	Remember(ctx context.Context, once *store.Once) (*store.Answer, error)
}

// Ingest takes one request for a source and answers it.
type Ingest interface {
	Take(w http.ResponseWriter, r *http.Request, source string)
	// Refusals says what a source refused at this node.
	Refusals(source string) ingress.Refusals
	// Release verifies the requests again that waited for a source's secret.
	Release(ctx context.Context, source string) (ingress.Released, error)
}

// Outboxes knows how the relays of outboxes are doing.
type Outboxes interface {
	Status(source string) (relay.Status, bool)
}

// Queues lease messages to consumers and record the outcomes; package queue.
type Queues interface {
	Next(ctx context.Context, q *grapnel.Endpoint, consumer string, most int, wait time.Duration) ([]queue.Message, error)
	// SettleAll returns an error or nil for each; grapnel.CodeConflict is for leases that are over
	// or settled.
	SettleAll(ctx context.Context, scope store.Scope, list []queue.Settlement) []error
	Extend(ctx context.Context, scope store.Scope, token string, by time.Duration) (grapnel.Lease, error)
	// Release returns leases that no consumer has seen; they count as no attempts.
	Release(leases []grapnel.Lease)
	Peek(ctx context.Context, queue string, limit int) ([]queue.Waiting, error)
	Consumers(ctx context.Context, queue string) ([]grapnel.Consumer, error)
	Counts(ctx context.Context, queue string) (grapnel.QueueCounts, error)
}

// Minutes counts what happened at an endpoint, minute by minute. The minutes from one time to
// another are known, and those in which nothing happened are left out; without any the times are
// equal.
type Minutes interface {
	Of(endpoint string) (from, to time.Time, list []grapnel.Bucket)
}

// Alerts reads alerts and rules, acknowledges alerts and changes rules.
type Alerts interface {
	List(ctx context.Context, scope store.Scope, q alerting.Query) (found []alert.Alert, next string, err error)
	Get(ctx context.Context, scope store.Scope, id string) (alert.Alert, error)
	// Message returns the deliveries of the event with a message about an alert, or the digest that
	// it waits for; neither if there is no such event.
	Message(ctx context.Context, scope store.Scope, of *alert.Alert, m alert.Sent) ([]grapnel.Delivery, *alert.Held, error)
	Acknowledge(ctx context.Context, scope store.Scope, id string, by grapnel.By, once func(alert.Alert) *store.Once) (
		alert.Alert, *store.Answer, error)
	// Follow reads the link of a message; false: it is none, or has expired.
	Follow(link string) (id, tenant string, valid bool)
	Rules(ctx context.Context, tenant string) ([]alerting.Rule, error)
	SetRule(ctx context.Context, scope store.Scope, tenant, name string, by grapnel.By,
		change func(alerting.Rule) (alert.Setting, error)) (alerting.Rule, error)
	Backtest(ctx context.Context, scope store.Scope, tenant, name string, back time.Duration, threshold *float64) (alerting.Backtested,
		error)
}

// Contacts asks contacts to confirm their addresses, and reads their answers; package contacts.
type Contacts interface {
	Ask(ctx context.Context, contact *grapnel.Endpoint) error
	// Follow reads the link of a question; false: it is none, or has expired.
	Follow(link string) (contacts.Confirmation, bool)
}

// Consents asks addresses of endpoints for their consent; package consent.
type Consents interface {
	// Due has an endpoint that waits for consent asked soon.
	Due(endpoint string)
	// Ask asks now, for a person, and returns the endpoint with what it came to.
	Ask(ctx context.Context, endpoint string, by grapnel.By) (grapnel.Endpoint, error)
}

// Erasures begins and shows erasures; package erase.
type Erasures interface {
	// Tenant deletes a tenant; grapnel.CodeNotFound if there is nothing of it.
	Tenant(ctx context.Context, tenant string, by grapnel.By, once func(*erase.Job) *store.Once) (*erase.Job, *store.Answer, error)
	Events(ctx context.Context, tenant string, s erase.Selection, by grapnel.By, once func(*erase.Job) *store.Once) (*erase.Job, *store.Answer, error)
	Get(ctx context.Context, id string) (*erase.Job, error)
	List(ctx context.Context, before string, limit int) ([]*erase.Job, error)
}
