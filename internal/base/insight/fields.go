package insight

import (
	"strings"

	"github.com/tidwall/gjson"
)

// Limits of the fields that are read from a payload.
const (
	mostDepth  = 4  // objects in objects
	mostFields = 64 // of one payload: those with a value to compare, and as many others
	mostBytes  = 64 // of a value; longer ones are passed over
)

// Fields returns the fields of a JSON object that may explain something: strings, numbers, booleans
// and nulls, by their path. Of longer values, objects and arrays only the field itself is returned,
// without a value: it is not absent.
func Fields(data []byte) []Trait {
	if !gjson.ValidBytes(data) {
		return nil
	}
	var r reader
	r.object(nil, gjson.ParseBytes(data))
	return r.found
}

type reader struct {
	found  []Trait
	values int // of found: those with a value
}

// pass adds a field without its value.
func (r *reader) pass(path []string) {
	if len(r.found)-r.values < mostFields {
		r.found = append(r.found, Trait{Field, strings.Join(path, "."), ""})
	}
}

func (r *reader) object(path []string, o gjson.Result) {
	if !o.IsObject() || len(path) >= mostDepth {
		return
	}
	o.ForEach(func(name, value gjson.Result) bool {
		here := append(path[:len(path):len(path)], name.String())
		switch {
		case value.IsObject():
			r.pass(here)
			r.object(here, value)
		case value.IsArray() || len(value.Raw) > mostBytes:
			r.pass(here)
		default:
			r.found = append(r.found, Trait{Field, strings.Join(here, "."), value.Raw})
			r.values++
		}
		return r.values < mostFields
	})
}
