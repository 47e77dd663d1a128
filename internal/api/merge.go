package api

import (
	"github.com/tidwall/gjson"
)

// mergePatch applies a JSON merge patch (RFC 7396) to a document: null removes a member, an object is merged, everything else
// replaces. The target is the server's own; a name that the patch gives twice is a fault.
func mergePatch(target, patch gjson.Result, base string, f *faults) []byte {
	if !patch.IsObject() {
		return []byte(patch.Raw)
	}
	merged := newMembers(target)
	members(patch, base, f, func(v value) bool {
		if v.absent() {
			merged.remove(v.name)
			return true
		}
		merged.set(v.name, mergePatch(merged.get(v.name), v.Result, v.pointer()+"/", f))
		return true
	})
	return merged.encode()
}

// objectMembers are the members of an object, in order.
type objectMembers struct {
	names  []string
	values map[string][]byte
}

func newMembers(object gjson.Result) *objectMembers {
	m := &objectMembers{values: map[string][]byte{}}
	if object.IsObject() {
		object.ForEach(func(name, v gjson.Result) bool {
			m.set(name.Str, []byte(v.Raw))
			return true
		})
	}
	return m
}

func (m *objectMembers) get(name string) gjson.Result { return gjson.ParseBytes(m.values[name]) }

func (m *objectMembers) set(name string, value []byte) {
	if _, there := m.values[name]; !there {
		m.names = append(m.names, name)
	}
	m.values[name] = value
}

// remove keeps the name's place in the order, without a value.
func (m *objectMembers) remove(name string) {
	if _, there := m.values[name]; there {
		m.values[name] = nil
	}
}

func (m *objectMembers) encode() []byte {
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
