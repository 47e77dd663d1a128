package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/catalogue"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// version makes a version of a schema, or says what is wrong with it. An example has to satisfy it.
func (a *api) version(c *call, tenant string, schema []byte, in VersionParts, f *strict.Faults) (grapnel.TypeVersion, error) {
	v := grapnel.TypeVersion{Schema: string(schema), Example: string(in.Example), Note: in.Note, CreatedAt: c.now}
	if len(in.Example) > catalogue.MaxSchema {
		f.Add("/example", "must be at most %d bytes", catalogue.MaxSchema)
		return v, nil
	}
	err := a.Engine.WorkOnSchemas(c.Context(), tenant, func(m *catalogue.Meter) error {
		s, faults, err := m.Compile(schema)
		addFaults(f, "/schema", faults)
		if s == nil || in.Example == nil {
			return err
		}
		faults, err = s.Check(in.Example, m)
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

func schemaBytes(t *grapnel.EventType) (size int) {
	for i := range t.Versions {
		size += len(t.Versions[i].Schema) + len(t.Versions[i].Example)
	}
	return size
}

// addTypeVersion appends a version.
func addTypeVersion(a *api, c *call) (answer, error) {
	return a.changeType(c, http.StatusCreated, func(t *grapnel.EventType) (bool, error) {
		var f strict.Faults
		in := decode[newTypeVersion](c.body, &f)
		if err := f.Err(); err != nil {
			return false, err
		}
		v, err := a.version(c, t.Tenant, in.Schema, in.VersionParts, &f)
		if err == nil {
			err = f.Err()
		}
		if err != nil {
			return false, err
		}
		if n := len(t.Versions); n > 0 && sameJSON(t.Versions[n-1].Schema, v.Schema) {
			return false, nil
		}
		t.Versions = append(t.Versions, v)
		return true, a.roomForType(t)
	})
}

// sameJSON says whether two documents differ in space at most.
func sameJSON(a, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, []byte(a)) == nil && json.Compact(&y, []byte(b)) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// patchTypeVersion changes what is said of a version.
func patchTypeVersion(a *api, c *call) (answer, error) {
	patch := gjson.ParseBytes(c.body)
	return a.changeType(c, http.StatusOK, func(t *grapnel.EventType) (bool, error) {
		n, _ := strconv.Atoi(c.PathValue("version"))
		v := t.Version(n)
		if v == nil {
			return false, store.ErrNotFound("version")
		}
		var f strict.Faults
		checkPatch[TypeVersionSettings](patch, &f)
		now := TypeVersionSettings{Note: v.Note, Deprecated: !v.DeprecatedAt.IsZero()}
		merged := strict.Merge(gjson.ParseBytes(encode(now)), patch, "/", &f)
		if err := f.Err(); err != nil {
			return false, err
		}
		is := decode[TypeVersionSettings](merged, &f)
		v.Note = is.Note
		switch {
		case !is.Deprecated:
			v.DeprecatedAt = grapnel.TypeVersion{}.DeprecatedAt
		case v.DeprecatedAt.IsZero():
			v.DeprecatedAt = c.now
		}
		return true, f.Err()
	})
}

// compareTypeVersions lists the differences of two versions.
func compareTypeVersions(a *api, c *call) (answer, error) {
	t, err := a.namedType(c)
	if err != nil {
		return answer{}, err
	}
	to := c.query.number("to", len(t.Versions))
	from := c.query.number("from", to-1)
	for name, n := range map[string]int{"?from": from, "?to": to} {
		if t.Version(n) == nil {
			c.query.faults.Add(name, "must be a version of the event type; it has %d", len(t.Versions))
		}
	}
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	found, err := a.differences(c.Context(), &t, from, to)
	if err != nil {
		return answer{}, err
	}
	out := wire.TypeComparison{From: from, To: to, Differences: make([]wire.TypeDifference, len(found))}
	for i, d := range found {
		out.Differences[i] = wire.TypeDifference{Pointer: d.Pointer, What: d.What, Breaking: d.Breaking, Stricter: d.Stricter}
		out.Breaking, out.Stricter = out.Breaking || d.Breaking, out.Stricter || d.Stricter
	}
	return jsonAnswer(http.StatusOK, out), nil
}

func (a *api) differences(ctx context.Context, t *grapnel.EventType, from, to int) (found []catalogue.Difference, err error) {
	err = a.Engine.WorkOnSchemas(ctx, t.Tenant, func(m *catalogue.Meter) error {
		before, _, err := m.Compile([]byte(t.Version(from).Schema))
		if err != nil {
			return err
		}
		after, _, err := m.Compile([]byte(t.Version(to).Schema))
		if err != nil {
			return err
		}
		if before == nil || after == nil {
			return grapnel.Errorf(grapnel.CodeConflict, "This server does not accept the schema of one of the versions any more.")
		}
		found, err = catalogue.Compare(before, after, m)
		return err
	})
	return found, err
}
