package catalogue

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

func (r *result) array(n *node, all []any) {
	r.count(len(all), n.minItems, n.maxItems, "items")
	if n.unique {
		r.distinct(all)
	}
	for i := 0; i < len(all) && r.goesOn(); i++ {
		switch {
		case i < len(n.prefix):
			r.below(n.prefix[i], all[i], &path{above: r.at, index: i, item: true})
		case n.items != nil:
			r.below(n.items, all[i], &path{above: r.at, index: i, item: true})
		default:
			i = len(all)
			continue
		}
		r.seen.item(i)
	}
	if n.contains != nil && r.goesOn() {
		r.containing(n, all)
	}
}

// distinct requires items that differ. Reading each once takes less than comparing each two.
func (r *result) distinct(all []any) {
	where := make(map[string]int, len(all))
	for i, item := range all {
		if !r.walk(item) || !r.charge(perMember) {
			return
		}
		text := string(canonical(nil, item))
		if first, twice := where[text]; twice {
			r.faultAt(&path{above: r.at, index: i, item: true}, fmt.Sprintf("must differ from the other items; item %d is the same", first))
			return
		}
		where[text] = i
	}
}

func (r *result) containing(n *node, all []any) {
	found := 0
	for i, item := range all {
		if right, _ := r.see(n.contains, item, nil, nil); right {
			found++
			r.seen.item(i)
		}
		if r.err != nil {
			return
		}
	}
	r.count(found, cmp.Or(n.minContains, new(1)), n.maxContains, "items of the form that contains says")
}

func (r *result) object(n *node, all map[string]any) {
	r.count(len(all), n.minMembers, n.maxMembers, "members")
	r.members(n.required, all, "is required")
	if !r.charge(int64(len(n.needs))) {
		return
	}
	for _, d := range n.needs {
		if _, there := all[d.name]; there && r.goesOn() {
			r.members(d.then, all, "is required with "+d.name)
		}
	}
	if n.properties == nil && n.patterned == nil && n.additional == nil && n.names == nil || !r.goesOn() {
		return
	}
	if !r.charge(perMember * int64(len(all)) * int64(1+len(n.patterned))) {
		return
	}
	for _, name := range names(all) {
		if !r.goesOn() {
			return
		}
		r.member(n, name, all[name])
	}
}

// members requires members.
func (r *result) members(required []string, all map[string]any, detail string) {
	if !r.charge(int64(len(required))) {
		return
	}
	for _, name := range required {
		if _, there := all[name]; !there && r.goesOn() {
			r.faultAt(&path{above: r.at, name: name}, detail)
		}
	}
}

func (r *result) member(n *node, name string, v any) {
	at := &path{above: r.at, name: name}
	if n.names != nil {
		if right, _ := r.see(n.names, name, nil, nil); !right {
			r.faultAt(at, "has a name that is not allowed here")
		}
	}
	described := false
	if sub := n.properties[name]; sub != nil {
		described = true
		r.below(sub, v, at)
	}
	for _, p := range n.patterned {
		if r.matches(p.pattern, name) {
			described = true
			r.below(p.node, v, at)
		}
	}
	if !described && n.additional != nil {
		described = true
		if n.additional.never {
			r.faultAt(at, "is not known in this version of the event type")
		} else {
			r.below(n.additional, v, at)
		}
	}
	if described {
		r.seen.member(name)
	}
}

// combined compares the value with the subschemas that see all of it.
func (r *result) combined(n *node, v any) {
	if n.ref != nil {
		r.same(n.ref, v)
	}
	for _, sub := range n.all {
		if r.goesOn() {
			r.same(sub, v)
		}
	}
	if n.any != nil && r.goesOn() {
		r.anyOf(n.any, v)
	}
	if n.one != nil && r.goesOn() {
		r.oneOf(n.one, v)
	}
	if n.not != nil && r.goesOn() {
		if right, _ := r.see(n.not, v, r.at, nil); right && r.err == nil {
			r.fault("has a form that the schema excludes")
		}
	}
	if n.when != nil && r.goesOn() {
		then := n.else_
		if r.quietly(n.when, v) {
			then = n.then
		}
		if then != nil && r.goesOn() {
			r.same(then, v)
		}
	}
	if all, is := v.(map[string]any); is {
		if !r.charge(int64(len(n.depends))) {
			return
		}
		for _, d := range n.depends {
			if _, there := all[d.name]; there && r.goesOn() {
				r.same(d.then, v)
			}
		}
	}
}

func (r *result) anyOf(subs []*node, v any) {
	found := false
	for _, sub := range subs {
		if r.quietly(sub, v) {
			found = true
			if r.seen == nil {
				return // else each of them counts
			}
		}
	}
	if !found {
		r.none(subs, v)
	}
}

func (r *result) oneOf(subs []*node, v any) {
	found := []int{}
	for i, sub := range subs {
		if r.quietly(sub, v) {
			found = append(found, i)
		}
		if len(found) == 2 {
			r.fault(fmt.Sprintf("must have exactly one of the forms in oneOf, and has those at %d and %d", found[0], found[1]))
			return
		}
	}
	if len(found) == 0 {
		r.none(subs, v)
	}
}

// none reports a value that satisfies none of several subschemas. If it has the type of one of them
// only, the faults are those of that one.
func (r *result) none(subs []*node, v any) {
	if !r.charge(int64(len(subs))) {
		return
	}
	is := typeOf(v)
	meant := slices.DeleteFunc(slices.Clone(subs), func(n *node) bool { return n.never || n.types != 0 && n.types&is == 0 })
	if len(meant) == 1 && r.into != nil && r.err == nil {
		r.same(meant[0], v)
		r.right = false
		return
	}
	r.fault(fmt.Sprintf("has none of the %d forms that are allowed here", len(subs)))
}

// rest compares what no other subschema has seen.
func (r *result) rest(n *node, v any) {
	switch v := v.(type) {
	case map[string]any:
		if n.restMembers == nil || !r.charge(perMember*int64(len(v))) {
			return
		}
		for _, name := range names(v) {
			if r.goesOn() && !r.seen.members[name] {
				r.below(n.restMembers, v[name], &path{above: r.at, name: name})
				r.seen.member(name)
			}
		}
	case []any:
		if n.restItems == nil || !r.charge(perMember*int64(len(v))) {
			return
		}
		for i := range v {
			if r.goesOn() && !r.seen.items[i] {
				r.below(n.restItems, v[i], &path{above: r.at, index: i, item: true})
				r.seen.item(i)
			}
		}
	}
}

// see compares a value with a subschema. into gets the faults; nil: only whether there is one
// matters. The result is whether there is none, and the members and items seen if so.
func (c *check) see(n *node, v any, at *path, into *[]Fault) (bool, *seen) {
	defer func() { c.depth-- }()
	if !c.within() || !c.charge(perVisit) {
		return false, nil
	}
	var s *seen
	if c.tracks {
		c.charge(perSeen)
		s = &seen{map[string]bool{}, map[int]bool{}}
	}
	r := result{check: c, at: at, into: into, seen: s, right: true}
	if n.never {
		r.fault("is not allowed here")
		return false, nil
	}
	r.own(n, v)
	if r.goesOn() {
		switch v := v.(type) {
		case string:
			r.text(n, v)
		case json.Number:
			r.number(n, string(v))
		case []any:
			r.array(n, v)
		case map[string]any:
			r.object(n, v)
		}
	}
	if r.goesOn() {
		r.combined(n, v)
	}
	if r.goesOn() {
		r.rest(n, v)
	}
	return r.right, r.seen
}

// below compares a part of the value.
func (r *result) below(n *node, v any, at *path) {
	if right, _ := r.see(n, v, at, r.into); !right {
		r.right = false
	}
}

// same compares the value itself with another subschema.
func (r *result) same(n *node, v any) {
	right, s := r.see(n, v, r.at, r.into)
	if !right {
		r.right = false
		return
	}
	r.add(r.seen, s)
}

// quietly says whether the value satisfies another subschema.
func (r *result) quietly(n *node, v any) bool {
	right, s := r.see(n, v, r.at, nil)
	if right {
		r.add(r.seen, s)
	}
	return right
}
