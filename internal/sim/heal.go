package sim

import (
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/sim/history"
	"github.com/grapnelhq/grapnel/internal/store"
)

// heal ends all faults and opens every endpoint that was closed. From now on every delivery must
// finish.
func (w *world) heal() {
	w.trace("heal")
	w.healing = true
	w.wellAt = w.now().Add(time.Minute) // a node that is down now is tended to half a minute later
	for _, r := range w.endpoints {
		r.down, r.slow = false, false
	}
	w.tend()
}

// tend acts as a careful operator until the system is quiet: it enables endpoints, and skips
// deliveries that block their key.
func (w *world) tend() {
	if w.node != nil && !w.node.leaving {
		for _, r := range w.endpoints {
			if r.config.Status != grapnel.EndpointEnabled {
				r.act(history.Enable, func(ep *grapnel.Endpoint) {
					ep.Status, ep.DisabledReason = grapnel.EndpointEnabled, ""
				})
			}
		}
		for _, d := range w.deliveries() {
			if d.Waiting.Blocked && !d.Status.Final() && w.node != nil {
				w.orderOf(&d, core.Skip, history.Skip)
			}
		}
	}
	w.agenda.in(30*time.Second, w.tend)
}

// quiet says whether every delivery has finished.
func (w *world) quiet() bool {
	for _, d := range w.deliveries() {
		if !d.Status.Final() {
			return false
		}
	}
	return w.trying == 0 && w.node != nil && w.rerunsOver()
}

func (w *world) deliveries() []grapnel.Delivery {
	all, err := w.model.DeliveryList(context.Background(), store.Everyone(), store.DeliveryQuery{Limit: 1 << 30})
	if err != nil {
		panic(err)
	}
	return all
}

// sample counts the deliveries in each status.
func (w *world) sample() {
	counts, err := w.model.Counts(context.Background(), store.Everyone())
	if err != nil {
		panic(err)
	}
	for _, d := range w.purged {
		if counts[d.EndpointID] == nil {
			counts[d.EndpointID] = map[grapnel.Status]int64{}
		}
		counts[d.EndpointID][d.Status]++
	}
	for _, r := range w.endpoints {
		w.history.Samples = append(w.history.Samples, history.Sample{At: w.agenda.now, Endpoint: r.config.ID, Counts: counts[r.config.ID]})
	}
}

// collect adds the system's final state to the history.
func (w *world) collect() {
	w.sample()
	for i := range w.history.Publishes {
		p := &w.history.Publishes[i]
		if endpoints, ok := w.committed[p.ID]; ok {
			p.Endpoints = endpoints
		}
	}
	all := w.everything()
	slices.Reverse(all)
	ids := make(map[int64]string, len(all))
	for i := range all {
		d := &all[i]
		ids[d.Seq] = d.PlainID()
		f := history.Final{Delivery: d.PlainID(), Event: d.EventID, Endpoint: d.EndpointID, Position: d.Position,
			Status: d.Status, ReasonCode: d.ReasonCode, Attempts: d.AttemptsMade}
		if d.ReplayOf != 0 {
			f.ReplayOf = ids[d.ReplayOf]
		}
		f.Finished = w.over[d.Seq]
		w.history.Finals = append(w.history.Finals, f)
	}
	slices.SortStableFunc(w.history.Receipts, func(a, b history.Receipt) int { return int(a.Start - b.Start) })
}
