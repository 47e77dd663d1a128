package catalogue

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/internal/base/say"
)

// Difference is one between two versions of a schema. A value satisfies the later version and not
// the earlier one only if a difference is Breaking, and the earlier and not the later one only if
// one is Stricter. The exception: a member that the earlier version does not describe is taken to
// have been absent.
type Difference struct {
	Pointer  string // JSON pointer into the later schema; into the earlier one, if the later has nothing there
	What     string // a sentence
	Breaking bool   // receivers that know the earlier version may get something new
	Stricter bool   // publishers that follow the earlier version may be refused
}

const (
	maxDifferences = 200
	perPair        = 20 // units of comparing two subschemas
)

type comparison struct {
	check

	met    map[pair]bool
	here   []*node // the earlier subschemas that describe the value at hand
	found  []Difference
	beside string // the pointers of here, if there are several
	unsure bool   // inside something where a difference may be both
	quiet  bool   // only whether there is a difference matters
}

// pair is two subschemas that were compared; nil: one that asks for nothing.
type pair struct {
	a, b   *node
	unsure bool
	beside string // pointers of the other earlier subschemas that describe the value
}

func (n *node) orPlain() *node {
	if n.plain() {
		return nil
	}
	return n
}

// orAnything is a keyword's subschema of a node, or if it has none, one that asks for nothing.
func orAnything(sub, of *node, keyword string) *node {
	if sub == nil {
		return &node{at: of.at + "/" + keyword}
	}
	return sub
}

func (c *comparison) add(pointer string, breaking, stricter bool, what string, args ...any) {
	if c.unsure && (breaking || stricter) {
		breaking, stricter = true, true
	}
	if len(c.found) < maxDifferences {
		c.found = append(c.found, Difference{pointer, fmt.Sprintf(what, args...), breaking, stricter})
	}
}

// widens and tightens are the two kinds of difference.
func (c *comparison) widens(pointer, what string, args ...any) {
	c.add(pointer, true, false, what, args...)
}

func (c *comparison) tightens(pointer, what string, args ...any) {
	c.add(pointer, false, true, what, args...)
}

// target follows references that stand alone.
func target(n *node) *node {
	for n != nil && n.ref != nil {
		rest := *n
		rest.ref, rest.at, rest.deprecated = nil, "", false
		if !rest.plain() {
			return n
		}
		n = n.ref
	}
	return n
}

// plain says whether a node asks for nothing.
func (n *node) plain() bool {
	rest := *n
	rest.at = ""
	return reflect.ValueOf(rest).IsZero()
}

// subject names a place of the data in a sentence.
func subject(at string) string {
	if at == "" {
		return "The data"
	}
	return at
}

func inside(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

const every = null | boolean | integer | number | text | array | object

// types compares the types, and says whether a value can have one in both versions.
func (c *comparison) types(a, b *node, at string) bool {
	was, is := cmp.Or(a.types, every), cmp.Or(b.types, every)
	pointer := pointerTo(a, b, "type", b.types != 0)
	switch added, removed := is&^was, was&^is; {
	case added == 0 && removed == 0:
	case is == every:
		c.widens(pointer, "%s may be of any type, and was %s.", subject(at), was)
	case was == every:
		c.tightens(pointer, "%s must be %s.", subject(at), is)
	case added == 0:
		c.tightens(pointer, "%s must be %s, and was %s.", subject(at), is, was)
	case removed == 0:
		c.widens(pointer, "%s may be %s, and was %s.", subject(at), is, was)
	default:
		c.add(pointer, true, true, "%s is %s instead of %s.", subject(at), is, was)
	}
	return was&is != 0
}

// pointerTo is a keyword in the later schema, if it is there.
func pointerTo(a, b *node, name string, there bool) string {
	if there {
		return b.at + "/" + name
	}
	return a.at + "/" + name
}

func (c *comparison) values(a, b *node, at string) {
	if !c.charge(int64(len(a.values)+len(b.values))*perMember) || a.values == nil && b.values == nil {
		return
	}
	pointer := b.at + "/enum"
	switch {
	case a.values == nil:
		c.tightens(pointer, "%s %s.", subject(at), oneOf(b.shown))
		return
	case b.values == nil:
		c.widens(a.at+"/enum", "%s may have any value, and had to be %s.", subject(at), say.Cut(strings.Join(a.shown, ", "), maxShown))
		return
	}
	if added := lacking(b.values, a.values); len(added) > 0 {
		c.widens(pointer, "%s may be %s.", subject(at), say.Cut(strings.Join(added, ", "), maxShown))
	}
	if removed := lacking(a.values, b.values); len(removed) > 0 {
		c.tightens(pointer, "%s may not be %s any more.", subject(at), say.Cut(strings.Join(removed, ", "), maxShown))
	}
}

// lacking are the values of one map that another lacks, as JSON.
func lacking(all, in map[string]string) (shown []string) {
	for text, json := range all {
		if _, there := in[text]; !there {
			shown = append(shown, json)
		}
	}
	slices.Sort(shown)
	return shown
}

// limit is a keyword that bounds a value.
type limit struct {
	keyword string
	upper   bool
	was, is string // for people; empty: none
	by      int    // how is compares with was; 0: they differ and cannot be ordered
}

func (c *comparison) limit(a, b *node, at string, l limit) {
	name := "/" + l.keyword
	switch {
	case l.was == l.is:
	case l.was == "":
		c.tightens(b.at+name, "%s has a %s of %s.", subject(at), l.keyword, l.is)
	case l.is == "":
		c.widens(a.at+name, "%s has no %s any more; it was %s.", subject(at), l.keyword, l.was)
	case l.by == 0:
		c.add(b.at+name, true, true, "%s has a %s of %s instead of %s.", subject(at), l.keyword, l.is, l.was)
	case l.by > 0 == l.upper:
		c.widens(b.at+name, "%s has a %s of %s instead of %s.", subject(at), l.keyword, l.is, l.was)
	default:
		c.tightens(b.at+name, "%s has a %s of %s instead of %s.", subject(at), l.keyword, l.is, l.was)
	}
}

// limitOf is a keyword in two versions; nil: none. compare nil: its values cannot be ordered.
func limitOf[N any](keyword string, upper bool, was, is *N, compare func(a, b N) int) limit {
	l := limit{keyword: keyword, upper: upper}
	if was != nil {
		l.was = fmt.Sprint(*was)
	}
	if is != nil {
		l.is = fmt.Sprint(*is)
	}
	if was != nil && is != nil && compare != nil {
		l.by = compare(*is, *was)
	}
	return l
}

func (c *comparison) bounds(a, b *node, at string) {
	for _, l := range []limit{
		limitOf("minimum", false, a.minimum, b.minimum, decimal.compare), limitOf("maximum", true, a.maximum, b.maximum, decimal.compare),
		limitOf("exclusiveMinimum", false, a.above, b.above, decimal.compare),
		limitOf("exclusiveMaximum", true, a.below, b.below, decimal.compare),
		limitOf("minLength", false, a.minLength, b.minLength, cmp.Compare), limitOf("maxLength", true, a.maxLength, b.maxLength, cmp.Compare),
		limitOf("minItems", false, a.minItems, b.minItems, cmp.Compare), limitOf("maxItems", true, a.maxItems, b.maxItems, cmp.Compare),
		limitOf("minProperties", false, a.minMembers, b.minMembers, cmp.Compare),
		limitOf("maxProperties", true, a.maxMembers, b.maxMembers, cmp.Compare),
		limitOf("multipleOf", false, a.multipleOf, b.multipleOf, nil), limitOf("pattern", false, a.pattern, b.pattern, nil),
	} {
		c.limit(a, b, at, l)
	}
	if a.format != b.format {
		pointer := pointerTo(a, b, "format", b.format != "")
		c.add(pointer, a.format != "", false, "%s has the format %q instead of %q.", subject(at), b.format, a.format)
	}
	if a.unique != b.unique {
		c.add(pointerTo(a, b, "uniqueItems", b.unique), a.unique, b.unique, "%s %s.", subject(at),
			map[bool]string{true: "must not have an item twice", false: "may have an item twice"}[b.unique])
	}
}
