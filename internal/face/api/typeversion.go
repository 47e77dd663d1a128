package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/catalogue"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func typeVersionRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/event-types/{id}/versions", scope: grapnel.ScopeManage, handle: addTypeVersion,
			name: "add-event-type-version", tag: eventTypeTag, summary: "Add a version of an event type's schema",
			about: "Events that name no version follow the newest one. If the newest one has this schema already, nothing changes, and the " +
				"answer is 200.",
			query: []param{tenantParam}, body: jsonBody, takes: wire.NewTypeVersion{},
			gives: map[int]any{201: wire.EventType{}, 200: wire.EventType{}}},
		{method: "PATCH", path: "/v1/event-types/{id}/versions/{version}", scope: grapnel.ScopeManage, handle: patchTypeVersion,
			name: "update-event-type-version", tag: eventTypeTag, summary: "Change a version's note, or mark it as deprecated",
			about: "The schema of a version never changes. Events may follow a deprecated version.",
			query: []param{tenantParam}, body: patchBody, takes: wire.TypeVersionSettings{}, gives: map[int]any{200: wire.EventType{}}},
		{method: "GET", path: "/v1/event-types/{id}/compare", scope: grapnel.ScopeRead, handle: compareTypeVersions,
			name: "compare-event-type-versions", tag: eventTypeTag, summary: "List the differences of two versions",
			query: []param{
				{name: "from", form: "version", doc: "the earlier version; the one before to if not given"},
				{name: "to", form: "version", doc: "the later version; the newest if not given"},
				tenantParam,
			},
			gives: map[int]any{200: wire.TypeComparison{}}},
	}
}

// addTypeVersion appends a version.
func addTypeVersion(a *api, c *call) (answer, error) {
	return a.changeType(c, http.StatusCreated, func(t *grapnel.EventType) (bool, error) {
		var f strict.Faults
		in := decode[wire.NewTypeVersion](c.body, &f)
		v, err := a.version(c, t.Tenant, in.Schema, versionParts{in.Example, in.Note}, &f)
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

// patchTypeVersion changes the note and the mark of a version.
func patchTypeVersion(a *api, c *call) (answer, error) {
	return a.changeType(c, http.StatusOK, func(t *grapnel.EventType) (bool, error) {
		n, _ := strconv.Atoi(c.PathValue("version"))
		v := t.Version(n)
		if v == nil {
			return false, store.ErrNotFound("version")
		}
		var f strict.Faults
		is := patched(c, wire.TypeVersionSettings{Note: v.Note, Deprecated: !v.DeprecatedAt.IsZero()}, &f)
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
