package api

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/catalogue"
	"github.com/grapnelhq/grapnel/internal/store"
)

// checked refuses an event whose data do not satisfy the schema of its type, where its tenant wants
// that.
func (a *api) checked(c *call, one []store.Incoming, d *draft, base string, f *strict.Faults) error {
	faults, err := a.Engine.Check(c.Context(), one)
	if err != nil || faults == nil || d.id.given && a.repeated(c, one[0].Event) {
		return err
	}
	refuse(f, base, faults[0])
	return nil
}

// refuse adds the faults of an event. In a query base is "?", and the data are the body.
func refuse(f *strict.Faults, base string, faults []catalogue.Fault) {
	for _, fault := range faults {
		if base == "?" {
			f.Add(strings.TrimPrefix(fault.Pointer, "/data"), "%s", fault.Detail)
		} else {
			f.Add(strings.TrimSuffix(base, "/")+fault.Pointer, "%s", fault.Detail)
		}
	}
}

// repeated says whether an event with a publisher's own id is stored already. Publishing it again
// has to have the answer that it had, even if the type has a new version since then.
func (a *api) repeated(c *call, ev *grapnel.Event) bool {
	is, _, err := a.History.Event(c.Context(), store.Of(ev.Tenant), ev.Tenant, ev.ID)
	return err == nil && is.Type == ev.Type && is.Key == ev.Key && bytes.Equal(is.Data, ev.Data)
}

// check refuses events of a batch; the others stay.
func (b *batch) check() error {
	faults, err := b.a.Engine.Check(b.c.Context(), b.incoming)
	if err != nil || faults == nil {
		return err
	}
	kept, n := b.incoming[:0:0], 0
	for i := range b.errors {
		if b.errors[i] != nil {
			continue
		}
		in := b.incoming[n]
		if wrong := faults[n]; wrong != nil && !(b.named[i] && b.a.repeated(b.c, in.Event)) {
			var f strict.Faults
			refuse(&f, b.prefix+strconv.Itoa(i), wrong)
			b.errors[i] = f.Err()
		} else {
			kept = append(kept, in)
		}
		n++
	}
	b.incoming = kept
	return nil
}
