package erase

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// An event type may retain none: what an event contains is erased once no delivery needs it. The
// engine names an event with each delivery of it that succeeds, and this node looks at the named
// ones every few seconds. The leading node searches for those that were not named, or whose names a
// crash lost.

// kindSearched is the kind of the documents that say how far the search for events of a type is.
// Their ids are those of the event types.
const kindSearched = "retain-none"

// searched is such a document: all events of the type up to After are erased, but those in Left,
// which have a pending delivery or a dead letter.
type searched struct {
	After int64   `json:"after"`
	Left  []int64 `json:"left,omitempty"`
}

// Delivered names an event of which a delivery has succeeded. An empty type is unknown.
func (r *Runner) Delivered(tenant, eventType string, event int64) {
	r.names.mu.Lock()
	defer r.names.mu.Unlock()
	if len(r.names.all) < r.bounds.Retain.Named {
		r.names.all = append(r.names.all, named{tenant, eventType, event})
	}
}

func (r *Runner) takeNames() []named {
	r.names.mu.Lock()
	defer r.names.mu.Unlock()
	all := r.names.all
	r.names.all = nil
	slices.SortFunc(all, func(a, b named) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.event, b.event), -cmp.Compare(a.kind, b.kind))
	})
	return slices.CompactFunc(all, func(a, b named) bool { return a.tenant == b.tenant && a.event == b.event })
}

// retain sweeps and searches until ctx ends.
func (r *Runner) retain(ctx context.Context) {
	var last time.Time // of the searches, since this node leads
	for failures := 0; ctx.Err() == nil; {
		err := r.sweep(ctx)
		switch {
		case !r.o.Engine.Leads():
			last = time.Time{}
		case err == nil && r.o.Now().Sub(last) >= r.bounds.Retain.Search:
			if err = r.search(ctx); err == nil {
				last = r.o.Now()
			}
		}
		wait := r.bounds.Retain.Sweep
		if failures++; err == nil {
			failures = 0
		} else if wait = max(wait, backoff.Store.After(failures)); ctx.Err() == nil && backoff.Tells(failures) {
			r.o.Log.Error("erasing what delivered events contain failed; retrying", "failures", failures, "err", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// sweep erases the events that were named. One that another delivery needs is named again with the
// success of that.
func (r *Runner) sweep(ctx context.Context) error {
	r.swept = r.o.Now()
	all := r.takeNames()
	for len(all) > 0 {
		n := 1
		for n < len(all) && n < r.bounds.Rows && all[n].tenant == all[0].tenant {
			n++
		}
		chosen, err := r.retainNone(ctx, all[:n])
		if err == nil && len(chosen) > 0 {
			_, err = r.o.Store.EraseEvents(ctx, store.Erasure{Tenant: all[0].tenant, Events: chosen, At: r.o.Now(), LeaveDead: true})
		}
		if err != nil {
			for _, is := range all {
				r.Delivered(is.tenant, is.kind, is.event)
			}
			return err
		}
		all = all[n:]
	}
	return nil
}

// retainNone returns those of a tenant's events whose type retains none. It reads events of unknown
// type.
func (r *Runner) retainNone(ctx context.Context, all []named) (chosen []int64, err error) {
	var unknown []int64
	for _, is := range all {
		if is.kind == "" {
			unknown = append(unknown, is.event)
		} else {
			chosen = append(chosen, is.event)
		}
	}
	conf := r.o.Engine.Snapshot()
	for page := range slices.Chunk(unknown, r.bounds.Page) {
		events, err := r.o.Store.Events(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if e != nil && conf.RetainsNone(e.Tenant, e.Type) {
				chosen = append(chosen, e.Seq)
			}
		}
	}
	return chosen, nil
}

// search looks at all events of types that retain none that earlier searches have not looked at, or
// have left.
func (r *Runner) search(ctx context.Context) error {
	for _, t := range r.o.Engine.EventTypes(store.Everyone()) {
		if t.Retain != grapnel.RetainNone {
			continue
		}
		if err := r.searchType(ctx, &t); err != nil && grapnel.CodeOf(err) != grapnel.CodeConflict { // another node searches
			return err
		}
	}
	_, err := r.o.Store.ClearDocuments(ctx, kindSearched, r.o.Now().Add(-r.bounds.Retain.Forget), r.bounds.Page)
	return err
}

func (r *Runner) searchType(ctx context.Context, t *grapnel.EventType) error {
	var was searched
	d, err := r.o.Store.Document(ctx, store.Everyone(), t.Tenant, kindSearched, t.ID)
	switch {
	case err == nil:
		err = json.Unmarshal(d.Body, &was)
	case grapnel.CodeOf(err) == grapnel.CodeNotFound:
		d, err = store.Document{Tenant: t.Tenant, Kind: kindSearched, ID: t.ID}, nil
	}
	if err != nil {
		return err
	}
	left, err := r.eraseDelivered(ctx, t.Tenant, was.Left)
	if err != nil {
		return err
	}
	now, err := r.searchEvents(ctx, t, was.After)
	if err != nil {
		return err
	}
	if now.Left = append(left, now.Left...); len(now.Left) > r.bounds.Retain.Left {
		now = searched{After: was.After, Left: left} // the next search looks at these events again
	}
	d.At = r.o.Now()
	if d.Body, err = json.Marshal(now); err != nil {
		return err
	}
	_, err = r.o.Store.PutDocuments(ctx, store.Everyone(), []store.DocumentWrite{{Document: d}}, store.With{})
	return err
}

// searchEvents looks at the events of a type with higher row ids than after, the newest first.
func (r *Runner) searchEvents(ctx context.Context, t *grapnel.EventType, after int64) (now searched, err error) {
	var left []int64
	settled := r.o.Now().Add(-r.bounds.Retain.Late)
	for before := int64(0); ; {
		page, err := r.o.Store.EventList(ctx, store.Of(t.Tenant),
			store.EventQuery{Tenant: t.Tenant, Type: t.Name, Before: before, Limit: r.bounds.Page})
		if err != nil {
			return now, err
		}
		var chosen []int64
		for i := range page {
			e := &page[i]
			before = e.Seq
			// The next search begins after the newest event below all that are not settled: beside these,
			// others may become visible.
			if e.AcceptedAt.After(settled) {
				now.After = 0
			} else {
				now.After = cmp.Or(now.After, e.Seq)
			}
			if e.Seq > after && e.ErasedAt.IsZero() {
				chosen = append(chosen, e.Seq)
			}
		}
		some, err := r.eraseDelivered(ctx, t.Tenant, chosen)
		if err != nil {
			return now, err
		}
		left = append(left, some...)
		if len(page) < r.bounds.Page || before <= after {
			break
		}
		if err := r.rest(ctx); err != nil {
			return now, err
		}
	}
	now.After = max(now.After, after)
	now.Left = slices.DeleteFunc(left, func(event int64) bool { return event > now.After })
	return now, nil
}

// eraseDelivered erases those of a tenant's events that no delivery needs, and returns the others.
func (r *Runner) eraseDelivered(ctx context.Context, tenant string, events []int64) (left []int64, err error) {
	if len(events) == 0 {
		return nil, nil
	}
	done, err := r.o.Store.EraseEvents(ctx, store.Erasure{Tenant: tenant, Events: events, At: r.o.Now(), LeaveDead: true})
	return done.Pending, err
}

// rest is the pause between two pages of a search, which may take long: so named events have their
// turn.
func (r *Runner) rest(ctx context.Context) error {
	select {
	case <-time.After(r.bounds.Pause):
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.o.Now().Sub(r.swept) < r.bounds.Retain.Sweep {
		return nil
	}
	return r.sweep(ctx)
}
