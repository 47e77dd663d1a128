package catalogue

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// keywords read the value of a keyword into its node. Others are annotations, as the standard says.
func keywords() map[string]keyword {
	return map[string]keyword{
		"$schema": dialectKeyword, "$id": idKeyword, "$anchor": anchorKeyword, "$ref": refKeyword,
		"$defs": schemas(nil), "definitions": schemas(nil),
		"$dynamicRef": refused("use $ref"), "$dynamicAnchor": refused("use $anchor"), "$recursiveRef": refused("use $ref"),
		"dependencies":    refused("in 2020-12 it is dependentRequired or dependentSchemas"),
		"additionalItems": refused("in 2020-12 it is items, beside prefixItems"),

		"type": typeKeyword, "enum": enumKeyword, "const": constKeyword,

		"multipleOf":       multipleKeyword,
		"minimum":          numeral(func(n *node) **decimal { return &n.minimum }),
		"maximum":          numeral(func(n *node) **decimal { return &n.maximum }),
		"exclusiveMinimum": numeral(func(n *node) **decimal { return &n.above }),
		"exclusiveMaximum": numeral(func(n *node) **decimal { return &n.below }),

		"minLength":     count(func(n *node) **int { return &n.minLength }),
		"maxLength":     count(func(n *node) **int { return &n.maxLength }),
		"minItems":      count(func(n *node) **int { return &n.minItems }),
		"maxItems":      count(func(n *node) **int { return &n.maxItems }),
		"minContains":   count(func(n *node) **int { return &n.minContains }),
		"maxContains":   count(func(n *node) **int { return &n.maxContains }),
		"minProperties": count(func(n *node) **int { return &n.minMembers }),
		"maxProperties": count(func(n *node) **int { return &n.maxMembers }),

		"pattern": patternKeyword, "patternProperties": patternsKeyword,
		"format":      func(_ *compiler, n *node, p place) { n.format, _ = p.value.(string) },
		"deprecated":  func(_ *compiler, n *node, p place) { n.deprecated, _ = p.value.(bool) },
		"uniqueItems": uniqueKeyword,

		"properties":           schemas(func(n *node) *map[string]*node { return &n.properties }),
		"dependentSchemas":     dependsKeyword,
		"required":             requiredKeyword,
		"dependentRequired":    needsKeyword,
		"additionalProperties": schema(func(n *node) **node { return &n.additional }),
		"propertyNames":        schema(func(n *node) **node { return &n.names }),
		"items":                itemsKeyword,
		"contains":             schema(func(n *node) **node { return &n.contains }),
		"prefixItems":          list(func(n *node) *[]*node { return &n.prefix }),

		"allOf": list(func(n *node) *[]*node { return &n.all }),
		"anyOf": list(func(n *node) *[]*node { return &n.any }),
		"oneOf": list(func(n *node) *[]*node { return &n.one }),
		"not":   schema(func(n *node) **node { return &n.not }),
		"if":    schema(func(n *node) **node { return &n.when }),
		"then":  schema(func(n *node) **node { return &n.then }),
		"else":  schema(func(n *node) **node { return &n.else_ }),

		"unevaluatedProperties": rest(func(n *node) **node { return &n.restMembers }),
		"unevaluatedItems":      rest(func(n *node) **node { return &n.restItems }),
	}
}

func dialectKeyword(c *compiler, _ *node, p place) {
	is, _ := p.value.(string)
	if strings.TrimSuffix(is, "#") != dialect {
		c.fault(p.at, "must be %s or left out", dialect)
	}
}

func idKeyword(c *compiler, n *node, p place) {
	if _, is := p.value.(string); !is || n.at != "" {
		c.fault(p.at, "must be a text, and only at the top of the schema")
	}
}

func anchorKeyword(c *compiler, n *node, p place) {
	name, _ := p.value.(string)
	if name == "" || strings.ContainsAny(name, "/#") || c.anchors[name] != nil {
		c.fault(p.at, "must be a name without / and #, which no other anchor has")
		return
	}
	c.anchors[name] = n
}

func refKeyword(c *compiler, n *node, p place) {
	to, is := p.value.(string)
	if !is {
		c.fault(p.at, "must be a text")
		return
	}
	c.refs = append(c.refs, reference{n, to})
}

func refused(instead string) keyword {
	return func(c *compiler, _ *node, p place) { c.fault(p.at, "is not available here; %s", instead) }
}

func typeKeyword(c *compiler, n *node, p place) {
	all, is := p.value.([]any)
	if !is {
		all = []any{p.value}
	}
	for _, one := range all {
		name, _ := one.(string)
		t, known := typeNames[name]
		if !known {
			c.fault(p.at, "must be null, boolean, integer, number, string, array or object, or a list of these")
			return
		}
		n.types |= t
	}
	if n.types == 0 {
		c.fault(p.at, "must name at least one type")
	}
}

func enumKeyword(c *compiler, n *node, p place) {
	all, is := p.value.([]any)
	if !is || len(all) == 0 {
		c.fault(p.at, "must be a list of at least one value")
		return
	}
	n.choose(all)
}

func constKeyword(_ *compiler, n *node, p place) { n.choose([]any{p.value}) }

// choose limits the values. Of enum and const together, those that both have are left.
func (n *node) choose(all []any) {
	values, shown := make(map[string]string, len(all)), []string{}
	for _, v := range all {
		text := string(canonical(nil, v))
		_, twice := values[text]
		_, both := n.values[text]
		if twice || n.values != nil && !both {
			continue
		}
		values[text] = show(v)
		shown = append(shown, values[text])
	}
	n.values, n.shown = values, shown
}

// show is a value for people.
func show(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it was decoded from JSON
	return strings.TrimSpace(b.String())
}

func numeral(field func(*node) **decimal) keyword {
	return func(c *compiler, n *node, p place) {
		is, ok := p.value.(json.Number)
		if !ok {
			c.fault(p.at, "must be a number")
			return
		}
		*field(n) = new(parseDecimal(string(is)))
	}
}

func multipleKeyword(c *compiler, n *node, p place) {
	is, ok := p.value.(json.Number)
	d := parseDecimal(string(is))
	if !ok || d.sign() <= 0 || len(d.digits) > maxDigits {
		c.fault(p.at, "must be a number above 0 with at most %d digits", maxDigits)
		return
	}
	n.multipleOf = &d
}

func count(field func(*node) **int) keyword {
	return func(c *compiler, n *node, p place) {
		is, ok := p.value.(json.Number)
		d := parseDecimal(string(is))
		if !ok || d.sign() < 0 || !d.integer() || d.point > 15 {
			c.fault(p.at, "must be a whole number of 0 or more")
			return
		}
		whole, _ := strconv.Atoi(d.digits + strings.Repeat("0", int(d.point)-len(d.digits))) // at most 15 digits
		*field(n) = &whole
	}
}

func uniqueKeyword(c *compiler, n *node, p place) {
	var is bool
	if n.unique, is = p.value.(bool); !is {
		c.fault(p.at, "must be true or false")
	}
}

func patternKeyword(c *compiler, n *node, p place) {
	text, ok := p.value.(string)
	if !ok {
		c.fault(p.at, "must be a text")
		return
	}
	n.pattern = c.pattern(text, p.at)
}

func patternsKeyword(c *compiler, n *node, p place) {
	c.members(p, "schemas", func(name string, at place) {
		n.patterned = append(n.patterned, patterned{c.pattern(name, at.at), c.sub(at)})
	})
}

// members reads the members of an object by their names, in order; false: the value is no object.
func (c *compiler) members(p place, of string, read func(name string, at place)) bool {
	all, is := p.value.(map[string]any)
	if !is {
		c.fault(p.at, "must be an object of %s", of)
	}
	for _, name := range names(all) {
		read(name, p.child(name, all[name]))
	}
	return is
}

func texts(c *compiler, p place) []string {
	all, ok := p.value.([]any)
	var list []string
	for _, one := range all {
		name, is := one.(string)
		ok = ok && is
		list = append(list, name)
	}
	if !ok {
		c.fault(p.at, "must be a list of names")
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func requiredKeyword(c *compiler, n *node, p place) { n.required = texts(c, p) }

func needsKeyword(c *compiler, n *node, p place) {
	c.members(p, "lists of names", func(name string, at place) {
		n.needs = append(n.needs, dependent[[]string]{name, texts(c, at)})
	})
}

func schema(field func(*node) **node) keyword {
	return func(c *compiler, n *node, p place) { *field(n) = c.sub(p) }
}

func rest(field func(*node) **node) keyword {
	return func(c *compiler, n *node, p place) {
		c.tracks = true
		*field(n) = c.sub(p)
	}
}

func itemsKeyword(c *compiler, n *node, p place) {
	if _, is := p.value.([]any); is {
		c.fault(p.at, "must be a schema; a list of schemas is prefixItems in 2020-12")
		return
	}
	n.items = c.sub(p)
}

func dependsKeyword(c *compiler, n *node, p place) {
	c.members(p, "schemas", func(name string, at place) {
		n.depends = append(n.depends, dependent[*node]{name, c.sub(at)})
	})
}

// schemas reads an object of schemas. Those of $defs belong to no field: references find them.
func schemas(field func(*node) *map[string]*node) keyword {
	return func(c *compiler, n *node, p place) {
		into := map[string]*node{}
		if c.members(p, "schemas", func(name string, at place) { into[name] = c.sub(at) }) && field != nil {
			*field(n) = into
		}
	}
}

func list(field func(*node) *[]*node) keyword {
	return func(c *compiler, n *node, p place) {
		all, ok := p.value.([]any)
		if !ok || len(all) == 0 {
			c.fault(p.at, "must be a list of at least one schema")
			return
		}
		for i := range all {
			*field(n) = append(*field(n), c.sub(p.child(strconv.Itoa(i), all[i])))
		}
	}
}
