package svix

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

func eventTypes() []operation {
	return []operation{
		{pattern: "POST /event-type", handle: createType},
		{pattern: "GET /event-type", handle: listTypes},
		{pattern: "GET /event-type/{name}", handle: getType},
		{pattern: "PUT /event-type/{name}", handle: upsertType},
		{pattern: "PATCH /event-type/{name}", handle: patchType},
		{pattern: "DELETE /event-type/{name}", handle: deleteType},
	}
}

// Event types of Svix belong to no application. Here they are those of the tenant default, or of
// the caller's own. What Grapnel has no field for is in labels.
const (
	archivedLabel   = ours + "archived"
	deprecatedLabel = ours + "deprecated"
	groupLabel      = ours + "group"
)

var typeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64})*$`)

func validType(name string) bool {
	return typeForm.MatchString(name) && len(name) <= grapnel.MaxTypeLength
}

// catalogue is the tenant of the event types.
func (a *ask) catalogue() string {
	if a.who.Tenant != "" {
		return a.who.Tenant
	}
	return grapnel.DefaultTenant
}

// eventType finds one by its name.
func (a *ask) eventType(name string) (*wire.EventType, error) {
	if !validType(name) {
		return nil, notFound("event type")
	}
	var t wire.EventType
	before := a.tenant
	a.tenant = a.catalogue() // also for a request about an application
	defer func() { a.tenant = before }()
	return &t, a.read(at("/v1/event-types", name), nil, &t)
}

func viewType(t *wire.EventType, content bool) eventTypeOut {
	out := eventTypeOut{Name: t.Name, Description: t.Description, Archived: t.Labels[archivedLabel] != "",
		Deprecated: t.Labels[deprecatedLabel] != "", GroupName: t.Labels[groupLabel], CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt}
	for _, v := range t.Versions {
		if content && v.Schema != nil {
			if out.Schemas == nil {
				out.Schemas = map[string]json.RawMessage{}
			}
			out.Schemas[strconv.Itoa(v.Version)] = v.Schema
		}
	}
	return out
}

func (in *eventTypeIn) check(g given, whole bool) error {
	switch {
	case in.FeatureFlag != "":
		return invalid("event types have no feature flags here", "body", "featureFlag")
	case len(in.FeatureFlags) > 0:
		return invalid("event types have no feature flags here", "body", "featureFlags")
	case (whole || g.nulls["description"]) && !g.has("description"):
		return invalid("is required", "body", "description")
	}
	for name := range in.Schemas {
		if n, err := strconv.Atoi(name); err != nil || n < 1 || n > len(in.Schemas) {
			return invalid("the versions of a schema must be 1, 2, 3 and so on", "body", "schemas", name)
		}
	}
	return nil
}

// labels are the marks that the body sets, as a merge patch.
func (in *eventTypeIn) labels(g given) map[string]any {
	patch := map[string]any{}
	mark := func(member, label, value string) {
		switch {
		case !g.sets(member):
		case value == "":
			patch[label] = nil
		default:
			patch[label] = value
		}
	}
	truth := func(is bool) string {
		if is {
			return "true"
		}
		return ""
	}
	mark("archived", archivedLabel, truth(in.Archived))
	mark("deprecated", deprecatedLabel, truth(in.Deprecated))
	mark("groupName", groupLabel, in.GroupName)
	return patch
}

// described reads the body; whole says that nothing may lack.
func (a *ask) described(whole bool) (in eventTypeIn, g given, err error) {
	if g, err = a.decode(&in); err == nil {
		err = in.check(g, whole)
	}
	return in, g, err
}

func createType(a *ask) (reply, error) {
	in, g, err := a.described(true)
	if err == nil && in.Name == "" {
		err = invalid("is required", "body", "name")
	}
	if err != nil {
		return reply{}, err
	}
	a.tenant = a.catalogue()
	switch is, err := a.eventType(in.Name); {
	case missing(err):
	case err != nil:
		return reply{}, err
	case is.Labels[archivedLabel] != "": // created again, it is archived no more
		g.members["archived"] = true
		return a.updateType(is, &in, g, http.StatusCreated)
	case is.Labels[onceLabel] == "" || is.Labels[onceLabel] != a.mark():
		return reply{}, conflict("An event type with this name exists.")
	default:
		return a.updateType(is, &in, g, http.StatusCreated) // the same request again: what it left undone is done now
	}
	return a.makeType(&in, g)
}

// makeType registers an event type with its schemas.
func (a *ask) makeType(in *eventTypeIn, g given) (reply, error) {
	labels := map[string]string{}
	for name, value := range in.labels(g) {
		if text, is := value.(string); is {
			labels[name] = text
		}
	}
	if mark := a.mark(); mark != "" {
		labels[onceLabel] = mark
	}
	var t wire.EventType
	err := a.api(http.MethodPost, "/v1/event-types", nil, wire.NewEventType{Name: in.Name, Description: in.Description, Labels: labels}, &t)
	if err != nil {
		return reply{}, err
	}
	return a.updateType(&t, in, given{members: map[string]bool{"schemas": g.has("schemas")}}, http.StatusCreated)
}

// updateType changes the members that the body has, and adds the versions that are new.
func (a *ask) updateType(t *wire.EventType, in *eventTypeIn, g given, status int) (reply, error) {
	a.tenant = a.catalogue()
	changes := map[string]any{}
	if g.sets("description") {
		changes["description"] = in.Description
	}
	if labels := in.labels(g); len(labels) > 0 {
		changes["labels"] = labels
	}
	for n := 1; g.has("schemas") && n <= len(in.Schemas); n++ {
		schema := in.Schemas[strconv.Itoa(n)]
		if n <= len(t.Versions) {
			if !same(t.Versions[n-1].Schema, schema) {
				return reply{}, invalid("cannot be changed: a version of a schema stays as it is; add version "+strconv.Itoa(len(t.Versions)+1),
					"body", "schemas", strconv.Itoa(n))
			}
			continue
		}
		var is wire.EventType
		a.step = strconv.Itoa(n)
		if err := a.api(http.MethodPost, at("/v1/event-types", t.ID, "versions"), nil, wire.NewTypeVersion{Schema: schema}, &is); err != nil {
			return reply{}, err
		}
		t = &is
	}
	if len(changes) > 0 {
		var is wire.EventType
		if err := a.api(http.MethodPatch, at("/v1/event-types", t.ID), nil, changes, &is); err != nil {
			return reply{}, err
		}
		t = &is
	}
	return reply{status, viewType(t, true)}, nil
}

// same says whether two texts are the same JSON value.
func same(a, b []byte) bool {
	var x, y any
	return bytes.Equal(a, b) || json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func listTypes(a *ask) (reply, error) {
	a.tenant = a.catalogue()
	all, err := every[wire.EventType](a, "/v1/event-types", url.Values{})
	if err != nil {
		return reply{}, err
	}
	if !a.truth("include_archived", false) {
		all = slices.DeleteFunc(all, func(t wire.EventType) bool { return t.Labels[archivedLabel] != "" })
	}
	slices.SortFunc(all, func(x, y wire.EventType) int { return strings.Compare(x.Name, y.Name) })
	found, err := window(a, all, func(t *wire.EventType) string { return t.Name })
	out := page[eventTypeOut]{Data: []eventTypeOut{}, Iterator: found.Iterator, Prev: found.Prev, Done: found.Done}
	for i := range found.Data {
		t := &found.Data[i]
		if a.truth("with_content", false) && len(t.Versions) > 0 { // lists of the API leave schemas out
			if t, err = a.eventType(t.Name); err != nil {
				return reply{}, err
			}
		}
		out.Data = append(out.Data, viewType(t, true))
	}
	return reply{http.StatusOK, out}, err
}

func getType(a *ask) (reply, error) {
	t, err := a.eventType(a.PathValue("name"))
	if err != nil {
		return reply{}, err
	}
	return reply{http.StatusOK, viewType(t, true)}, nil
}

// upsertType replaces an event type, or registers the one in the path.
func upsertType(a *ask) (reply, error) {
	in, g, err := a.described(true)
	if err == nil && g.has("name") && in.Name != a.PathValue("name") {
		err = invalid("must be the name in the path", "body", "name")
	}
	if err != nil {
		return reply{}, err
	}
	in.Name = a.PathValue("name")
	for _, name := range []string{"description", "archived", "deprecated", "groupName"} {
		g.members[name] = true
	}
	t, err := a.eventType(in.Name)
	if missing(err) && validType(in.Name) {
		a.tenant = a.catalogue()
		return a.makeType(&in, g)
	}
	if err != nil {
		return reply{}, err
	}
	return a.updateType(t, &in, g, http.StatusOK)
}

func patchType(a *ask) (reply, error) {
	in, g, err := a.described(false)
	if err == nil && g.sets("name") {
		err = invalid("cannot be changed", "body", "name")
	}
	if err != nil {
		return reply{}, err
	}
	t, err := a.eventType(a.PathValue("name"))
	if err != nil {
		return reply{}, err
	}
	return a.updateType(t, &in, g, http.StatusOK)
}

// deleteType archives an event type; with expunge it is deleted.
func deleteType(a *ask) (reply, error) {
	t, err := a.eventType(a.PathValue("name"))
	if err != nil {
		return reply{}, err
	}
	a.tenant = a.catalogue()
	if a.truth("expunge", false) {
		return reply{status: http.StatusNoContent}, a.api(http.MethodDelete, at("/v1/event-types", t.ID), nil, nil, nil)
	}
	return reply{status: http.StatusNoContent}, a.api(http.MethodPatch, at("/v1/event-types", t.ID), nil,
		map[string]any{"labels": map[string]any{archivedLabel: "true"}}, nil)
}
