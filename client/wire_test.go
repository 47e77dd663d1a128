package client

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// pairs are the types of this package that are JSON, and the schema of each in the API's document.
var pairs = []struct {
	schema string
	of     any
}{
	{"Attempt", Attempt{}}, {"Phases", Phases{}}, {"Delivery", Delivery{}}, {"Delivery.last", Last{}},
	{"Endpoint", Endpoint{}}, {"NewEndpoint", NewEndpoint{}}, {"Endpoint.preset_shape", PresetShape{}}, {"Health", Health{}},
	{"Secret", SecretInfo{}}, {"Event", Event{}}, {"NewEvent", NewEvent{}}, {"Published", Published{}},
	{"Stats", Stats{}}, {"Bucket", Bucket{}}, {"Totals", Totals{}}, {"Latency", Latency{}},
	{"Intake", Request{}}, {"Intake.known_by", KnownBy{}}, {"Key", Key{}}, {"NewKey", NewKey{}}, {"Meta", MessageMeta{}},
	{"Lane", Lane{}}, {"Audit", AuditEntry{}}, {"NamedPolicy", Policy{}},
	{"Queue", Queue{}}, {"NewQueue", NewQueue{}}, {"Consumer", Consumer{}}, {"Purge", Purged{}},
	{"Replay", Replay{}}, {"NewReplay", NewReplay{}}, {"Selection", Selection{}}, {"Plan", ReplayPlan{}}, {"Item", ReplayItem{}}, {"Excluded", ReplayPlan{}.Excluded},
	{"Source", Source{}}, {"NewSource", NewSource{}}, {"Verify", Verify{}}, {"VerifySettings", NewVerify{}},
	{"Dedupe", Dedupe{}}, {"DedupeSettings", NewDedupe{}}, {"Outbox", Outbox{}}, {"OutboxSettings", NewOutbox{}},
	{"Provider", Provider{}}, {"Refusals", Refusals{}}, {"Tenant", Tenant{}},
	{"EventType", EventType{}}, {"NewEventType", NewEventType{}}, {"NewTypeVersion", NewTypeVersion{}}, {"TypeVersion", TypeVersion{}},
	{"TypeComparison", TypeComparison{}}, {"TypeDifference", TypeDifference{}},
	{"Cluster", Cluster{}}, {"Member", Member{}}, {"Fault", Field{}},
}

// schema is a schema of the document, as far as it is compared.
type schema struct{ Properties map[string]schema }

// different are the fields that one side lacks on purpose: "Schema.field", and why.
var different = map[string]string{
	"NewEvent.aggregate_id":   "callers join it and the type to Key",
	"NewEvent.aggregate_type": "as aggregate_id",
	"NewEvent.data":           "its own MarshalJSON writes Data",
	"NewReplay.dry_run":       "PlanReplay sets it",
	"Meta.ack_url":            "the URLs are for programs without this package",
	"Meta.nack_url":           "as ack_url",
	"Meta.extend_url":         "as ack_url",
	"Meta.reject_url":         "as ack_url",
	"NamedPolicy":             "the rules of a policy are read from Raw, by package policy",
}

// The client reads and writes all fields that the API's document has, and no others. It fails for a
// field that was added to one side alone.
func TestTheClientHasTheFieldsOfTheDocument(t *testing.T) {
	raw, err := os.ReadFile("../internal/api/openapi.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]schema
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	differs := func(field, message string) {
		whole, _, _ := strings.Cut(field, ".")
		if different[whole] != "" {
			field = whole
		}
		if used[field] = true; different[field] == "" {
			t.Errorf("%s %s", field, message)
		}
	}
	for _, p := range pairs {
		name, part, _ := strings.Cut(p.schema, ".")
		schema := doc.Components.Schemas[name]
		if part != "" {
			schema = schema.Properties[part]
		}
		if len(schema.Properties) == 0 {
			t.Errorf("the document has no schema %s", p.schema)
			continue
		}
		fields := map[string]bool{}
		for _, f := range reflect.VisibleFields(reflect.TypeOf(p.of)) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				fields[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			if !fields[name] {
				differs(p.schema+"."+name, "is in the document and not in "+reflect.TypeOf(p.of).Name())
			}
		}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if _, there := schema.Properties[name]; !there {
				differs(p.schema+"."+name, "is in "+reflect.TypeOf(p.of).Name()+" and not in the document")
			}
		}
	}
	for field := range different {
		if !used[field] {
			t.Errorf("%s does not differ any more: take it off the list", field)
		}
	}
}

// A type that is JSON and not among the pairs would be held by nothing.
func TestEveryTypeWithTagsHasAPair(t *testing.T) {
	paired := map[string]bool{}
	for _, p := range pairs {
		paired[reflect.TypeOf(p.of).Name()] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			types, ok := decl.(*ast.GenDecl)
			if !ok || types.Tok != token.TYPE {
				continue
			}
			for _, spec := range types.Specs {
				spec := spec.(*ast.TypeSpec)
				body, ok := spec.Type.(*ast.StructType)
				if ok && !paired[spec.Name.Name] && slices.ContainsFunc(body.Fields.List, tagged) && partOf[spec.Name.Name] == "" {
					t.Errorf("%s: %s has JSON tags and no pair", name, spec.Name.Name)
				}
			}
		}
	}
}

func tagged(f *ast.Field) bool { return f.Tag != nil && strings.Contains(f.Tag.Value, "json:") }

// partOf are types whose fields are held with those of the type that they are embedded in.
var partOf = map[string]string{"QueueCounts": "Queue", "Marks": "Delivery"}
