// Package catalogue reads the schemas of event types: it compiles a JSON Schema, compares data with
// it, and lists the differences between two versions.
//
// A schema is a tenant's text and runs inside the server, so its work is counted and not timed:
// each comparison of a value with a subschema is charged before it is made, and a check ends when
// its units are used up. What a schema can make the server keep is bounded when it is compiled
// (MaxSchema, maxNodes, maxPlaces, maxSteps). It names no other document: a reference begins with
// #.
//
// The dialect is JSON Schema 2020-12 without $dynamicRef and nested $id. As the standard has it by
// default, format and the keywords of content are not checked. Numbers are compared by all their
// digits, without a binary form that rounds or grows. Patterns are those of package regexp, which
// has no lookaround.
//
// It does not promise that Compare sees through combinations of schemas: where it cannot tell, a
// change counts as breaking and as stricter.
package catalogue

// Fault is something wrong: with a schema, or with data.
type Fault struct {
	Pointer string // JSON pointer into the schema or the data
	Detail  string // what must be different
}

// most faults are reported of one schema or one value.
const most = 16
