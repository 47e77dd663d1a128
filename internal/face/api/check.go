package api

import (
	"bytes"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/catalogue"
	"github.com/grapnelhq/grapnel/internal/store"
)

// checked refuses an event whose type its tenant may not add, or whose data do not satisfy the
// schema of the type, where its tenant wants that.
func (a *api) checked(c *call, one []store.Incoming, named bool, base string, f *strict.Faults) error {
	faults, err := a.Engine.Check(c.Context(), one)
	if err != nil || faults == nil || named && a.repeated(c, one[0].Event) {
		return err
	}
	refuse(f, base, faults[0])
	return nil
}

// refuse adds the faults of an event. If base is "?", the data are the body, and other fields are
// in the query.
func refuse(f *strict.Faults, base string, faults []catalogue.Fault) {
	for _, fault := range faults {
		at := strings.TrimSuffix(base, "/") + fault.Pointer
		if base == "?" {
			var inData bool
			if at, inData = strings.CutPrefix(fault.Pointer, "/data"); !inData {
				at = base + strings.TrimPrefix(fault.Pointer, "/")
			}
		}
		f.Add(at, "%s", fault.Detail)
	}
}

// repeated says whether an event with a publisher's own id is stored already. Publishing it again
// has to have the answer that it had, even if the type has a new version since then.
func (a *api) repeated(c *call, ev *grapnel.Event) bool {
	is, _, err := a.History.Event(c.Context(), store.Of(ev.Tenant), ev.Tenant, ev.ID)
	return err == nil && is.Type == ev.Type && is.Key == ev.Key && bytes.Equal(is.Data, ev.Data)
}
