package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Replays and purges, in histories that enable them. A replay is stepped through here as in package
// replay: answers of steps get lost, and a runner that was believed dead repeats a step.

// keptFor is the retention. It is longer than any publisher repeats a call.
const keptFor = 90 * time.Second

// tidying plans replays and purges.
func (w *world) tidying() {
	var next func()
	next = func() {
		if w.healing {
			return
		}
		switch w.rand.IntN(4) {
		case 0:
			w.purge()
		default:
			w.replay(w.anyone())
		}
		w.agenda.in(w.between(0, 30*time.Second), next)
	}
	w.agenda.in(w.between(0, 30*time.Second), next)
}

// purge removes expired rows. It does nothing if the clock jumps, because that changes their ages.
func (w *world) purge() {
	if w.node == nil || w.plan.clockJump > 0 {
		return
	}
	before := w.deliveries()
	n, err := w.model.Purge(context.Background(), store.Keep{Now: w.now(), For: keptFor}, 1+w.rand.IntN(20))
	if err != nil {
		panic(err)
	}
	w.trace("purge: %d", n)
	left := map[int64]bool{}
	for _, d := range w.deliveries() {
		left[d.Seq] = true
	}
	for _, d := range before {
		if left[d.Seq] {
			continue
		}
		if !d.Status.Final() || w.now().Sub(d.FinishedAt) < keptFor {
			w.excess("delivery %d was purged; it is %s since %v", d.Seq, d.Status, d.FinishedAt)
		}
		w.purged = append(w.purged, d)
	}
}

// replay starts a replay.
func (w *world) replay(r *receiver) {
	if w.node == nil || w.node.leaving || !r.config.DeletedAt.IsZero() {
		return
	}
	ctx, now := context.Background(), w.now()
	s := grapnel.Selection{Status: []grapnel.Status{grapnel.Failed}, Again: w.rand.IntN(4) == 0}
	if w.rand.IntN(3) == 0 {
		s.Status = append(s.Status, grapnel.Delivered, grapnel.Skipped)
	}
	p := &rerun{id: fmt.Sprintf("rpl_%04d", len(w.reruns)), r: r, orders: map[int64]int{}}
	_, err := w.model.PutReplay(ctx, store.Everyone(), grapnel.Replay{ID: p.id, Tenant: r.config.Tenant, Endpoint: r.config.ID,
		Selection: s, Rate: 10,
		Status: grapnel.ReplayRunning, CreatedAt: now, UpdatedAt: now}, store.With{})
	if err != nil {
		panic(err)
	}
	all, _, err := w.model.Candidates(ctx, store.Everyone(), store.CandidateQuery{Endpoint: r.config.ID, Selection: s, OverBy: now,
		Limit: 1 << 20})
	if err != nil {
		panic(err)
	}
	for _, d := range all {
		if meant(&d, &s) {
			p.meant = append(p.meant, d)
		}
	}
	w.trace("%s: %d deliveries of %s", p.id, len(p.meant), r.config.ID)
	w.reruns = append(w.reruns, p)
	w.walk(p)
}

func meant(d *grapnel.Delivery, s *grapnel.Selection) bool {
	return s.Again || d.Mark.ReplayResult != grapnel.Delivered && d.Mark.ReplayResult != grapnel.Pending
}

// walk takes the next step after a while.
func (w *world) walk(p *rerun) {
	w.agenda.in(w.between(10*time.Millisecond, time.Second), func() {
		if w.node == nil || w.node.leaving || !w.step(p) {
			w.walk(p)
		}
	})
}

// step makes one step and says whether the replay has finished.
func (w *world) step(p *rerun) (over bool) {
	ctx, n := context.Background(), w.node
	r, err := w.store.Replay(ctx, store.Everyone(), p.id)
	if err != nil {
		return false
	}
	end := func(status grapnel.ReplayStatus) bool {
		r.Status, r.FinishedAt, r.UpdatedAt = status, w.now(), w.now()
		_, err := w.store.PutReplay(ctx, store.Everyone(), r, store.With{})
		w.trace("%s: %s: %v", p.id, status, err)
		return err == nil
	}
	switch {
	case r.Status.Final():
		return true
	case !p.r.config.DeletedAt.IsZero():
		return end(grapnel.ReplayCancelled)
	case r.Started-r.Done >= 4:
		return false
	}
	q := store.CandidateQuery{Endpoint: r.Endpoint, Selection: r.Selection, OverBy: r.CreatedAt, UpTo: r.UpTo, After: r.Cursor,
		Limit: 1 + w.rand.IntN(4)}
	list, resume, err := w.store.Candidates(ctx, store.Of(r.Tenant), q)
	if err != nil {
		return false
	}
	if len(list) == 0 && resume == 0 {
		return r.Started == r.Done && end(grapnel.ReplayCompleted)
	}
	step := store.ReplayStep{Replay: p.id, From: r.Cursor, To: max(r.Cursor, resume), At: w.now()}
	for i := range list {
		d := &list[i]
		if step.To = max(step.To, d.Seq); !meant(d, &r.Selection) {
			continue
		}
		step.Items = append(step.Items, store.Redelivery{Of: d.Seq, Trigger: grapnel.TriggerReplay,
			Ordered: p.r.config.Ordered(), At: w.now()})
		if _, asked := p.orders[d.Seq]; !asked {
			p.orders[d.Seq] = len(w.history.Actions)
			w.history.Actions = append(w.history.Actions, history.Action{Kind: history.Retry, Endpoint: r.Endpoint, Delivery: d.PlainID(),
				Invoke: w.agenda.now, Result: history.Unknown})
		}
	}
	if w.rand.IntN(4) == 0 {
		late := step // by a runner that does not know that the step was made, or that another runner continued
		w.agenda.in(w.between(0, 3*time.Second), func() { _, _ = w.model.Advance(ctx, late) })
	}
	done, err := w.store.Advance(ctx, step)
	w.trace("%s: %d deliveries, to %d: %v", p.id, len(step.Items), step.To, err)
	if err != nil {
		return false
	}
	var heads []store.Head
	for i, made := range done {
		if made.Delivery == 0 {
			continue // the original was purged
		}
		a := &w.history.Actions[p.orders[step.Items[i].Of]]
		a.Made, a.Result, a.Return = grapnel.PlainDeliveryID(made.CreatedAt, made.Delivery), history.OK, w.agenda.now
		if made.Head != nil {
			heads = append(heads, *made.Head)
		}
	}
	n.hint(heads)
	return false
}

// rerunsOver says whether all replays have finished.
func (w *world) rerunsOver() bool {
	for _, p := range w.reruns {
		if r, err := w.model.Replay(context.Background(), store.Everyone(), p.id); err != nil || !r.Status.Final() {
			return false
		}
	}
	return true
}

// audit compares the deliveries that replays created with their selections.
func (w *world) audit() {
	ctx := context.Background()
	type received struct {
		event    int64
		endpoint string
	}
	known, made, arrived := map[int64]*grapnel.Delivery{}, map[int64]int{}, map[received]bool{}
	all := w.everything()
	for i := range all {
		d := &all[i]
		known[d.Seq] = d
		made[d.ReplayOf]++
		if d.ReplayOf != 0 && d.Status == grapnel.Delivered {
			arrived[received{d.EventSeq, d.EndpointID}] = true // by a redelivery of another of its dead letters
		}
	}
	gone := w.removed()
	for _, p := range w.reruns {
		r, err := w.model.Replay(ctx, store.Everyone(), p.id)
		if err != nil {
			panic(err)
		}
		items, err := w.model.ReplayItems(ctx, store.Everyone(), p.id, 0, 1<<20)
		if err != nil {
			panic(err)
		}
		w.replayed += len(items)
		delivered, last := 0, int64(0)
		for _, i := range items {
			if i.Status == grapnel.Delivered {
				delivered++
			}
			if d := known[i.Made]; d == nil || d.ReplayOf != i.Original || d.Status != i.Status || i.Made <= last {
				w.excess("%s lists %+v, behind %d; the delivery is %+v", p.id, i, last, d)
			}
			last = i.Made
		}
		if r.Started != len(items) || r.Done != len(items) || r.Delivered != delivered || r.Failed != len(items)-delivered {
			w.excess("%s counts %+v; it lists %d, of which %d were delivered", p.id, r, len(items), delivered)
		}
		if r.Status != grapnel.ReplayCompleted {
			continue
		}
		for _, d := range p.meant {
			listed := slices.ContainsFunc(items, func(i grapnel.ReplayItem) bool { return i.Original == d.Seq })
			if !listed && made[d.Seq] == 0 && !gone[d.Seq] && !arrived[received{d.EventSeq, d.EndpointID}] {
				w.excess("%s skips delivery %d", p.id, d.Seq)
			}
		}
	}
}

// everything lists all deliveries, including purged ones, newest first.
func (w *world) everything() []grapnel.Delivery {
	all := append(w.deliveries(), w.purged...)
	slices.SortFunc(all, func(a, b grapnel.Delivery) int { return int(b.Seq - a.Seq) })
	return all
}

// removed has the row ids of purged deliveries.
func (w *world) removed() map[int64]bool {
	gone := make(map[int64]bool, len(w.purged))
	for _, d := range w.purged {
		gone[d.Seq] = true
	}
	return gone
}
