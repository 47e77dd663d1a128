package strict

import (
	"github.com/tidwall/gjson"
)

// Merge applies a JSON merge patch (RFC 7396) to a document: null removes a member, an object is
// merged, everything else replaces. The target is the server's own; a name that the patch gives
// twice is a fault.
func Merge(target, patch gjson.Result, base string, f *Faults) []byte {
	if !patch.IsObject() {
		return []byte(patch.Raw)
	}
	merged := NewObject(target)
	Members(patch, base, f, func(v Value) bool {
		if v.Absent() {
			merged.remove(v.Name)
			return true
		}
		merged.Set(v.Name, Merge(merged.get(v.Name), v.Result, v.Pointer()+"/", f))
		return true
	})
	return merged.Encode()
}

// Object are the members of an object, in order.
type Object struct {
	names  []string
	values map[string][]byte
}

// NewObject has the members of a JSON object; of anything else it has none.
func NewObject(object gjson.Result) *Object {
	m := &Object{values: map[string][]byte{}}
	if object.IsObject() {
		object.ForEach(func(name, v gjson.Result) bool {
			m.Set(name.Str, []byte(v.Raw))
			return true
		})
	}
	return m
}

func (m *Object) get(name string) gjson.Result { return gjson.ParseBytes(m.values[name]) }

// Set adds a member, or replaces its value.
func (m *Object) Set(name string, value []byte) {
	if _, there := m.values[name]; !there {
		m.names = append(m.names, name)
	}
	m.values[name] = value
}

// remove keeps the name's place in the order, without a value.
func (m *Object) remove(name string) {
	if _, there := m.values[name]; there {
		m.values[name] = nil
	}
}

// Encode writes the object as JSON.
func (m *Object) Encode() []byte {
	out := []byte{'{'}
	for _, name := range m.names {
		if value := m.values[name]; value != nil {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = gjson.AppendJSONString(out, name)
			out = append(append(out, ':'), value...)
		}
	}
	return append(out, '}')
}
