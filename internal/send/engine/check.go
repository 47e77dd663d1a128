package engine

import (
	"context"
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/catalogue"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Check looks whether tenants may publish events of their types, and compares events with the
// schemas of their types, where their tenants want that. It returns the faults of those that are
// refused, by their index. Nil: there are none. The work on schemas is counted as that of filters
// is (filterWork), so a schema that costs much delays publishes of its own tenant. A type that
// changes between Check and Publish changed at the same time as the events were published: either
// order of the two is right.
func (p *publisher) Check(ctx context.Context, events []store.Incoming) (faults map[int][]catalogue.Fault, err error) {
	defer func() {
		for i := range events {
			if err != nil || faults[i] != nil { // it is not published
				p.types.tried(events[i:i+1], nil)
			}
		}
	}()
	refuse := func(i int, found ...catalogue.Fault) {
		if faults == nil {
			faults = map[int][]catalogue.Fault{}
		}
		faults[i] = found
	}
	added, err := p.types.refused(ctx, events)
	if err != nil {
		return nil, err
	}
	for _, i := range added {
		refuse(i, catalogue.Fault{Pointer: "/type", Detail: p.types.crowded()})
	}
	conf := p.book.Snapshot()
	if !conf.Checks() {
		return faults, nil
	}
	var w *schemaWork
	for i := range events {
		ev := events[i].Event
		t := conf.Checked(ev)
		if t == nil || faults[i] != nil {
			continue
		}
		if w == nil {
			w = &schemaWork{publisher: p, ctx: ctx}
			defer w.end()
		}
		err := w.do(ev.Tenant, func(m *catalogue.Meter) error {
			found, err := catalogue.Judge(t, ev, m, func(n int) (*catalogue.Schema, error) { return p.compiled(t, n, m) })
			if len(found) > 0 {
				refuse(i, found...)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return faults, nil
}

// compiled returns a version's schema; nil: it does not compile.
func (p *publisher) compiled(t *grapnel.EventType, n int, m *catalogue.Meter) (*catalogue.Schema, error) {
	if s := p.schemas.Get(t.ID, n); s != nil {
		return s, nil
	}
	s, _, err := m.Compile([]byte(t.Version(n).Schema))
	if s != nil {
		p.schemas.Put(t.Tenant, t.ID, n, s)
	}
	return s, err
}

// WorkOnSchemas does something with a tenant's schemas when it is the tenant's turn.
func (p *publisher) WorkOnSchemas(ctx context.Context, tenant string, do func(m *catalogue.Meter) error) error {
	w := schemaWork{publisher: p, ctx: ctx}
	defer w.end()
	return w.do(tenant, do)
}

// schemaWork is the work of one request: a meter that takes the steps of a tenant's pass. It
// belongs to one goroutine.
type schemaWork struct {
	*publisher
	ctx   context.Context
	pass  *pass // nil: nothing was done yet
	meter *catalogue.Meter
}

// do does a part of the work once the tenant may.
func (w *schemaWork) do(tenant string, part func(m *catalogue.Meter) error) error {
	if w.pass == nil || w.pass.name != tenant {
		w.end()
		pass := w.filters.pass(tenant)
		w.pass, w.meter = pass, catalogue.NewMeter(w.bounds.SchemaWork, func(did int64) error { return pass.step(w.ctx, did) })
	}
	err := w.pass.step(w.ctx, 0)
	if err == nil {
		err = part(w.meter)
	}
	switch {
	case errors.Is(err, errFiltersBusy):
		refusal := w.admission.refusal(single, crowded)
		refusal.Detail = "Too many requests of the tenant wait for work on its schemas and filters, which cost much."
		return refusal
	case errors.Is(err, catalogue.ErrTooCostly):
		return grapnel.Errorf(grapnel.CodeSchemaTooCostly, "The schemas of the tenant's event types cost too much work for this request.")
	}
	return err
}

func (w *schemaWork) end() {
	if w.pass != nil {
		w.pass.end(w.meter.Untold())
		w.pass = nil
	}
}
