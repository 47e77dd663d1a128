package storetest

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// machine makes random calls of a store and of the model and compares every answer. There are few
// names, so that calls affect the same objects.
//
// The model's row ids are 1, 2, 3 … without gaps. A store's need not be, so events, deliveries and
// entries translate them to the model's.
type machine struct {
	*driver
	model      *model
	now        time.Time
	ids        int
	events     numbers
	deliveries numbers
	entries    numbers

	owners  map[string]string // of endpoints
	tenants []string          // tenants of published events
	actors  []string          // actors of audit entries
	caller  string            // prefix of idempotency keys
	onces   time.Duration     // how many idempotency keys were drawn
}

// numbers translates row ids between a store and the model. 0 stays 0; an id that does not exist in
// one does not exist in the other.
type numbers struct{ toModel, toStore map[int64]int64 }

func newNumbers() numbers { return numbers{map[int64]int64{}, map[int64]int64{}} }

func (n numbers) pair(ofStore, ofModel int64) {
	n.toModel[ofStore], n.toStore[ofModel] = ofModel, ofStore
}

func (n numbers) model(ofStore int64) int64 {
	if m, there := n.toModel[ofStore]; there || ofStore == 0 {
		return m
	}
	return -ofStore // a row id that no answer has contained
}

func (n numbers) store(ofModel int64) int64 {
	if s, there := n.toStore[ofModel]; there || ofModel == 0 {
		return s
	}
	return 1<<40 + ofModel
}

var (
	someEndpoints = []string{epA, epB, epX}
	someTenants   = []string{acme, acme, acme, bolt}
	someKeys      = []string{"", "k", "l"}
	someTypes     = []string{"invoice.paid", "invoice.line.added", "user"}
	someSources   = []string{"", "", "src_1", "src_2"}
	somePatterns  = []string{"", "*", "invoice.*", "user", "*.added"}
	someScopes    = []store.Scope{everyone, store.Of(acme), store.Of(bolt), store.Of("stranger"), {}}
)

// histories sets the number of histories. rapid takes it only from a flag.
func histories(t *testing.T, n int) {
	t.Helper()
	if os.Getenv("GRAPNEL_SOAK") != "" {
		n = 300
	}
	checks := flag.Lookup("rapid.checks")
	if n == 0 || checks.Value.String() != checks.DefValue {
		return
	}
	set := func(value string) {
		if err := checks.Value.Set(value); err != nil {
			t.Fatal(err)
		}
	}
	set(strconv.Itoa(n))
	t.Cleanup(func() { set(checks.DefValue) })
}

// newMachine opens a store for a random history, and makes its model. Nothing is drawn yet.
func newMachine(rt *rapid.T, t *testing.T, h Harness) *machine {
	return &machine{
		driver: openDriver(rt, t, h),
		model:  &model{made: map[int64]int{}, answers: map[string]kept{}, gone: map[int64]bool{}, goneEvents: map[int64]bool{}},
		now:    at(0), events: newNumbers(), deliveries: newNumbers(), entries: newNumbers(),
	}
}

// pick draws one of a few.
func pick[T any](t *rapid.T, what string, of ...T) T { return rapid.SampledFrom(of).Draw(t, what) }

func chance(t *rapid.T, what string, oneIn int) bool {
	return rapid.IntRange(1, oneIn).Draw(t, what) == oneIn
}

// tick lets some time pass; now and then the clock jumps back.
func (m *machine) tick(t *rapid.T) time.Time {
	m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 1, 2, 5, 60, -30}).Draw(t, "seconds")) * time.Second)
	return m.now
}

// once draws an idempotency key, or none. Model and store compute the same answer: it contains the
// model's counts of events or deliveries, and no row ids.
func (m *machine) once(t *rapid.T) *store.Once {
	if !chance(t, "with idempotency key", 4) {
		return nil
	}
	body := fmt.Sprint("answer ", len(m.model.events), len(m.model.rows), m.model.config.Version)
	m.onces++ // no two answers expire at the same time, so Forget has one order
	return &store.Once{
		Key: m.caller + pick(t, "idempotency key", "i1", "i2"), Fingerprint: [32]byte{pick(t, "fingerprint", byte(1), 1, 2)},
		Now: m.now, Expires: m.now.Add(time.Minute + m.onces*time.Microsecond),
		Answer: func(any) store.Answer { return store.Answer{Status: 202, Body: []byte(body)} },
	}
}

// agree compares an answer and the code of an error.
func (m *machine) agree(got, want any, err, wantErr error, what string) {
	m.Helper()
	if code(err) != code(wantErr) || (err == nil) != (wantErr == nil) {
		m.Fatalf("%s: got error %v, want %v", what, err, wantErr)
	}
	if err == nil {
		m.same(got, want, what)
	}
}

// show compares one delivery and its head.
func (m *machine) show(scope store.Scope, number int64) {
	m.Helper()
	r := m.model.find(number)
	got, err := m.Delivery(m.ctx, scope, m.deliveries.store(number))
	if r == nil || !scope.Allows(r.Tenant) {
		m.agree(nil, nil, err, store.ErrNotFound("delivery"), "Delivery")
		return
	}
	m.must(err, "Delivery")
	m.deliveryOf(got)
	m.same(*got, r.shown(), "Delivery")
	h, first, err := m.Head(m.ctx, m.deliveries.store(number))
	m.must(err, "Head")
	m.headOf(h)
	m.same(first, r.Waiting.Head, "whether it leads")
	if r.Status != grapnel.Pending {
		m.same(h, (*store.Head)(nil), "place")
		return
	}
	want := r.head()
	m.same(h, &want, "place")
}

func (m *machine) headOf(h *store.Head) {
	if h != nil {
		h.Delivery, h.Event = m.deliveries.model(h.Delivery), m.events.model(h.Event)
	}
}

func (m *machine) deliveryOf(d *grapnel.Delivery) {
	d.Seq, d.EventSeq, d.ReplayOf = m.deliveries.model(d.Seq), m.events.model(d.EventSeq), m.deliveries.model(d.ReplayOf)
	d.Mark.ReplayedAs = m.deliveries.model(d.Mark.ReplayedAs)
}
