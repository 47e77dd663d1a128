package web

import (
	"fmt"
	"net/url"
	"reflect"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/wire"
)

// The forms of event types and their versions.
var (
	typeBlank = blank{of: reflect.TypeFor[wire.NewEventType](), rows: []input{
		{at: "name", label: "Event type", when: "create", sample: "invoice.paid", help: "dotted segments; it cannot be changed later"},
		{at: "description", label: "Description", help: "for people: when is such an event published?"},
		{at: "labels", label: "Labels", sample: "team: billing", help: "one on each line"},
		{at: "check", label: "Check", help: "not set is off. refuse: an event that does not satisfy the schema is answered 422, and is not stored. off: events are not compared"},
		{at: "retain", label: "Retain", help: "not set is all. none: what an event contains is erased once it is delivered, and none of its deliveries is a dead letter"},
		{at: "schema", label: "JSON Schema of the data", when: "create", sample: `{"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}`,
			help: "JSON Schema 2020-12, at most 64 KiB. Empty: add it later as version 1"},
		{at: "example", label: "Example", when: "create", sample: `{"id": "in_1"}`, help: "data that satisfy the schema. Playground and Send example use it"},
		{at: "note", label: "Note on version 1", when: "create"},
		{at: "tenant", label: "Tenant", when: "create", owner: true, sample: "default"},
	}}
	versionBlank = blank{of: reflect.TypeFor[wire.NewTypeVersion](), rows: []input{
		{at: "schema", label: "JSON Schema of the data", help: "the whole schema. It cannot be changed later"},
		{at: "example", label: "Example", help: "data that satisfy the schema"},
		{at: "note", label: "Note", help: "the changes, for the people who receive these events"},
	}}
)

var newType = adding(&typeBlank, "Register", "Which events do you publish?",
	"A registered type has a schema in versions, an example, and a list of the endpoints that get it.")

var addType = adds(&typeBlank, "/v1/event-types", func(made *client.EventType) (to, notice string) {
	return "/event-types/" + url.PathEscape(made.ID), "The event type is registered."
})

func editType(v *visit, t *client.EventType) (formModel, error) {
	f := v.form(&typeBlank, t.JSON(), nil)
	m := v.formPage("Change", f, "Save", v.below("/event-types", t.Name, t.ID, "Change")...)
	m.Verdict.say("Change "+t.Name+".", "", "Schemas are changed by adding a version.")
	return m, nil
}

func newVersion(v *visit, t *client.EventType) (formModel, error) {
	m := v.formPage("Add a version", v.form(&versionBlank, nil, nil), "Add a version", v.below("/event-types", t.Name, t.ID, "Add a version")...)
	m.Verdict.say("Add a version of "+t.Name+".", "", "Events without schema_version follow the newest version from then on.")
	if n := len(t.Versions); n > 0 && !v.again() {
		m.Form.set("schema", textOf(kindJSON, t.Versions[n-1].Schema))
		m.Form.set("example", textOf(kindJSON, t.Versions[n-1].Example))
	}
	return m, nil
}

var addVersion = adds(&versionBlank, "/v1/event-types/{id}/versions", func(t *client.EventType) (to, notice string) {
	return "/event-types/{id}", fmt.Sprintf("The newest version is %d. Look at its differences below.", len(t.Versions))
})

func deleteTypeForm(v *visit, t *client.EventType) (formModel, error) {
	f := v.consentForm(deleteWord, "")
	m := v.formPage("Delete "+t.Name, f, "Delete the event type", v.below("/event-types", t.Name, t.ID, "Delete")...)
	m.Verdict.say("Delete the event type "+t.Name+"?", "",
		say.Many(len(t.Versions), "version ends", "versions end")+
			" with it. Events of the type stay, and are published without a check from then on.")
	return m, nil
}
