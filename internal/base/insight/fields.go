package insight

import (
	"strings"

	"github.com/tidwall/gjson"
)

// Limits bound the fields that are read from a payload. Zero fields take their defaults.
type Limits struct {
	Depth  int // objects in objects
	Fields int // of one payload: those with a value to compare, and as many others
	Bytes  int // of a value; longer ones are passed over
}

// DefaultLimits are the limits that are used where none is given.
func DefaultLimits() Limits { return Limits{Depth: 4, Fields: 64, Bytes: 64} }

// Fields returns the fields of a JSON object that may explain something: strings, numbers, booleans
// and nulls, by their path. Of longer values, objects and arrays only the field itself is returned,
// without a value: it is not absent.
func Fields(data []byte, l Limits) []Trait {
	d := DefaultLimits()
	fill(&l.Depth, d.Depth)
	fill(&l.Fields, d.Fields)
	fill(&l.Bytes, d.Bytes)
	if !gjson.ValidBytes(data) {
		return nil
	}
	r := reader{Limits: l}
	r.object(nil, gjson.ParseBytes(data))
	return r.found
}

type reader struct {
	Limits
	found  []Trait
	values int // of found: those with a value
}

// pass adds a field without its value.
func (r *reader) pass(path []string) {
	if len(r.found)-r.values < r.Fields {
		r.found = append(r.found, Trait{Field, strings.Join(path, "."), ""})
	}
}

func (r *reader) object(path []string, o gjson.Result) {
	if !o.IsObject() || len(path) >= r.Depth {
		return
	}
	o.ForEach(func(name, value gjson.Result) bool {
		here := append(path[:len(path):len(path)], name.String())
		switch {
		case value.IsObject():
			r.pass(here)
			r.object(here, value)
		case value.IsArray() || len(value.Raw) > r.Bytes:
			r.pass(here)
		default:
			r.found = append(r.found, Trait{Field, strings.Join(here, "."), value.Raw})
			r.values++
		}
		return r.values < r.Fields
	})
}
