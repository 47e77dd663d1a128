package engine

import (
	"context"
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/catalogue"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Check compares events with the schemas of their types, where their tenants want that, and returns
// the faults of those that do not satisfy them, by their index. Nil: there are none. The work is
// counted as that of filters is (filterWork), so a schema that costs much delays publishes of its
// own tenant. A type that changes between Check and Publish changed at the same time as the events
// were published: either order of the two is right.
func (p *publisher) Check(ctx context.Context, events []store.Incoming) (map[int][]catalogue.Fault, error) {
	conf := p.book.Snapshot()
	if !conf.Checks() {
		return nil, nil
	}
	var faults map[int][]catalogue.Fault
	w := schemaWork{publisher: p, left: p.bounds.SchemaWork}
	defer w.end()
	for i := range events {
		ev := events[i].Event
		t := conf.Checked(ev)
		if t == nil {
			continue
		}
		var found []catalogue.Fault
		err := w.do(ctx, ev.Tenant, func(units int64) (did int64, err error) {
			found, did, err = catalogue.Judge(t, ev, units, func(n int) (*catalogue.Schema, int64) { return p.compiled(t, n) })
			return did, err
		})
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			if faults == nil {
				faults = map[int][]catalogue.Fault{}
			}
			faults[i] = found
		}
	}
	return faults, nil
}

// compiled returns a version's schema, and the units of work that compiling it took.
func (p *publisher) compiled(t *grapnel.EventType, n int) (*catalogue.Schema, int64) {
	if s := p.schemas.Get(t.ID, n); s != nil {
		return s, 0
	}
	text := t.Version(n).Schema
	s, _ := catalogue.Compile([]byte(text))
	if s != nil {
		p.schemas.Put(t.Tenant, t.ID, n, s)
	}
	return s, catalogue.CompileCost(len(text))
}

// WorkOnSchemas does something with a tenant's schemas, which may take at most the given units of
// work, when it is the tenant's turn.
func (p *publisher) WorkOnSchemas(ctx context.Context, tenant string, do func(units int64) (did int64, err error)) error {
	w := schemaWork{publisher: p, left: p.bounds.SchemaWork}
	defer w.end()
	return w.do(ctx, tenant, do)
}

// schemaWork is the work of one request. It belongs to one goroutine.
type schemaWork struct {
	*publisher
	left int64
	pass *pass
	did  int64 // since the last step of the pass
}

// do does a part of the work once the tenant may.
func (w *schemaWork) do(ctx context.Context, tenant string, part func(units int64) (int64, error)) error {
	if w.pass == nil || w.pass.name != tenant {
		w.end()
		w.pass = w.filters.pass(tenant)
	}
	did := w.did
	w.did = 0
	err := w.pass.step(ctx, did)
	if errors.Is(err, errFiltersBusy) {
		refusal := w.admission.refusal(single, crowded)
		refusal.Detail = "Too many requests of the tenant wait for work on its schemas and filters, which cost much."
		return refusal
	}
	if err != nil {
		return err
	}
	w.did, err = part(w.left)
	w.left -= w.did
	if errors.Is(err, catalogue.ErrTooCostly) || w.left < 0 {
		return grapnel.Errorf(grapnel.CodeSchemaTooCostly, "The schemas of the tenant's event types cost too much work for this request.")
	}
	return err
}

func (w *schemaWork) end() {
	if w.pass != nil {
		w.pass.end(w.did)
		w.pass, w.did = nil, 0
	}
}
