package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// RetryAll attempts now what an endpoint's deliveries wait for: the heads that are due later or
// blocked, and whose delivery the selection wants. The deliveries behind a head follow in order.
// Each is a manual attempt, within the endpoint's limits. A head that is due already is left as it
// is, so a repetition changes nothing; so is one whose publisher has asked for a later time. more says that the bound was reached.
func (o *orders) RetryAll(ctx context.Context, scope store.Scope, endpoint string, s *grapnel.Selection, by grapnel.By) (
	retried int, more bool, err error) {
	ep := o.book.Snapshot().Endpoint(scope, endpoint)
	if ep == nil {
		return 0, false, store.ErrNotFound("endpoint")
	}
	if ep.Status != grapnel.EndpointEnabled {
		return 0, false, grapnel.Errorf(grapnel.CodeConflict, "the endpoint is %s: no attempt can be made", ep.Status)
	}
	waiting, more, err := o.late(ctx, ep.ID, s)
	if err != nil {
		return 0, false, err
	}
	var turn, done atomic.Int64
	var once sync.Once
	var work sync.WaitGroup
	for range min(o.bounds.RetriedAtOnce, len(waiting)) {
		work.Go(func() {
			for i := int(turn.Add(1)) - 1; i < len(waiting); i = int(turn.Add(1)) - 1 {
				d := waiting[i]
				switch e := o.order(ctx, store.Order{Verb: store.RetryNow, Endpoint: ep.ID, Delivery: d.Seq, Event: d.EventSeq,
					Created: d.CreatedAt, Audit: o.entry(grapnel.VerbRetry, d, by)}); {
				case e == nil:
					done.Add(1)
				case grapnel.CodeOf(e) != grapnel.CodeConflict && grapnel.CodeOf(e) != grapnel.CodeNotFound: // else it has ended meanwhile
					once.Do(func() { err = e })
					return
				}
			}
		})
	}
	work.Wait()
	return int(done.Load()), more, err
}

// late reads the heads of an endpoint that are due later or blocked, and that a selection wants.
func (o *orders) late(ctx context.Context, endpoint string, s *grapnel.Selection) (found []*grapnel.Delivery, more bool, err error) {
	heads, err := o.store.Heads(ctx, endpoint, o.bounds.RetryHeads)
	if err != nil {
		return nil, false, err
	}
	var seqs []int64
	now := o.now()
	for _, h := range heads {
		if h.Due.After(now) {
			seqs = append(seqs, h.Delivery)
		}
	}
	more = len(heads) == o.bounds.RetryHeads
	lanes, err := o.store.StuckLanes(ctx, store.Everyone(), store.LaneQuery{Endpoint: endpoint, Limit: o.bounds.RetryAll})
	if err != nil {
		return nil, false, err
	}
	for i := range lanes {
		if lanes[i].Head.Waiting.Blocked {
			seqs = append(seqs, lanes[i].Head.Seq)
		}
	}
	for _, seq := range seqs {
		if len(found) == o.bounds.RetryAll {
			return found, true, nil
		}
		d, err := o.store.Delivery(ctx, store.Everyone(), seq)
		switch {
		case grapnel.CodeOf(err) == grapnel.CodeNotFound:
		case err != nil:
			return nil, false, err
		case !d.Status.Final() && d.ReasonCode != grapnel.ReasonLater && d.EndpointID == endpoint && s.Of(d.Type, d.Key) && s.Ended(&d.Last):
			found = append(found, d)
		}
	}
	return found, more, nil
}
