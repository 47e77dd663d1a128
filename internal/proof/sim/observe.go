package sim

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// observed records when deliveries end.
type observed struct {
	store.Store
	w *world
}

func (o *observed) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	results, err := o.Store.Record(ctx, changes)
	for i := range changes {
		o.w.note(changes[i].Delivery)
		if st := changes[i].Standing; st != nil && !st.SentencedAt.IsZero() {
			o.w.receiver(st.Endpoint).watch.judged = st.SentencedAt.Sub(o.w.base)
		}
		if err == nil && results[i].Applied && changes[i].Attempt != nil {
			if d, err := o.w.model.Delivery(ctx, store.Everyone(), changes[i].Delivery); err == nil {
				o.w.receiver(d.EndpointID).recorded(changes[i].Attempt)
			}
		}
	}
	return results, err
}

func (o *observed) End(ctx context.Context, endpoint string, e store.Ending, limit int) (int, error) {
	var waiting []int64
	for _, d := range o.w.deliveries() {
		if d.EndpointID == endpoint && !d.Status.Final() {
			waiting = append(waiting, d.Seq)
		}
	}
	n, err := o.Store.End(ctx, endpoint, e, limit)
	for _, seq := range waiting {
		o.w.note(seq)
	}
	return n, err
}

func newWorld(o Options) *world {
	w := &world{stage: newStage(o, 0x6772_6170_6e65_6c)}
	w.store = &observed{Store: w.mutate(&memory.Faulty{Store: w.model, Injure: w.injure}), w: w}
	w.plan = plan{
		crash: w.maybe(), storeError: w.maybe() / 4, storeUnknown: w.maybe() / 4, stall: w.maybe() / 8,
		hintLost: w.maybe(), hintDouble: w.maybe(), hintLate: w.maybe(), loadLate: w.maybe(),
		receiverDown: w.maybe(), receiverSlow: w.maybe(), answerLost: w.maybe() / 2, poison: w.maybe() / 4,
		clockJump: w.maybe(), operator: w.maybe(), cleanStop: w.maybe(),
	}
	if o.Back {
		w.plan.back = (1 + w.rand.Float64()) / 2
	}
	w.history.Limits = history.Limits{Commit: 30 * time.Second, Transit: 50 * time.Millisecond}
	return w
}
