package storetest

import (
	"context"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// The tenants and endpoints of the cases: two endpoints of acme, one of bolt.
const (
	acme = "acme"
	bolt = "bolt"
	epA  = "ep_a"
	epB  = "ep_b"
	epX  = "ep_x"
)

var everyone = store.Everyone()

// driver runs one case: it has a store, and methods that fail the test instead of returning an
// error.
type driver struct {
	rapid.TB // reports failures: the test of a case, or the random history
	store.Store
	test    *testing.T // owns the stores
	harness Harness
	ctx     context.Context
	purged  bool // history may have gaps
}

// newDriver opens a store with the three endpoints.
func newDriver(t *testing.T, h Harness) *driver {
	d := openDriver(t, t, h)
	d.put(endpoint(epA, acme))
	d.put(endpoint(epB, acme))
	d.put(endpoint(epX, bolt))
	return d
}

// openDriver opens a store, which is closed at the end of tb: a case, or a random history of one.
func openDriver(tb interface {
	rapid.TB
	Cleanup(end func())
	Context() context.Context
}, t *testing.T, h Harness) *driver {
	d := &driver{TB: tb, Store: h.Open(t), test: t, harness: h, ctx: tb.Context()}
	tb.Cleanup(func() {
		if err := d.Store.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return d
}

// at is a moment some seconds after the beginning of all cases.
func at(seconds float64) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func endpoint(id, tenant string) grapnel.Endpoint {
	p, _ := policy.Preset("standard")
	return grapnel.Endpoint{
		ID: id, Tenant: tenant, URL: "https://example.com/" + id, EventTypes: []string{"invoice.*"}, PolicyName: "standard", Policy: p,
		Ordering: grapnel.OrderByKey, RateLimit: &grapnel.RateLimit{PerSecond: 12.5, Burst: 3}, MaxConcurrency: 7,
		Headers: map[string]string{"x-team": tenant}, Format: grapnel.FormatStandard,
		Secrets: []grapnel.Secret{{Text: "whsec_bm90IGEgc2VjcmV0", CreatedAt: at(-10), ExpiresAt: at(1000)}},
		Status:  grapnel.EndpointEnabled, CreatedAt: at(-10), UpdatedAt: at(-9),
	}
}

// event is an event of acme, accepted some seconds after the beginning.
func event(id, key string, accepted float64) *grapnel.Event {
	return &grapnel.Event{
		ID: id, Tenant: acme, Type: "invoice.paid", Key: key, Data: []byte(`{"id": "` + id + `"}`), ContentType: grapnel.JSONType,
		OccurredAt: at(accepted - 1), AcceptedAt: at(accepted),
	}
}

// to is the usual target: in the lane of the event's key.
func to(endpoint string) store.Target {
	return store.Target{Endpoint: endpoint, Ordered: true, Trigger: grapnel.TriggerSchedule}
}

func incoming(e *grapnel.Event, targets ...store.Target) store.Incoming {
	return store.Incoming{Event: e, Targets: targets}
}

func (d *driver) must(err error, what string) {
	d.Helper()
	if err != nil {
		d.Fatalf("%s: %v", what, err)
	}
}

// remember stores an answer, or keeps the earlier one.
func (d *driver) remember(once *store.Once) error {
	d.Helper()
	before := d.recall(once.Key, once.Now.Sub(at(0)).Seconds())
	then, err := d.Remember(d.ctx, once)
	if err == nil {
		d.same(then, before, "the earlier answer")
	}
	return err
}

func (d *driver) code(err error, want grapnel.Code, what string) {
	d.Helper()
	if got := grapnel.CodeOf(err); got != want {
		d.Fatalf("%s: got error %v with code %q, want code %q", what, err, got, want)
	}
}

// same compares the store's answer with the expected one. Nil and empty are the same: a store need
// not distinguish them.
func (d *driver) same(got, want any, what string) {
	d.Helper()
	if diff := difference(got, want); diff != "" {
		d.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func difference(got, want any) string {
	if reflect.DeepEqual(got, want) {
		return "" // nearly always, and much faster
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(samePolicy), cmp.Comparer(sameSecret))
}

// samePolicy compares policies in their JSON form.
func samePolicy(a, b policy.Policy) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && string(x) == string(y)
}

func sameSecret(a, b grapnel.Secret) bool {
	return a.Text == b.Text && a.CreatedAt.Equal(b.CreatedAt) && a.ExpiresAt.Equal(b.ExpiresAt)
}

func (d *driver) put(ep grapnel.Endpoint) store.Put {
	d.Helper()
	p, err := d.PutEndpoint(d.ctx, store.Of(ep.Tenant), ep, store.With{})
	d.must(err, "PutEndpoint")
	return p
}

func (d *driver) config() store.Config {
	d.Helper()
	c, err := d.Config(d.ctx)
	d.must(err, "Config")
	version, newest, err := d.Version(d.ctx)
	if d.must(err, "Version"); version != c.Version || newest != c.Newest {
		d.Fatalf("Version is %d with newest %d, Config has %d with %d", version, newest, c.Version, c.Newest)
	}
	return c
}

// publish appends a batch against the current configuration.
func (d *driver) publish(events ...store.Incoming) store.Accepted {
	d.Helper()
	done, err := d.Append(d.ctx, store.Batch{Config: d.config().Version, Events: events})
	d.must(err, "Append")
	if len(done.Events) != len(events) {
		d.Fatalf("Append answered for %d of %d events", len(done.Events), len(events))
	}
	return done
}

// lane publishes n events of one key to endpoint a, one per second from second 0, and returns the
// row ids of their deliveries. The event ids are the key followed by a number from 1.
func (d *driver) lane(key string, n int) []int64 {
	d.Helper()
	var numbers []int64
	for i := range n {
		id := key + "_" + string(rune('1'+i))
		d.publish(incoming(event(id, key, float64(i)), to(epA)))
		numbers = append(numbers, d.of(id)[0].Seq)
	}
	return numbers
}

// of returns the deliveries of an event.
func (d *driver) of(id string) []grapnel.Delivery {
	d.Helper()
	_, deliveries, err := d.Event(d.ctx, everyone, "", id)
	d.must(err, "Event "+id)
	return deliveries
}

func (d *driver) record(changes ...store.Change) []store.Changed {
	d.Helper()
	done, err := d.Record(d.ctx, changes)
	d.must(err, "Record")
	if len(done) != len(changes) {
		d.Fatalf("Record answered for %d of %d changes", len(done), len(changes))
	}
	return done
}

// change makes one change that must apply.
func (d *driver) change(c store.Change) store.Changed {
	d.Helper()
	done := d.record(c)[0]
	if !done.Applied {
		d.Fatalf("change of delivery %d did not apply: it is %s", c.Delivery, done.Status)
	}
	return done
}

func (d *driver) delivery(number int64) grapnel.Delivery {
	d.Helper()
	found, err := d.Delivery(d.ctx, everyone, number)
	d.must(err, "Delivery")
	return *found
}

func (d *driver) heads(endpoint string) []store.Head {
	d.Helper()
	heads, err := d.Heads(d.ctx, endpoint, math.MaxInt32)
	d.must(err, "Heads")
	return heads
}

// head returns a delivery as a Head, and whether it is its lane's head.
func (d *driver) head(number int64) (*store.Head, bool) {
	d.Helper()
	h, first, err := d.Head(d.ctx, number)
	d.must(err, "Head")
	return h, first
}

// leads fails unless exactly these deliveries are an endpoint's heads with a due time, in this
// order.
func (d *driver) leads(endpoint string, want ...int64) {
	d.Helper()
	d.same(numbersOf(d.heads(endpoint)), want, "heads of "+endpoint)
}

func numbersOf(heads []store.Head) []int64 {
	return each(heads, func(h *store.Head) int64 { return h.Delivery })
}

// each returns a value of each item.
func each[T, V any](list []T, value func(*T) V) []V {
	values := make([]V, len(list))
	for i := range list {
		values[i] = value(&list[i])
	}
	return values
}

func delivered(number int64, expect int, when float64) store.Change {
	return store.Change{
		Delivery: number, Expect: expect, At: at(when), Status: grapnel.Delivered, Reason: "delivered",
		Attempt: attempt(expect+1, when),
	}
}

// retried is a failed attempt after which the delivery is pending until due.
func retried(number int64, expect int, when, due float64) store.Change {
	return store.Change{
		Delivery: number, Expect: expect, At: at(when), Status: grapnel.Pending, Reason: "status 503",
		Due: at(due), Trigger: grapnel.TriggerSchedule, Attempt: attempt(expect+1, when),
	}
}

// by is a change by an operator, without attempt.
func by(number int64, status grapnel.Status, when float64) store.Change {
	return store.Change{Delivery: number, Expect: store.AnyAttempts, At: at(when), Status: status, Reason: "a person said so"}
}

func attempt(number int, when float64) *grapnel.Attempt {
	return &grapnel.Attempt{
		Number: number, Trigger: grapnel.TriggerSchedule, ScheduledFor: at(when - 2), StartedAt: at(when - 1),
		Duration: 120 * time.Millisecond,
		Phases: grapnel.Phases{DNS: time.Millisecond, Connect: 2 * time.Millisecond, TLS: 3 * time.Millisecond,
			FirstByte: 4 * time.Millisecond, Body: 5 * time.Millisecond, Reused: true},
		StatusCode: 503, Class: policy.ClassStatus5xx, Error: "status 503", Decision: policy.Retry, PolicyRevision: 4,
		RequestHeaders:  []grapnel.Header{{Name: "User-Agent", Value: "Grapnel/1"}, {Name: "X-Own", Value: "[redacted]"}},
		ResponseHeaders: map[string]string{"retry-after": "7"}, ResponseBody: []byte("busy\x00\xff"), NextAttemptAt: at(when + 5),
	}
}
