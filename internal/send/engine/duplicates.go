package engine

import (
	"cmp"
	"context"
	"log/slog"
	"sync"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// duplicates notes which events were published or received again. A publish that repeats an event
// writes nothing; neither does this, but now and then, for all tenants with new duplicates. So a
// publish that repeats nothing costs no more than before, and a tenant that repeats thousands costs
// one small document each time. The latest seconds are lost when a process is killed.
type duplicates struct {
	store  Store
	log    *slog.Logger
	bounds DuplicateBounds
	over   <-chan struct{}

	mu    sync.Mutex
	noted map[string]map[string]*grapnel.Duplicate // by tenant and event, since the last write
}

// note takes the duplicates of a publish.
func (d *duplicates) note(events []store.Incoming, placed []store.Placed) {
	for i := range placed {
		if placed[i].Duplicate {
			d.add(events[i].Event, placed[i].ID)
		}
	}
}

func (d *duplicates) add(ev *grapnel.Event, of string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of = cmp.Or(of, ev.ID)
	all := d.noted[ev.Tenant]
	if all == nil {
		if len(d.noted) >= d.bounds.Tenants {
			return
		}
		all = map[string]*grapnel.Duplicate{}
		d.noted[ev.Tenant] = all
	}
	is := all[of]
	if is == nil {
		if len(all) >= d.bounds.Events {
			return
		}
		is = &grapnel.Duplicate{Event: of, Tenant: ev.Tenant, First: ev.AcceptedAt}
		all[of] = is
	}
	is.Times++
	is.Last, is.Source = ev.AcceptedAt, ev.Source
}

// write writes one document for each tenant. Duplicates are noted again if another node wrote at
// the same time, or if the store fails. All documents share one limit of time, so a store that does
// not answer delays a stop by that limit and is logged once.
func (d *duplicates) write() {
	d.mu.Lock()
	noted := d.noted
	d.noted = map[string]map[string]*grapnel.Duplicate{}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), d.bounds.Every)
	defer cancel()
	for tenant, all := range noted {
		if ctx.Err() != nil {
			d.again(tenant, all)
			continue
		}
		err := d.put(ctx, tenant, all)
		switch code := grapnel.CodeOf(err); {
		case err == nil || code == grapnel.CodeNotFound || code == grapnel.CodeInvalid || code == grapnel.CodeTenantEnds:
		case code == grapnel.CodeConflict:
			d.again(tenant, all)
		default:
			d.again(tenant, all)
			d.log.Warn("duplicates not recorded; retrying", "tenant", tenant, "err", err)
		}
	}
}

func (d *duplicates) put(ctx context.Context, tenant string, noted map[string]*grapnel.Duplicate) error {
	scope := store.Of(tenant)
	doc, err := d.store.Document(ctx, scope, tenant, store.DuplicatesKind, tenant)
	if err != nil && grapnel.CodeOf(err) != grapnel.CodeNotFound {
		return err
	}
	doc.Tenant, doc.Kind, doc.ID = tenant, store.DuplicatesKind, tenant
	var before []grapnel.Duplicate
	if doc.Revision > 0 {
		if before, err = store.DecodeDuplicates(doc.Body); err != nil {
			before = nil // it is written anew
		}
	}
	var more []grapnel.Duplicate
	for _, one := range noted {
		more = append(more, *one)
		if one.Last.After(doc.At) {
			doc.At = one.Last
		}
	}
	if doc.Body, err = store.EncodeDuplicates(before, more); err != nil {
		return err
	}
	_, err = d.store.PutDocuments(ctx, scope, []store.DocumentWrite{{Document: doc}}, store.With{})
	return err
}

// again notes duplicates that were not written, within the same limits.
func (d *duplicates) again(tenant string, all map[string]*grapnel.Duplicate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.noted[tenant]
	if now == nil {
		if len(d.noted) < d.bounds.Tenants {
			d.noted[tenant] = all
		}
		return
	}
	for of, old := range all {
		if is := now[of]; is != nil {
			is.Times, is.First = is.Times+old.Times, old.First
		} else if len(now) < d.bounds.Events {
			now[of] = old
		}
	}
}
