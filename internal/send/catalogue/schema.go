package catalogue

import (
	"regexp"
	"strings"
)

// Schema is a compiled schema. It never changes, and any number of goroutines may use it.
type Schema struct {
	root   *node
	tracks bool  // it has unevaluatedProperties or unevaluatedItems
	size   int64 // bytes in memory, about
}

// node is one subschema. A field of a keyword that is absent has its zero value; numbers that may
// be 0 are pointers.
type node struct {
	at string // JSON pointer into the schema

	never  bool // the schema false
	types  types
	values map[string]string // of enum and const: canonical texts, and the same as JSON; nil: any
	shown  []string          // the JSON, in the order of the schema

	multipleOf, minimum, maximum, above, below *decimal

	minLength, maxLength *int
	pattern              *pattern
	format               string

	prefix                   []*node
	items, contains          *node
	minContains, maxContains *int
	minItems, maxItems       *int
	unique                   bool

	properties             map[string]*node
	patterned              []patterned
	additional             *node
	names                  *node
	required               []string
	needs                  []dependent[[]string] // dependentRequired, sorted by name
	depends                []dependent[*node]    // dependentSchemas, sorted by name
	minMembers, maxMembers *int

	ref                    *node
	all, any, one          []*node
	not                    *node
	when, then, else_      *node
	restMembers, restItems *node // unevaluatedProperties, unevaluatedItems

	deprecated bool
}

// dependent is what holds of objects with the member name: other members that they have to have, or
// a schema.
type dependent[T any] struct {
	name string
	then T
}

type patterned struct {
	pattern *pattern
	node    *node
}

// pattern is a regular expression and the size of its program.
type pattern struct {
	*regexp.Regexp
	steps int64
}

// inPlace are the subschemas that see the same value as the node.
func (n *node) inPlace() []*node {
	var all []*node
	for _, sub := range []*node{n.ref, n.not, n.when, n.then, n.else_} {
		if sub != nil {
			all = append(all, sub)
		}
	}
	all = append(append(append(all, n.all...), n.any...), n.one...)
	for _, d := range n.depends {
		all = append(all, d.then)
	}
	return all
}

// types is a set of the types of JSON values.
type types uint8

const (
	null types = 1 << iota
	boolean
	integer
	number // with integers
	text
	array
	object
)

var typeNames = map[string]types{
	"null": null, "boolean": boolean, "integer": integer, "number": number | integer, "string": text, "array": array, "object": object,
}

// typeOrder is the order in which types are named to people.
var typeOrder = []struct {
	types types
	name  string
}{
	{text, "a string"}, {number | integer, "a number"}, {integer, "an integer"}, {boolean, "true or false"}, {array, "an array"},
	{object, "an object"}, {null, "null"},
}

// String names the types: "a string or null".
func (t types) String() string {
	var all []string
	for _, one := range typeOrder {
		if t&one.types == one.types {
			all = append(all, one.name)
			t &^= one.types
		}
	}
	if t&number != 0 { // numbers that are no integers, which only Compare meets
		all = append(all, "a number")
	}
	return strings.Join(all, " or ")
}

// escape makes a name a part of a JSON pointer.
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
