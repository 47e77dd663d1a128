package storetest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// The machine's calls that write events, deliveries and endpoints.

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
// idOf is the id of an event: of three, two are as the server makes them, which rise.
func idOf(n int) string {
	if n%3 == 0 {
		return fmt.Sprint("e", n)
	}
	return fmt.Sprintf("%s_%08d", grapnel.EventPrefix, n)
}

func (m *machine) batch(t *rapid.T, now time.Time, most int) store.Batch {
	b := store.Batch{Config: m.model.config.Version}
	if chance(t, "stale", 10) {
		b.Config--
	}
	for range rapid.IntRange(1, most).Draw(t, "events") {
		m.ids++
		id := idOf(m.ids)
		if chance(t, "an id that was used", 3) {
			id = idOf(rapid.IntRange(1, m.ids).Draw(t, "id"))
		}
		e := &grapnel.Event{
			ID: id, Tenant: pick(t, "tenant", m.tenants...), Type: pick(t, "type", someTypes...), Key: pick(t, "key", someKeys...),
			Data: []byte(pick(t, "data", "{}", "{}", "{}", " ")), ContentType: grapnel.JSONType, AcceptedAt: now, OccurredAt: now.Add(-time.Second),
			Source: pick(t, "source", someSources...),
		}
		in := store.Incoming{Event: e, Minted: chance(t, "minted", 2)}
		if chance(t, "not before", 6) {
			in.NotBefore = now.Add(pick(t, "later", -time.Second, time.Second, time.Minute))
		}
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
		return // a later comparison shows the difference
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

// learn pairs the row ids of a new event's deliveries: a store and the model have them in the same
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
		return 1 << 30 // the call itself never creates this row id
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
			Expect: pick(t, "expect", store.AnyAttempts, store.OfHead), Tenant: pick(t, "tenant", acme, ""),
		}
		if r := m.model.find(c.Delivery); r != nil && c.Tenant != "" {
			c.Tenant = r.Tenant // whose data key seals the reason; it ends with the tenant
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
		c.Lease, c.Lone = m.settlement(t, c.Delivery), chance(t, "lone", 2)
		if chance(t, "with standing", 4) {
			c.Standing = standing(pick(t, "endpoint", someEndpoints...), int64(rapid.IntRange(0, 20).Draw(t, "number")))
		}
		if chance(t, "with news", 4) {
			b := m.batch(t, now, 2)
			c.Operational = &b
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
		m.acceptedOf(known, got[i].Operational, want[i].Operational)
	}
	for i := range got {
		m.headOf(got[i].Next)
		if r := m.model.find(changes[i].Delivery); i < len(want) && got[i].Next == nil && r != nil && r.parted {
			want[i].Next = nil // a store may know the lane that came after by its key, or not
		}
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
		m.acceptedOf(known, got.Operational, want.Operational)
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
	with := m.with(t, 2)
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
