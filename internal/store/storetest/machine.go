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
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
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

func runModel(t *testing.T, h Harness) {
	histories(t, h.Histories)
	rapidtest.Check(t, func(rt *rapid.T) {
		m := newMachine(rt, t, h)
		m.owners, m.tenants, m.actors = map[string]string{epA: acme, epB: acme, epX: bolt}, someTenants, []string{"", acme, bolt}
		m.model.config.Version = m.config().Version
		for _, ep := range []grapnel.Endpoint{endpoint(epA, acme), endpoint(epB, acme), endpoint(epX, bolt)} {
			m.putEndpoint(everyone, ep, store.With{})
		}
		actions := m.actions()
		if h.Reopen != nil {
			actions["reopen"] = func(*rapid.T) { m.reopen() }
		}
		rt.Repeat(actions)
		m.compare(rt)
		m.sound()
		m.blind(store.Scope{}, "zero scope")
		m.blind(store.Of("stranger"), "stranger")
	})
}

// actions are all actions of the machine.
func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"publish": m.publishes, "publish more": m.publishes, "record": m.records, "record more": m.records, "end": m.ends,
		"again": m.redelivers, "configure": m.configures, "remove": m.removes, "answers": m.answers, "query": m.queries,
		"compare": m.compare, "makeDue": m.makesDue, "note": m.notes, "journal": m.journals,
		"purge": m.purges, "annotate": m.annotates, "totals": m.totals,
		"order replay": m.ordersReplay, "advance replay": m.advancesReplay, "look for candidates": m.looksForCandidates,
		"claim": m.claims, "claim more": m.claims, "extend": m.extends, "give up": m.givesUp,
		"documents": m.writesDocuments, "more documents": m.writesDocuments, "clear documents": m.clearsDocuments,
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

// with draws the parts of a write besides its object: in one of newsOneIn writes there are news.
func (m *machine) with(t *rapid.T, newsOneIn int) store.With {
	with := store.With{Once: m.once(t)}
	if chance(t, "with news", newsOneIn) {
		b := m.batch(t, m.now, 2)
		with.Operational = &b
	}
	if chance(t, "with entry", 2) {
		with.Audit = m.entry(t)
	}
	return with
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
