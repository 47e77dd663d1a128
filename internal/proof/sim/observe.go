package sim

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store"
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
