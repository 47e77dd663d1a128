package api

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

const eventTypeTag = "Event types"

func eventTypeRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/event-types", scope: grapnel.ScopeManage, handle: createEventType,
			name: "create-event-type", tag: eventTypeTag, summary: "Register an event type",
			about: "With a schema it has version 1 at once.",
			body:  jsonBody, takes: wire.NewEventType{}, gives: map[int]any{201: wire.EventType{}}},
		{method: "GET", path: "/v1/event-types", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: listEventTypes,
			name: "list-event-types", tag: eventTypeTag, summary: "List event types, without their schemas",
			query: pageOf(tenantParam, searchParam), gives: map[int]any{200: list[wire.EventType]{}}},
		{method: "GET", path: "/v1/event-types/{id}", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: getEventType,
			name: "get-event-type", tag: eventTypeTag, summary: "Get an event type with all versions, by id or name",
			about: "A name that several tenants have is not found, unless tenant says which of them is meant.",
			query: []param{tenantParam}, gives: map[int]any{200: wire.EventType{}}},
		{method: "PATCH", path: "/v1/event-types/{id}", scope: grapnel.ScopeManage, handle: patchEventType,
			name: "update-event-type", tag: eventTypeTag, summary: "Change an event type's description, labels or check",
			query: []param{tenantParam}, body: patchBody, takes: wire.NewEventType{}, gives: map[int]any{200: wire.EventType{}}},
		{method: "DELETE", path: "/v1/event-types/{id}", scope: grapnel.ScopeManage, handle: deleteEventType,
			name: "delete-event-type", tag: eventTypeTag, summary: "Delete an event type with all its versions",
			about: "Events of the type stay, and are published without a check from then on.",
			query: []param{tenantParam}, gives: map[int]any{204: nil}},
	}
}

func viewEventType(t *grapnel.EventType, schemas bool) wire.EventType {
	v := wire.EventType{ID: t.ID, Tenant: t.Tenant, Name: t.Name, Description: t.Description, Check: t.Check,
		Labels: maps.Clone(t.Labels), Retain: cmp.Or(t.Retain, grapnel.RetainAll),
		Versions: make([]wire.TypeVersion, len(t.Versions)), CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, Revision: t.Revision}
	for i := range t.Versions {
		is := &t.Versions[i]
		v.Versions[i] = wire.TypeVersion{Version: i + 1, Note: is.Note, CreatedAt: is.CreatedAt, DeprecatedAt: is.DeprecatedAt}
		if schemas {
			v.Versions[i].Schema = json.RawMessage(is.Schema)
			if is.Example != "" {
				v.Versions[i].Example = json.RawMessage(is.Example)
			}
		}
	}
	return v
}

// createEventType registers an event type.
func createEventType(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.NewEventType](c.body, &f)
	t := grapnel.EventType{ID: a.newID(grapnel.TypePrefix, c.now), Name: in.Name, CreatedAt: c.now, UpdatedAt: c.now,
		Tenant: c.tenant(optional{in.Tenant, in.Tenant != ""}, "/tenant", &f)}
	switch {
	case in.Schema == nil:
		withoutSchema(in, &f)
	case f.Free("/tenant"): // whose allowance pays for the work
		v, err := a.version(c, t.Tenant, in.Schema, versionParts{in.Example, in.Note}, &f)
		if err != nil {
			return answer{}, err
		}
		t.Versions = []grapnel.TypeVersion{v}
	}
	setEventType(&t, in, &f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	if err := a.roomForType(&t); err != nil {
		return answer{}, err
	}
	return a.putEventType(c, t, grapnel.VerbCreate, http.StatusCreated)
}

// putEventType stores an event type, and answers with it.
func (a *api) putEventType(c *call, t grapnel.EventType, verb grapnel.Verb, status int) (answer, error) {
	return put(c, a.Engine.PutEventType, t, c.entryOf(verb, t.Tenant, t.ID, t.Name), func(done store.Put) answer {
		t := t
		t.Revision = done.Revision
		return jsonAnswer(status, viewEventType(&t, true))
	})
}

// setEventType puts settings on an event type.
func setEventType(t *grapnel.EventType, in wire.NewEventType, f *strict.Faults) {
	t.Description, t.Labels, t.Check, t.Retain = in.Description, in.Labels, grapnel.CheckOff, cmp.Or(in.Retain, grapnel.RetainAll)
	if in.Check != "" {
		t.Check = in.Check
	}
	if t.Check != grapnel.CheckOff && len(t.Versions) == 0 {
		f.Add("/check", "needs a version with a schema first")
	}
}

// listEventTypes lists event types by id.
func listEventTypes(a *api, c *call) (answer, error) {
	of := func(t *grapnel.EventType) entry { return entry{t.ID, t.Tenant, t.Name, t.Description} }
	return listed(c, a.Engine.EventTypes(c.scope), of, each(func(t *grapnel.EventType) wire.EventType { return viewEventType(t, false) }))
}

// namedType is the one that the path names, by its id or its name.
func (a *api) namedType(c *call) (grapnel.EventType, error) {
	name, tenant := c.PathValue("id"), c.query.text("tenant")
	if t, there := a.Engine.EventType(c.scope, name); there {
		return t, nil
	}
	var found []grapnel.EventType
	for _, t := range a.Engine.EventTypes(c.scope) {
		if t.Name == name && (tenant == "" || t.Tenant == tenant) {
			found = append(found, t)
		}
	}
	if len(found) != 1 {
		return grapnel.EventType{}, store.ErrNotFound("event type")
	}
	return found[0], nil
}

func getEventType(a *api, c *call) (answer, error) {
	t, err := a.namedType(c)
	return shown(t, err, func(t *grapnel.EventType) wire.EventType { return viewEventType(t, true) })
}

// changeType changes the event type that the path names, and begins again if another request has
// changed it meanwhile. edit returns false if there is nothing to change.
func (a *api) changeType(c *call, status int, edit func(t *grapnel.EventType) (bool, error)) (answer, error) {
	for tries := 1; ; tries++ {
		t, err := a.namedType(c)
		if err != nil {
			return answer{}, err
		}
		t.Versions = slices.Clone(t.Versions)
		changed, err := edit(&t)
		if err != nil {
			return answer{}, err
		}
		if !changed {
			return jsonAnswer(http.StatusOK, viewEventType(&t, true)), nil
		}
		t.UpdatedAt = c.now
		ans, err := a.putEventType(c, t, grapnel.VerbChange, status)
		if grapnel.CodeOf(err) == grapnel.CodeConflict && tries < 5 {
			continue
		}
		return ans, err
	}
}

// patchEventType merges a patch into an event type's settings.
func patchEventType(a *api, c *call) (answer, error) {
	return a.changeType(c, http.StatusOK, func(t *grapnel.EventType) (bool, error) {
		var f strict.Faults
		in := patched(c, wire.NewEventType{Name: t.Name, Tenant: t.Tenant, Description: t.Description, Labels: t.Labels, Check: t.Check,
			Retain: t.Retain}, &f)
		setEventType(t, in, &f)
		return true, f.Err()
	})
}

func deleteEventType(a *api, c *call) (answer, error) {
	t, err := a.namedType(c)
	if err == nil {
		err = a.Engine.DeleteEventType(c.Context(), c.scope, t.ID, store.With{Audit: c.entryOf(grapnel.VerbDelete, t.Tenant, t.ID, t.Name)})
	}
	return nothing(), err
}
