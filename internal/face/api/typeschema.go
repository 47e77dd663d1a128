package api

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/catalogue"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// versionParts are the parts of a version besides its schema.
type versionParts struct {
	example []byte
	note    string
}

func withoutSchema(in wire.NewEventType, f *strict.Faults) {
	if in.Example != nil {
		f.Add("/example", "needs a schema that it satisfies")
	}
	if in.Note != "" {
		f.Add("/note", "needs a schema that it is about")
	}
}

// version makes a version of a schema, or reports its faults. An example has to satisfy it.
func (a *api) version(c *call, tenant string, schema []byte, in versionParts, f *strict.Faults) (grapnel.TypeVersion, error) {
	v := grapnel.TypeVersion{Schema: string(schema), Example: string(in.example), Note: in.note, CreatedAt: c.now}
	if len(in.example) > catalogue.MaxSchema {
		f.Add("/example", "must be at most %d bytes", catalogue.MaxSchema)
		return v, nil
	}
	err := a.Engine.WorkOnSchemas(c.Context(), tenant, func(m *catalogue.Meter) error {
		s, faults, err := m.Compile(schema)
		addFaults(f, "/schema", faults)
		if s == nil || in.example == nil {
			return err
		}
		faults, err = s.Check(in.example, m)
		addFaults(f, "/example", faults)
		return err
	})
	return v, err
}

func addFaults(f *strict.Faults, base string, faults []catalogue.Fault) {
	for _, fault := range faults {
		f.Add(base+fault.Pointer, "%s", fault.Detail)
	}
}

// roomForType refuses what would take a tenant's catalogue beyond its bounds. Two nodes that write
// at the same moment may both pass.
func (a *api) roomForType(t *grapnel.EventType) error {
	types, size := 1, schemaBytes(t)
	for _, other := range a.Engine.EventTypes(store.Of(t.Tenant)) {
		if other.ID != t.ID {
			types++
			size += schemaBytes(&other)
		}
	}
	switch b := &a.Bounds; {
	case types > b.EventTypes:
		return grapnel.Errorf(grapnel.CodeConflict, "Tenant %s has %d event types, which is the limit. Delete some.", t.Tenant, types-1)
	case len(t.Versions) > b.TypeVersions:
		return grapnel.Errorf(grapnel.CodeConflict, "The event type has %d versions, which is the limit.", len(t.Versions)-1)
	case size > b.CatalogueBytes:
		return grapnel.Errorf(grapnel.CodeConflict, "The schemas and examples of tenant %s would be %d bytes; %d are allowed. Delete some event types.",
			t.Tenant, size, b.CatalogueBytes)
	}
	return nil
}

// roomFor refuses a further record if a tenant has most of its kind. Requests at the same moment
// may all pass.
func roomFor[R any](tenant, kind string, most int, has []R) error {
	if len(has) < most {
		return nil
	}
	return grapnel.Errorf(grapnel.CodeConflict, "Tenant %s has %d %s, which is the limit. Delete some.", tenant, len(has), kind)
}

func schemaBytes(t *grapnel.EventType) (size int) {
	for i := range t.Versions {
		size += len(t.Versions[i].Schema) + len(t.Versions[i].Example)
	}
	return size
}
