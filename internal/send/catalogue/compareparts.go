package catalogue

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// members compares what two subschemas say of an object's members.
func (c *comparison) members(a, b *node, at string) {
	if !c.charge(perMember * int64(len(a.properties)+len(b.properties)+len(a.required)+len(b.required))) {
		return
	}
	c.required(a, b, at, a.required, b.required, "", "/required")
	was, is := byName(a.needs), byName(b.needs)
	for _, name := range union(names(was), names(is)) {
		c.required(a, b, at, was[name], is[name], " if "+inside(at, name)+" is there", "/dependentRequired/"+escape(name))
	}
	for _, name := range union(names(a.properties), names(b.properties)) {
		c.member(a, b, name, inside(at, name))
	}
	patterns := map[string][2]*node{}
	for i, n := range []*node{a, b} {
		for _, p := range n.patterned {
			both := patterns[p.pattern.String()]
			both[i] = p.node
			patterns[p.pattern.String()] = both
		}
	}
	for _, name := range names(patterns) {
		switch both := patterns[name]; {
		case both[0] == nil:
			c.add(both[1].at, true, true, "%s: members whose names match %s are described.", subject(at), name)
		case both[1] == nil:
			c.add(both[0].at, true, true, "%s: members whose names match %s are not described any more.", subject(at), name)
		default:
			c.part(both[0], both[1], inside(at, name), (*node).others)
		}
	}
	c.parts(a.additional, b.additional, a, b, "additionalProperties", inside(at, "*"), (*node).others)
	c.parts(a.names, b.names, a, b, "propertyNames", "The name of a member of "+subject(at), func(*node) []*node { return nil })
	c.parts(a.restMembers, b.restMembers, a, b, "unevaluatedProperties", inside(at, "*"), (*node).others)
}

// others are the subschemas for members that are not described by their names.
func (n *node) others() []*node {
	all := []*node{n.additional, n.restMembers}
	for _, p := range n.patterned {
		all = append(all, p.node)
	}
	return all
}

// elements are the subschemas for an array's items.
func (n *node) elements() []*node { return append([]*node{n.items, n.restItems}, n.prefix...) }

// parts compares a keyword's subschemas of two nodes, of which either may have none.
func (c *comparison) parts(was, is, a, b *node, keyword, at string, of func(*node) []*node) {
	if was != nil || is != nil {
		c.part(orAnything(was, a, keyword), orAnything(is, b, keyword), at, of)
	}
}

func (c *comparison) required(a, b *node, at string, was, is []string, when, keyword string) {
	for _, name := range union(was, is) {
		_, before := slices.BinarySearch(was, name)
		_, now := slices.BinarySearch(is, name)
		switch {
		case now && !before:
			c.tightens(b.at+keyword, "%s is required%s.", inside(at, name), when)
		case before && !now:
			c.widens(pointerTo(a, b, keyword[1:], len(is) > 0), "%s may be missing%s.", inside(at, name), when)
		}
	}
}

func (c *comparison) member(a, b *node, name, at string) {
	was, is := a.properties[name], b.properties[name]
	of := func(n *node) []*node { return append(n.others(), n.properties[name]) }
	elsewhere := func(n *node) bool {
		return n != a && (n.properties[name] != nil || n.additional != nil || len(n.patterned) > 0)
	}
	switch {
	case was != nil && is != nil:
		c.part(was, is, at, of)
	case is != nil:
		switch {
		case len(a.patterned)+len(b.patterned) > 0 || c.tracks:
			c.add(is.at, true, true, "%s is described by its name.", at)
			return
		case a.additional != nil && a.additional.never:
			c.widens(is.at, "%s is new, and was not allowed.", at)
			return
		case slices.ContainsFunc(c.here, elsewhere):
			c.add(is.at, true, true, "%s is described in another way.", at)
			return
		}
		c.add(is.at, false, false, "%s is new.", at)
		if a.additional != nil {
			c.part(a.additional, is, at, of)
		}
	default:
		closed := len(a.patterned)+len(b.patterned) > 0 || c.tracks || b.additional != nil
		c.add(was.at, true, closed, "%s is not described any more.", at)
	}
}

// items compares what two subschemas say of an array's items.
func (c *comparison) items(a, b *node, at string) {
	for i := range max(len(a.prefix), len(b.prefix)) {
		was, is := a.items, b.items
		if i < len(a.prefix) {
			was = a.prefix[i]
		}
		if i < len(b.prefix) {
			is = b.prefix[i]
		}
		c.parts(was, is, a, b, "items", at+"["+strconv.Itoa(i)+"]", (*node).elements)
	}
	c.parts(a.items, b.items, a, b, "items", at+"[]", (*node).elements)
	c.parts(a.restItems, b.restItems, a, b, "unevaluatedItems", at+"[]", (*node).elements)
	switch {
	case a.contains == nil && b.contains == nil:
	case a.contains == nil:
		c.tightens(b.contains.at, "%s must contain items of some form.", subject(at))
	case b.contains == nil:
		c.widens(a.contains.at, "%s need not contain items of some form.", subject(at))
	case !c.same(a.contains, b.contains) || !equal(a.minContains, b.minContains) || !equal(a.maxContains, b.maxContains):
		c.add(b.contains.at, true, true, "%s must contain items of another form.", subject(at))
	}
}

func equal(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

// combinations compares the subschemas that see the same value.
func (c *comparison) combinations(a, b *node, at string) {
	if a.ref != nil || b.ref != nil {
		a, b = withRef(a), withRef(b)
	}
	c.lists(a.all, b.all, a, b, "allOf", at)
	c.lists(a.any, b.any, a, b, "anyOf", at)
	unsure := c.unsure
	c.unsure = unsure || len(a.one)+len(b.one) > 0 && !(exclusive(a.one) && exclusive(b.one))
	c.lists(a.one, b.one, a, b, "oneOf", at)
	c.unsure = unsure
	switch {
	case a.not == nil && b.not == nil:
	case a.not == nil:
		c.tightens(b.not.at, "%s must not have some form.", subject(at))
	case b.not == nil:
		c.widens(a.not.at, "%s may have a form that was excluded.", subject(at))
	case !c.same(a.not, b.not):
		c.add(b.not.at, true, true, "%s must not have another form than before.", subject(at))
	}
	if (a.when == nil) != (b.when == nil) || a.when != nil && !(c.same(a.when, b.when) &&
		c.same(orAnything(a.then, a, "then"), orAnything(b.then, b, "then")) &&
		c.same(orAnything(a.else_, a, "else"), orAnything(b.else_, b, "else"))) {
		c.add(pointerTo(a, b, "if", b.when != nil), true, true, "%s has to satisfy other conditions (if, then, else).", subject(at))
	}
	was, is := byName(a.depends), byName(b.depends)
	for _, name := range union(names(was), names(is)) {
		if was[name] != nil || is[name] != nil {
			c.compare(orAnything(was[name], a, "dependentSchemas"), orAnything(is[name], b, "dependentSchemas"), at)
		}
	}
}

// withRef is a node whose reference is one of its allOf.
func withRef(n *node) *node {
	if n.ref == nil {
		return n
	}
	m := *n
	m.all, m.ref = append([]*node{n.ref}, n.all...), nil
	return &m
}

// lists compares lists of subschemas. Those that are in both, wherever, differ in nothing; the
// others are compared in their order; the rest of the longer list was added or removed.
func (c *comparison) lists(was, is []*node, a, b *node, keyword, at string) {
	forms := keyword != "allOf"
	if (len(was) == 0) != (len(is) == 0) && forms {
		added := len(is) > 0
		c.add(pointerTo(a, b, keyword, added), !added, added, "%s %s.", subject(at),
			map[bool]string{true: "must have one of some forms", false: "may have any form"}[added])
		return
	}
	was, is = slices.Clone(was), slices.Clone(is)
	for i := 0; i < len(was) && c.err == nil; {
		j := slices.IndexFunc(is, func(n *node) bool { return c.same(was[i], n) })
		if j < 0 {
			i++
			continue
		}
		was, is = slices.Delete(was, i, i+1), slices.Delete(is, j, j+1)
	}
	both := min(len(was), len(is))
	for i := range both {
		c.compare(was[i], is[i], at)
	}
	more, less := "has to satisfy one more schema", "has to satisfy one schema less"
	if forms {
		more, less = "may have one more form", "may have one form less"
	}
	for _, n := range is[both:] {
		c.add(n.at, forms, !forms, "%s %s.", subject(at), more)
	}
	for _, n := range was[both:] {
		c.add(n.at, !forms, forms, "%s %s.", subject(at), less)
	}
}

// exclusive says whether a value can satisfy one of the schemas at most: their types differ, or the
// values of a member that all of them require.
func exclusive(subs []*node) bool {
	if len(subs) < 2 {
		return true
	}
	apart := func(f func(n *node) (types, map[string]string)) bool {
		var taken types
		texts := map[string]bool{}
		for _, n := range subs {
			t, values := f(target(n))
			if t == 0 && values == nil || taken&t != 0 {
				return false
			}
			taken |= t
			for text := range values {
				if texts[text] {
					return false
				}
				texts[text] = true
			}
		}
		return true
	}
	if apart(func(n *node) (types, map[string]string) { return n.types, nil }) {
		return true
	}
	for _, name := range target(subs[0]).required {
		if apart(func(n *node) (types, map[string]string) {
			member := n.properties[name]
			_, required := slices.BinarySearch(n.required, name)
			if member == nil || !required || n.types != object {
				return 0, nil
			}
			return 0, target(member).values
		}) {
			return true
		}
	}
	return false
}

func byName[T any](list []dependent[T]) map[string]T {
	all := make(map[string]T, len(list))
	for _, d := range list {
		all[d.name] = d.then
	}
	return all
}

// union merges two sorted lists.
func union(a, b []string) []string {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

// same says whether two subschemas differ in nothing. It takes pairs whose comparison it is within
// as the same, so that recursion ends.
func (c *comparison) same(a, b *node) bool {
	quiet := comparison{check: check{Meter: c.Meter, depth: c.depth, tracks: c.tracks}, met: map[pair]bool{}, quiet: true}
	if c.quiet && c.charge(int64(len(c.met))) {
		quiet.met = maps.Clone(c.met)
	}
	quiet.compare(a, b, "")
	return c.err == nil && len(quiet.found) == 0
}

// compare lists the differences of two subschemas for the value at a place of the data.
func (c *comparison) compare(a, b *node, at string) {
	a, b = target(a), target(b)
	key := pair{a.orPlain(), b.orPlain(), c.unsure, c.beside}
	if key.a == key.b || c.met[key] || c.quiet && len(c.found) > 0 || len(c.found) >= maxDifferences || !c.charge(perPair) {
		return
	}
	defer func() { c.depth-- }()
	if !c.within() {
		return
	}
	c.met[key] = true
	switch {
	case a.never && b.never:
		return
	case a.never:
		c.widens(b.at, "%s is allowed.", subject(at))
		return
	case b.never:
		c.tightens(b.at, "%s is not allowed any more.", subject(at))
		return
	}
	if !c.types(a, b, at) {
		return
	}
	c.values(a, b, at)
	c.bounds(a, b, at)
	c.members(a, b, at)
	c.items(a, b, at)
	c.combinations(a, b, at)
	if b.deprecated && !a.deprecated {
		c.add(b.at+"/deprecated", false, false, "%s is deprecated.", subject(at))
	}
}

// part compares two subschemas of a part of the value. of returns a subschema's own for that part.
func (c *comparison) part(a, b *node, at string, of func(*node) []*node) {
	here, beside := c.here, c.beside
	c.here, c.beside = nil, ""
	var places []string
	met := map[*node]bool{nil: true}
	var visit func(n *node)
	visit = func(n *node) {
		if n = target(n); met[n] || !c.charge(perMember+int64(len(n.at))/bytesPer) {
			return
		}
		met[n], c.here, places = true, append(c.here, n), append(places, n.at)
		for _, sub := range n.inPlace() {
			if sub != n.not {
				visit(sub)
			}
		}
	}
	for _, n := range here {
		for _, sub := range of(n) {
			visit(sub)
		}
	}
	if len(places) > 1 {
		c.beside = strings.Join(places, "\n")
	}
	c.compare(a, b, at)
	c.here, c.beside = here, beside
}
