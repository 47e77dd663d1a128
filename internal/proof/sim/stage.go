package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/policy"
)

// newStage seeds a run. The stream keeps apart the runs of one node and of several that have the
// same seed.
func newStage(o Options, stream uint64) stage {
	random := rand.New(rand.NewPCG(o.Seed, stream))
	return stage{options: o, rand: random, agenda: agenda{rand: random}, base: time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC),
		model: memory.New(), byID: map[string]*published{}, committed: map[string][]string{}, over: map[int64]time.Duration{},
		orders: map[int64]func(error){}}
}

func (s *stage) chance(p float64) bool { return !s.healing && s.rand.Float64() < p }

// maybe is the probability of a fault: zero in half of the runs, else more often small than large.
func (s *stage) maybe() float64 {
	if s.rand.IntN(2) == 0 {
		return 0
	}
	return s.rand.Float64() * s.rand.Float64()
}

// between is a random duration.
func (s *stage) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.rand.Int64N(int64(b-a)+1))
}

// every plans something that happens with a probability at random times until all faults end.
func (s *stage) every(mean time.Duration, p float64, do func()) {
	s.agenda.in(s.between(0, 2*mean), func() {
		if !s.healing {
			if s.chance(p) {
				do()
			}
			s.every(mean, p, do)
		}
	})
}

func (s *stage) is(m Mutant) bool { return s.options.Mutant == m }

func (s *stage) trace(format string, args ...any) {
	if s.options.Trace != nil {
		s.options.Trace(s.agenda.now, fmt.Sprintf(format, args...))
	}
}

// excess notes an exceeded limit.
func (s *stage) excess(format string, args ...any) {
	s.excesses = append(s.excesses, fmt.Sprintf("%v: ", s.agenda.now)+fmt.Sprintf(format, args...))
}

// limits are the bounds of a core: at least so many slots and so many per host. Small limits make
// windows overflow and slots run out within a short history. The reserve is large in half of the
// runs, and nearly nothing in the others.
func (s *stage) limits(slots, perHost int) core.Options {
	o := core.Options{Slots: slots + s.rand.IntN(8), PerHost: perHost + s.rand.IntN(8), Bounds: core.Bounds{Window: 2 + s.rand.IntN(6),
		Horizon: s.between(time.Second, time.Minute), Poll: s.between(5*time.Second, time.Minute), Reserve: 1}}
	if o.Bounds.Window%2 == 0 {
		o.Bounds.Reserve = 4 * o.Bounds.Window
	}
	if s.options.Tiny {
		o.Bounds = bounds.Tiny[core.Bounds](s.rand.Uint64())
	}
	return o
}

// createEndpoints creates from 2 to 5 endpoints with policies of these kinds.
func (s *stage) createEndpoints(all []kind, adjust func(*grapnel.Endpoint)) (made []grapnel.Endpoint) {
	for i := range 2 + s.rand.IntN(4) {
		k := all[s.rand.IntN(len(all))]
		p, err := policy.Parse([]byte(k.json))
		if err != nil {
			panic(err)
		}
		ep := grapnel.Endpoint{ID: fmt.Sprintf("ep_%d", i), Tenant: fmt.Sprintf("t%d", i%2), Policy: p, Status: grapnel.EndpointEnabled,
			Ordering: grapnel.OrderByKey, MaxConcurrency: 1 + s.rand.IntN(4), URL: fmt.Sprintf("http://host%d.test/", s.rand.IntN(2))}
		if s.rand.IntN(5) == 0 {
			ep.Ordering = grapnel.Unordered
		}
		adjust(&ep)
		put, err := s.model.PutEndpoint(context.Background(), store.Everyone(), ep, store.With{})
		if err != nil {
			panic(err)
		}
		ep.Revision = put.Revision
		made = append(made, ep)
		k.limits.ID, k.limits.Unordered, k.limits.Timeout = ep.ID, !ep.Ordered(), 5*time.Second
		if !k.limits.Blocks {
			k.limits.Permanent = []int{404, 410}
		}
		s.history.Endpoints = append(s.history.Endpoints, k.limits)
	}
	return made
}

// event is the event as a node accepts it.
func (p *published) event(now time.Time) *grapnel.Event {
	return &grapnel.Event{ID: p.id, Tenant: p.tenant, Type: "sim.event", Key: p.key, Data: []byte("data of " + p.id),
		AcceptedAt: now, OccurredAt: now}
}

// target is what a node stores for an endpoint that gets an event.
func target(ep *grapnel.Endpoint) store.Target {
	return store.Target{Endpoint: ep.ID, Ordered: ep.Ordered(), Trigger: grapnel.TriggerSchedule,
		Delay: ep.Policy.FirstDelay(), Drop: ep.DropReason()}
}

// publishers plans the publishers' events. Each key has one publisher that waits for its answer
// before the next event, and now and then a second one that does not coordinate with it. try
// publishes an event until that has succeeded.
func (s *stage) publishers(try func(p *published, done func())) {
	var publish func(key, tenant string, events int)
	publish = func(key, tenant string, events int) {
		if events == 0 {
			return
		}
		p := &published{id: fmt.Sprintf("evt_%d", len(s.byID)), key: key, tenant: tenant}
		s.byID[p.id] = p
		if s.options.Later && s.rand.IntN(4) == 0 {
			p.notBefore = s.agenda.now + s.between(time.Second, time.Minute)
		}
		s.trying++
		try(p, func() {
			s.trying--
			if !s.healing {
				s.agenda.in(s.between(0, 20*time.Second), func() { publish(key, tenant, events-1) })
			}
		})
	}
	for k := range 1 + s.rand.IntN(6) {
		for range 1 + s.rand.IntN(5)/4 {
			key := fmt.Sprintf("k%d", k)
			if s.rand.IntN(8) == 0 {
				key = ""
			}
			s.agenda.in(s.between(0, 10*time.Second), func() { publish(key, fmt.Sprintf("t%d", k%2), 3+s.rand.IntN(12)) })
		}
	}
}

func enable(ep *grapnel.Endpoint) {
	ep.Status, ep.DisabledReason, ep.DisabledByAnswer = grapnel.EndpointEnabled, "", false
}
func pause(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused }
func disable(ep *grapnel.Endpoint) {
	ep.Status, ep.DisabledReason = grapnel.EndpointDisabled, "a person disabled it"
}

// internal is the outcome of an attempt that this process did not make or did not finish.
var internal = policy.Outcome{Class: policy.ClassInternal}

// refusal is a random answer of a receiver that refuses a request. It asks for a pause of at most
// longest. other is the answer in place of most of the 410s, which disable their endpoint.
func (s *stage) refusal(longest time.Duration, other policy.Outcome) policy.Outcome {
	switch s.rand.IntN(8) {
	case 0:
		return policy.Outcome{Status: 429, Class: policy.ClassStatus429, RetryAfter: s.between(0, longest), HasRetryAfter: true}
	case 1:
		return policy.Outcome{Status: 422, Class: policy.ClassStatus4xx}
	case 2:
		if s.rand.IntN(6) == 0 {
			return policy.Outcome{Status: 410, Class: policy.ClassStatus4xx}
		}
		return other
	case 3:
		return policy.Outcome{Status: 503, Class: policy.ClassStatus5xx, RetryAfter: s.between(0, longest), HasRetryAfter: true}
	}
	return broken
}

// wishing adds a wish to one in five answers, in runs with wishes. Most ask to stop.
func (s *stage) wishing(o policy.Outcome) policy.Outcome {
	if s.options.Wishes && s.chance(0.2) {
		if o.Wish = policy.WishStop; s.rand.IntN(8) == 0 {
			o.Wish = policy.WishDisable
		}
	}
	return o
}

// wished is the header of an answer with this outcome.
func wished(o policy.Outcome) map[string]string {
	if o.Wish == policy.WishNone {
		return nil
	}
	return map[string]string{wishHeader: string(o.Wish)}
}

const wishHeader = "Webhook-Delivery"

// broken is the answer of a receiver that has an error.
var broken = policy.Outcome{Status: 500, Class: policy.ClassStatus5xx}

func (s *stage) configuration() store.Config {
	conf, err := s.model.Config(context.Background())
	if err != nil {
		panic(err)
	}
	return conf
}

// standings are the recorded standings by endpoint.
func (s *stage) standings() map[string]store.Standing {
	all, err := s.model.Standings(context.Background())
	if err != nil {
		panic(err)
	}
	standings := make(map[string]store.Standing, len(all))
	for _, st := range all {
		standings[st.Endpoint] = st
	}
	return standings
}

func (s *stage) deliveries() []grapnel.Delivery {
	all, err := s.model.DeliveryList(context.Background(), store.Everyone(), store.DeliveryQuery{Limit: 1 << 30})
	if err != nil {
		panic(err)
	}
	return all
}

// note records the first moment at which a delivery was seen to be finished, by the harness's
// clock: the node's own clock jumps.
func (s *stage) note(seq int64) {
	if _, known := s.over[seq]; known {
		return
	}
	d, err := s.model.Delivery(context.Background(), store.Everyone(), seq)
	if err == nil && d.Status.Final() {
		s.over[seq] = s.agenda.now
	}
}

// quiet says whether every publish has succeeded and every delivery has finished.
func (s *stage) quiet() bool {
	return s.trying == 0 && !slices.ContainsFunc(s.deliveries(), func(d grapnel.Delivery) bool { return !d.Status.Final() })
}

// collect adds the final state of all deliveries, newest first, to the history. Those in gone are
// no longer stored.
func (s *stage) collect(all []grapnel.Delivery, gone map[int64]bool) {
	for i := range s.history.Publishes {
		p := &s.history.Publishes[i]
		if endpoints, ok := s.committed[p.ID]; ok {
			p.Endpoints = endpoints
		}
	}
	ids := make(map[int64]string, len(all))
	for i := range slices.Backward(all) {
		d := &all[i]
		ids[d.Seq] = d.PlainID()
		f := history.Final{Delivery: d.PlainID(), Event: d.EventID, Endpoint: d.EndpointID, Position: d.Position,
			Status: d.Status, ReasonCode: d.ReasonCode, Attempts: d.AttemptsMade, Finished: s.over[d.Seq], Purged: gone[d.Seq]}
		if d.ReplayOf != 0 {
			f.ReplayOf = ids[d.ReplayOf]
		}
		s.history.Finals = append(s.history.Finals, f)
	}
	slices.SortStableFunc(s.history.Receipts, func(a, b history.Receipt) int { return int(a.Start - b.Start) })
	if off, err := s.model.Imbalance(context.Background()); off != 0 || err != nil {
		s.excess("the books are off by %d, %v", off, err)
	}
}
