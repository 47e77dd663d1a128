package configuration

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Checks says whether the data of any event are compared with a schema.
func (c *Snapshot) Checks() bool { return len(c.checked) > 0 }

// Checked returns the event type with whose schema an event's data are compared, or nil.
func (c *Snapshot) Checked(ev *grapnel.Event) *grapnel.EventType {
	return c.checked[ev.Tenant][ev.Type]
}

// RetainsNone says whether what an event of a type contains is erased once it is delivered. The
// empty type stands for all of the tenant's.
func (c *Snapshot) RetainsNone(tenant, name string) bool {
	of := c.passing[tenant]
	return of[name] != nil || name == "" && len(of) > 0
}

// EventTypes returns the event types in scope, sorted by id.
func (b *Book) EventTypes(scope store.Scope) []grapnel.EventType {
	return those(b.Snapshot().types, func(t *grapnel.EventType) bool { return scope.Allows(t.Tenant) })
}

// EventType returns an event type that is in scope.
func (b *Book) EventType(scope store.Scope, id string) (grapnel.EventType, bool) {
	t := find(b.Snapshot().types, id, typeID)
	if t == nil || !scope.Allows(t.Tenant) {
		return grapnel.EventType{}, false
	}
	return *t, true
}
