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
	"github.com/grapnelhq/grapnel/policy"
)

// machine makes random calls of a store and of the model and compares every answer. The names are
// few, so that calls meet.
//
// The model counts from 1 without gaps, a store need not: events, deliveries and entries translate
// the store's numbers to the model's.
type machine struct {
	*desk
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
	return -ofStore // a number that was never announced
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

// histories sets how many histories rapid plays, which it only takes from a flag.
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

func runModel(t *testing.T, h Harness) {
	histories(t, h.Histories)
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{
			desk:  &desk{TB: rt, Store: h.Open(t), test: t, harness: h, ctx: rt.Context()},
			model: &model{made: map[int64]int{}, answers: map[string]kept{}, gone: map[int64]bool{}, goneEvents: map[int64]bool{}},
			now:   at(0), events: newNumbers(), deliveries: newNumbers(), entries: newNumbers(),
			owners: map[string]string{epA: acme, epB: acme, epX: bolt}, tenants: someTenants, actors: []string{"", acme, bolt},
		}
		rt.Cleanup(func() {
			if err := m.Store.Close(); err != nil {
				rt.Errorf("Close: %v", err)
			}
		})
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

// actions are all that the machine does of its own.
func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"publish": m.publishes, "publish more": m.publishes, "record": m.records, "record more": m.records, "end": m.ends,
		"again": m.redelivers, "configure": m.configures, "remove": m.removes, "answers": m.answers, "query": m.queries,
		"compare": m.compare, "hasten": m.hastens, "note": m.notes, "journal": m.journals,
		"purge": m.purges, "annotate": m.annotates, "totals": m.totals,
		"order replay": m.ordersReplay, "advance replay": m.advancesReplay, "look for candidates": m.looksForCandidates,
		"claim": m.claims, "claim more": m.claims, "extend": m.extends, "give up": m.givesUp,
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
	return &store.Once{
		Key: m.caller + pick(t, "idempotency key", "i1", "i2"), Fingerprint: [32]byte{pick(t, "fingerprint", byte(1), 1, 2)},
		Now: m.now, Expires: m.now.Add(time.Minute), Answer: func(any) store.Answer { return store.Answer{Status: 202, Body: []byte(body)} },
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

func (m *machine) publishes(t *rapid.T) {
	now := m.tick(t)
	b := m.batch(t, now, 4)
	b.Once = m.once(t)
	known := len(m.model.events)
	want, wantErr := m.model.append(b)
	got, err := m.Append(m.ctx, b)
	if err == nil {
		m.acceptedOf(known, &got, &want)
	}
	m.agree(got, want, err, wantErr, "Append")
}

// batch draws events with their targets, now and then with an outdated configuration version.
func (m *machine) batch(t *rapid.T, now time.Time, most int) store.Batch {
	b := store.Batch{Config: m.model.config.Version}
	if chance(t, "stale", 10) {
		b.Config--
	}
	for range rapid.IntRange(1, most).Draw(t, "events") {
		m.ids++
		id := fmt.Sprint("e", m.ids)
		if chance(t, "an id that was used", 3) {
			id = fmt.Sprint("e", rapid.IntRange(1, m.ids).Draw(t, "id"))
		}
		e := &grapnel.Event{
			ID: id, Tenant: pick(t, "tenant", m.tenants...), Type: pick(t, "type", someTypes...), Key: pick(t, "key", someKeys...),
			Data: []byte(pick(t, "data", "{}", "{}", "{}", " ")), ContentType: grapnel.JSONType, AcceptedAt: now, OccurredAt: now.Add(-time.Second),
			Source: pick(t, "source", someSources...),
		}
		in := store.Incoming{Event: e}
		for _, ep := range someEndpoints {
			if m.owners[ep] != e.Tenant || chance(t, "not for "+ep, 4) {
				continue
			}
			target := store.Target{Endpoint: ep, Ordered: !chance(t, "unordered", 4), Trigger: pick(t, "trigger", grapnel.TriggerSchedule,
				grapnel.TriggerTest)}
			if chance(t, "dropped", 6) {
				target.Drop, target.Uncounted = "dropped", chance(t, "uncounted", 4)
			} else {
				target.Delay = pick(t, "delay", 0, 0, time.Second)
			}
			in.Targets = append(in.Targets, target)
		}
		b.Events = append(b.Events, in)
	}
	return b
}

// acceptedOf pairs the row ids of new events and deliveries, and translates the store's answer.
// known is the model's number of events before.
func (m *machine) acceptedOf(known int, got, want *store.Accepted) {
	m.Helper()
	if got == nil || want == nil || len(got.Events) != len(want.Events) {
		return // which will show
	}
	for i, placed := range want.Events {
		if placed.Seq > int64(known) && !placed.Duplicate {
			m.events.pair(got.Events[i].Seq, placed.Seq)
			m.learn(m.model.events[placed.Seq-1])
		}
		got.Events[i].Seq = m.events.model(got.Events[i].Seq)
	}
	for i := range got.Heads {
		m.headOf(&got.Heads[i])
	}
}

// learn pairs the numbers of a new event's deliveries: those of a store and the model have the same
// order.
func (m *machine) learn(e *grapnel.Event) {
	m.Helper()
	_, got, err := m.Event(m.ctx, everyone, e.Tenant, e.ID)
	m.must(err, "Event "+e.ID)
	i := 0
	for _, r := range m.model.rows {
		if r.EventSeq == e.Seq && !m.model.gone[r.Seq] && i < len(got) {
			m.deliveries.pair(got[i].Seq, r.Seq)
			i++
		}
	}
	m.same(len(got), m.model.made[e.Seq], "deliveries of "+e.ID)
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

// some draws the model's row id of a delivery, now and then one that does not exist. It prefers
// pending deliveries.
func (m *machine) some(t *rapid.T) int64 {
	var pending []int64
	for _, r := range m.model.rows {
		if r.Status == grapnel.Pending {
			pending = append(pending, r.Seq)
		}
	}
	if len(pending) > 0 && !chance(t, "any delivery", 4) {
		return pick(t, "pending delivery", pending...)
	}
	number := rapid.IntRange(0, len(m.model.rows)+1).Draw(t, "delivery")
	if number > len(m.model.rows) {
		return 1 << 30 // which the call itself will not make either
	}
	return int64(number)
}

func (m *machine) records(t *rapid.T) {
	now := m.tick(t)
	var changes, translated []store.Change
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		c := store.Change{
			Delivery: m.some(t), At: now, Status: pick(t, "status", append(finals(), grapnel.Pending, grapnel.Pending, grapnel.Pending)...),
			Reason: fmt.Sprint("reason ", rapid.IntRange(1, 3).Draw(t, "reason")), ReasonCode: pick(t, "code", grapnel.ReasonNone,
				grapnel.ReasonExhausted),
			Due: now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "due")) * time.Second), Blocked: chance(t, "blocked", 4),
			Trigger: pick(t, "trigger", grapnel.TriggerSchedule, grapnel.TriggerManual), NextDelay: pick(t, "next delay", 0, 0, time.Second),
			Expect: store.AnyAttempts,
		}
		if r := m.model.find(c.Delivery); r != nil && !chance(t, "any attempts", 4) {
			c.Expect = r.AttemptsMade
			if chance(t, "wrong attempts", 6) {
				c.Expect++
			}
		}
		if !chance(t, "no attempt", 3) {
			c.Attempt = attempt(1+max(c.Expect, 0), now.Sub(at(0)).Seconds())
			switch pick(t, "answer", 503, 0, 200) {
			case 0:
				c.Attempt.StatusCode, c.Attempt.Class = 0, policy.ClassTimeout
			case 200:
				c.Attempt.StatusCode, c.Attempt.Class = 200, policy.ClassNone
			}
			c.Anchor = pick(t, "anchor", time.Time{}, now)
		}
		c.EndpointWide, c.Uncounted = chance(t, "endpoint-wide", 2), chance(t, "uncounted", 6)
		c.Lease = m.settlement(t, c.Delivery)
		if chance(t, "with standing", 4) {
			c.Standing = standing(pick(t, "endpoint", someEndpoints...), int64(rapid.IntRange(0, 20).Draw(t, "number")))
		}
		if chance(t, "with news", 4) {
			b := m.batch(t, now, 2)
			c.Tell = &b
		}
		if chance(t, "with entry", 4) {
			c.Audit = m.entry(t)
		}
		changes = append(changes, c)
		c.Delivery = m.deliveries.store(c.Delivery)
		translated = append(translated, c)
	}
	known := len(m.model.events)
	want, wantErr := m.model.record(changes)
	got, err := m.Record(m.ctx, translated)
	for i := range min(len(got), len(want)) {
		m.acceptedOf(known, got[i].Told, want[i].Told)
	}
	for i := range got {
		m.headOf(got[i].Next)
	}
	m.agree(got, want, err, wantErr, "Record")
	for _, c := range changes {
		m.show(everyone, c.Delivery)
	}
}

func (m *machine) ends(t *rapid.T) {
	e := store.Ending{Status: pick(t, "status", finals()...), Reason: "ended", ReasonCode: grapnel.ReasonEndpointGone, At: m.tick(t),
		Uncounted: chance(t, "uncounted", 4)}
	endpoint, limit := pick(t, "endpoint", someEndpoints...), rapid.IntRange(0, 6).Draw(t, "limit")
	want := m.model.end(endpoint, e, limit)
	got, err := m.End(m.ctx, endpoint, e, limit)
	m.agree(got, want, err, nil, "End")
}

func (m *machine) redelivers(t *rapid.T) {
	r := store.Redelivery{Of: m.some(t), Trigger: grapnel.TriggerReplay, Ordered: !chance(t, "unordered", 4),
		Delay: pick(t, "delay", 0, time.Second), At: m.tick(t), Once: m.once(t)}
	if chance(t, "with entry", 2) {
		r.Audit = m.entry(t)
	}
	scope := pick(t, "scope", append([]store.Scope{everyone, everyone, everyone}, someScopes...)...)
	want, wantErr := m.model.again(scope, r)
	r.Of = m.deliveries.store(r.Of)
	got, err := m.Again(m.ctx, scope, r)
	if err == nil && got.Answer == nil {
		m.deliveries.pair(got.Delivery, want.Delivery)
		got.Delivery = want.Delivery
		m.headOf(got.Head)
	}
	m.agree(got, want, err, wantErr, "Again")
}

func (m *machine) putEndpoint(scope store.Scope, ep grapnel.Endpoint, with store.With) {
	m.Helper()
	known := len(m.model.events)
	want, wantErr := m.model.putEndpoint(scope, ep, with)
	got, err := m.PutEndpoint(m.ctx, scope, ep, with)
	if err == nil && wantErr == nil && want.Answer == nil {
		m.acceptedOf(known, got.Told, want.Told)
		if got.Version <= want.Version-1 {
			m.Fatalf("PutEndpoint: version %d after %d", got.Version, want.Version-1)
		}
		want.Version, m.model.config.Version = got.Version, got.Version
	}
	m.agree(got, want, err, wantErr, "PutEndpoint")
}

func (m *machine) configures(t *rapid.T) {
	id := pick(t, "endpoint", someEndpoints...)
	ep := endpoint(id, m.owners[id])
	ep.UpdatedAt, ep.Description = m.tick(t), fmt.Sprint("as of ", m.now)
	for _, other := range m.model.config.Endpoints {
		if other.ID == id && !chance(t, "another revision", 5) {
			ep.Revision = other.Revision
		}
	}
	if chance(t, "deleted", 6) {
		ep.DeletedAt = m.now
	}
	with := store.With{Once: m.once(t)}
	if chance(t, "with news", 2) {
		b := m.batch(t, m.now, 2)
		with.Tell = &b
	}
	if chance(t, "with entry", 2) {
		with.Audit = m.entry(t)
	}
	m.putEndpoint(pick(t, "scope", append([]store.Scope{everyone, everyone}, someScopes...)...), ep, with)
}

func (m *machine) removes(t *rapid.T) {
	id := pick(t, "endpoint", someEndpoints...)
	before := m.model.config.Version
	wantErr := m.model.removeEndpoint(id)
	err := m.RemoveEndpoint(m.ctx, id)
	m.agree(nil, nil, err, wantErr, "RemoveEndpoint")
	if err == nil {
		m.model.config.Version = m.grown(before, "RemoveEndpoint")
	}
}
