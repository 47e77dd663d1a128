package storetest

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

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

func endpoint(id, tenant string) grapnel.Endpoint {
	p, _ := policy.Preset("standard")
	return grapnel.Endpoint{
		ID: id, Tenant: tenant, URL: "https://example.com/" + id, EventTypes: []string{"invoice.*"}, PolicyName: "standard", Policy: p,
		Ordering: grapnel.OrderByKey, RateLimit: &grapnel.RateLimit{PerSecond: 12.5, Burst: 3}, MaxConcurrency: 7,
		Headers: map[string]string{"x-team": tenant}, Format: grapnel.FormatStandard, Method: "PUT",
		OAuth2: &grapnel.OAuth2{TokenURL: "https://example.com/token", ClientID: "me", ClientSecret: grapnel.Secret{Text: "c", CreatedAt: at(-8)},
			Scopes: []string{"hooks"}, Audience: "all"},
		TLS: &grapnel.TLS{CA: "ca", ClientCert: "cert", ClientKey: grapnel.Secret{Text: "k", CreatedAt: at(-7)}},
		Target: &grapnel.Target{Kind: "kafka", Address: "kafka://example.com", Name: "events", Username: "me",
			Password: grapnel.Secret{Text: "w", CreatedAt: at(-5)}, Options: map[string]string{"sasl": "plain"}},
		Proxy:   grapnel.Secret{Text: "http://me:p@proxy.example.com:3128", CreatedAt: at(-6)},
		Secrets: []grapnel.Secret{{Text: "whsec_bm90IGEgc2VjcmV0", CreatedAt: at(-10), ExpiresAt: at(1000)}},
		Consent: &grapnel.Consent{Since: at(-5), Asked: 2, AskedAt: at(-4), Next: at(60), Cause: "it answered 404", GivenAt: at(-3)},
		Status:  grapnel.EndpointEnabled, CreatedAt: at(-10), UpdatedAt: at(-9),
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

func (d *driver) put(ep grapnel.Endpoint) store.Put {
	d.Helper()
	p, err := d.PutEndpoint(d.ctx, store.Of(ep.Tenant), ep, store.With{})
	d.must(err, "PutEndpoint")
	return p
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

// redeliver makes a delivery once more, in its lane.
func (d *driver) redeliver(of int64, when float64) store.Redelivered {
	d.Helper()
	done, err := d.Again(d.ctx, store.Of(acme), store.Redelivery{Of: of, Trigger: grapnel.TriggerReplay, Ordered: true, At: at(when)})
	d.must(err, "Again")
	return done
}

func document(tenant, kind, id string, revision int64, when float64) store.DocumentWrite {
	return store.DocumentWrite{Document: store.Document{Tenant: tenant, Kind: kind, ID: id, Revision: revision, At: at(when),
		Body: fmt.Appendf(nil, `{"revision":%d}`+"\x00\xff", revision+1)}}
}

// documents returns all documents of a kind.
func (d *driver) documents(kind string) []store.Document {
	d.Helper()
	list, err := d.DocumentList(d.ctx, everyone, store.DocumentQuery{Kind: kind, Limit: math.MaxInt32})
	d.must(err, "DocumentList")
	return list
}

// list returns the deliveries that a query selects, without limit unless it has one.
func (d *driver) list(q store.DeliveryQuery) []grapnel.Delivery {
	d.Helper()
	if q.Limit == 0 {
		q.Limit = math.MaxInt32
	}
	list, err := d.DeliveryList(d.ctx, everyone, q)
	d.must(err, "DeliveryList")
	return list
}

func (d *driver) leases(queue string) []grapnel.Lease {
	d.Helper()
	list, err := d.LeaseList(d.ctx, queue, math.MaxInt32)
	d.must(err, "LeaseList")
	for _, l := range list {
		found, err := d.Lease(d.ctx, l.Token)
		d.must(err, "Lease")
		d.same(found, l, "a lease, by its token")
	}
	return list
}

func (d *driver) counts(queue string, when float64) grapnel.QueueCounts {
	d.Helper()
	n, err := d.QueueCounts(d.ctx, queue, at(when))
	d.must(err, "QueueCounts")
	return n
}

func (d *driver) waiting(endpoint string) int {
	d.Helper()
	n, err := d.Waiting(d.ctx, endpoint, 1000)
	d.must(err, "Waiting")
	return n
}

func (d *driver) recall(key string, now float64) *store.Answer {
	d.Helper()
	a, err := d.Recall(d.ctx, key, at(now))
	d.must(err, "Recall")
	return a
}

// reopen restarts the store, or skips the test if its harness cannot.
func (d *driver) reopen() {
	d.Helper()
	if d.harness.Reopen == nil {
		d.Skip("this store does not outlive its process")
	}
	d.Store = d.harness.Reopen(d.test, d.Store)
}

// replays lists all that match.
func (d *driver) replays(q store.ReplayQuery) []grapnel.Replay {
	d.Helper()
	q.Limit = math.MaxInt32
	list, err := d.ReplayList(d.ctx, everyone, q)
	d.must(err, "ReplayList")
	return list
}

func (d *driver) items(id string) []grapnel.ReplayItem {
	d.Helper()
	list, err := d.ReplayItems(d.ctx, everyone, id, 0, math.MaxInt32)
	d.must(err, "ReplayItems")
	return list
}

// replayOf is a replay, created some seconds after the start, of endpoint a's deliveries that
// finished in some statuses.
func replayOf(id string, when float64, status ...grapnel.Status) grapnel.Replay {
	return grapnel.Replay{ID: id, Tenant: acme, Endpoint: epA, Selection: grapnel.Selection{Status: status, Types: []string{"*"}}, Rate: 2.5,
		StopAfter: 3, Status: grapnel.ReplayRunning, Total: 7, CreatedAt: at(when), UpdatedAt: at(when), Actor: "key_1"}
}

// order creates or changes a replay and returns its new state.
func (d *driver) order(r grapnel.Replay) grapnel.Replay {
	d.Helper()
	_, err := d.PutReplay(d.ctx, store.Of(r.Tenant), r, store.With{})
	d.must(err, "PutReplay")
	return d.replayed(r.ID)
}

func (d *driver) replayed(id string) grapnel.Replay {
	d.Helper()
	r, err := d.Replay(d.ctx, everyone, id)
	d.must(err, "Replay")
	return r
}

// dead publishes n events of one key to endpoint a and lets their deliveries fail.
func (d *driver) dead(key string, n int) []int64 {
	d.Helper()
	numbers := d.lane(key, n)
	for i, number := range numbers {
		d.change(by(number, grapnel.Failed, float64(20+i)))
	}
	return numbers
}

func seqs(list []grapnel.Delivery) []int64 {
	return each(list, func(x *grapnel.Delivery) int64 { return x.Seq })
}

// step makes the next deliveries of a replay and returns their row ids.
func (d *driver) step(r grapnel.Replay, of ...int64) (made []int64) {
	d.Helper()
	done, err := d.Advance(d.ctx, stepOver(r, of...))
	d.must(err, "Advance")
	if len(done) != len(of) {
		d.Fatalf("Advance answered for %d of %d", len(done), len(of))
	}
	for _, one := range done {
		made = append(made, one.Delivery)
	}
	return made
}
