package sim

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The mutants: each is a mistake that a shell or a store can make.
const (
	None                Mutant = ""
	AcknowledgesEarly   Mutant = "answers a publish before it is durable"
	LosesATarget        Mutant = "commits an event with one delivery too few"
	ForgetsTheLane      Mutant = "hands out deliveries that wait behind their lane's head"
	SendsTwice          Mutant = "sends a request twice"
	ChangesBytes        Mutant = "changes the payload"
	CallsFailureSuccess Mutant = "takes a 5xx for success"
	RetriesTooSoon      Mutant = "shortens the wait before a retry"
	GivesUp             Mutant = "ends a delivery that still has attempts"
	LosesOutcomes       Mutant = "says an outcome is recorded when it is not"
)

// Mutants lists the mutants of one node.
func Mutants() []Mutant {
	return []Mutant{AcknowledgesEarly, LosesATarget, ForgetsTheLane, SendsTwice, ChangesBytes, CallsFailureSuccess, RetriesTooSoon,
		GivesUp, LosesOutcomes}
}

// The mutants of a history of several nodes: each leaves out a rule by which they share a store.
const (
	IgnoresEpochs       Mutant = "writes decisions of an earlier epoch"
	GivesBackAtOnce     Mutant = "gives shards back while something of them is under way"
	HasNoDeadline       Mutant = "continues until it learns that its lease has expired"
	CountsFromTheAnswer Mutant = "counts a lease from the answer and not from the question"
	ForgetsStandings    Mutant = "takes an endpoint over without its standing"
	ForgetsNewest       Mutant = "takes an endpoint over without what was the newest then"
	ReadsTooEarly       Mutant = "reads heads before it owns them"
	AnswersUnconfirmed  Mutant = "answers a change before every node knows it"
	RenewsUninformed    Mutant = "renews leases without having read the configuration"
	ForgetsSuspension   Mutant = "counts leases by a clock that stands still while the machine is suspended"
)

// ClusterMutants lists the mutants of several nodes.
func ClusterMutants() []Mutant {
	return []Mutant{IgnoresEpochs, GivesBackAtOnce, HasNoDeadline, CountsFromTheAnswer, ForgetsStandings, ForgetsNewest, ReadsTooEarly,
		AnswersUnconfirmed, RenewsUninformed, ForgetsSuspension}
}

// The mutants of a history in which the store goes back: state remembered by row id is applied to
// the delivery that has the row id now.
const (
	SendsByNumber   Mutant = "sends the event that had the number before"
	RecordsByNumber Mutant = "records an outcome for whatever has the row id now"
)

// BackMutants lists the mutants of a store that goes back.
func BackMutants() []Mutant { return []Mutant{SendsByNumber, RecordsByNumber} }

// DeliversAtOnce is the mutant of a history with deliveries for later.
const DeliversAtOnce Mutant = "commits an event for later without its time"

// mutate puts the run's mutant between the node and its store.
func (w *world) mutate(s store.Store) store.Store {
	if w.options.Mutant == None {
		return s
	}
	return &mutated{Store: s, w: w}
}

type mutated struct {
	store.Store
	w *world
}

func (m *mutated) is(k Mutant, oneIn int) bool {
	return m.w.options.Mutant == k && m.w.rand.IntN(oneIn) == 0
}

func (m *mutated) Append(ctx context.Context, b store.Batch) (store.Accepted, error) {
	if m.is(DeliversAtOnce, 10) {
		b.Events[0].NotBefore = time.Time{}
	}
	if t := b.Events[0].Targets; len(t) > 1 && m.is(LosesATarget, 10) {
		b.Events[0].Targets = t[1:]
	}
	return m.Store.Append(ctx, b)
}

func (m *mutated) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	for i := range changes {
		c := &changes[i]
		switch {
		case c.Delivery != 0 && c.Identity.Event == 0:
			m.w.excess("a change of delivery %d does not say which one that is", c.Delivery)
		case m.w.options.Mutant == RecordsByNumber:
			c.Identity = store.Identity{}
		case c.Status == grapnel.Pending && !c.Blocked && m.is(RetriesTooSoon, 5):
			c.Due = c.At.Add(c.Due.Sub(c.At) / 4)
		case c.Status == grapnel.Pending && !c.Blocked && c.Attempt != nil && m.is(GivesUp, 10):
			c.Status, c.ReasonCode = grapnel.Failed, grapnel.ReasonExhausted
		case c.Status == grapnel.Delivered && m.is(LosesOutcomes, 10):
			*c = store.Change{Delivery: c.Delivery, Expect: c.Expect, At: c.At, Status: grapnel.Pending, Due: c.At.Add(time.Second)}
		}
	}
	return m.Store.Record(ctx, changes)
}

func (m *mutated) Heads(ctx context.Context, endpoint string, limit int) ([]store.Head, error) {
	heads, err := m.Store.Heads(ctx, endpoint, limit)
	if err != nil || m.w.options.Mutant != ForgetsTheLane {
		return heads, err
	}
	all, err := m.Store.DeliveryList(ctx, store.Everyone(), store.DeliveryQuery{Endpoint: endpoint, Limit: 1000})
	for _, d := range all {
		if !d.Status.Final() && !d.Waiting.Head {
			heads = append(heads, store.Head{Delivery: d.Seq, Event: d.EventSeq, Endpoint: endpoint, Lane: d.Key, Position: d.Position,
				Due: d.CreatedAt, Anchor: d.CreatedAt, Trigger: grapnel.TriggerSchedule, CreatedAt: d.CreatedAt, Attempts: d.AttemptsMade})
		}
	}
	return heads, err
}
