package reference

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Field is a parameter, a header or a member of an object.
type Field struct {
	Name, In string
	Kind     []Piece
	Limits   string
	About    string
	Required bool
	Example  string
}

// Piece is a part of the words for a type; one with a schema is a link to its page.
type Piece struct{ Text, Schema string }

// deepest is how many objects without a name of their own are described within another.
const deepest = 3

// fields describes the members of an object. Members of objects without a name of their own follow
// them, as schedule.delays follows schedule.
func fields(s *schema, prefix string, depth int) (all []Field) {
	for _, name := range s.names() {
		p := s.Properties[name]
		all = append(all, Field{Name: prefix + name, Kind: kind(p), Limits: limits(p), About: p.Description,
			Required: slices.Contains(s.Required, name)})
		if depth >= deepest {
			continue
		}
		for _, one := range append([]*schema{p, p.Items}, p.AnyOf...) {
			if one != nil && one.Ref == "" {
				all = append(all, fields(one, prefix+name+".", depth+1)...)
			}
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(f Field) bool { was := seen[f.Name]; seen[f.Name] = true; return was })
}

// kind says in few words what a schema allows.
func kind(s *schema) []Piece {
	switch {
	case s == nil:
		return nil
	case s.Ref != "":
		name := strings.TrimPrefix(s.Ref, schemaPrefix)
		return []Piece{{Text: name, Schema: name}}
	case len(s.AnyOf) > 0:
		var all []Piece
		for i, one := range s.AnyOf {
			if i > 0 {
				all = append(all, Piece{Text: " or "})
			}
			all = append(all, kind(one)...)
		}
		return all
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			if v != nil {
				values = append(values, fmt.Sprint(v))
			}
		}
		return []Piece{{Text: strings.Join(values, ", ") + map[bool]string{true: " or null"}[slices.Contains(s.Enum, nil)]}}
	}
	names := s.types()
	if len(names) == 0 {
		return []Piece{{Text: "any JSON"}}
	}
	var all []Piece
	switch names[0] {
	case "array":
		all = append([]Piece{{Text: "list of "}}, kind(s.Items)...)
	case "object":
		if all = []Piece{{Text: "object"}}; s.values() != nil {
			all = append([]Piece{{Text: "object of "}}, kind(s.values())...)
		}
	case "string":
		all = []Piece{{Text: map[string]string{"date-time": "time"}[s.Format]}}
		if all[0].Text == "" {
			all[0].Text = strings.TrimSpace(s.Encoding + " string")
		}
		if s.Longest != "" {
			all[0].Text = "duration"
		}
	default:
		all = []Piece{{Text: names[0]}}
	}
	if slices.Contains(names[1:], "null") {
		all = append(all, Piece{Text: " or null"})
	}
	return all
}

// limits says how long, large or many a value may be.
func limits(s *schema) string {
	whole := func(n *int) string {
		if n == nil {
			return ""
		}
		return strconv.Itoa(*n)
	}
	number := func(n *float64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatFloat(*n, 'f', -1, 64)
	}
	var all []string
	add := func(least, most, unit string) {
		switch {
		case least != "" && most != "" && least != most:
			all = append(all, least+" to "+most+unit)
		case most != "":
			all = append(all, "at most "+most+unit)
		case least != "" && least != "0":
			all = append(all, "at least "+least+unit)
		}
	}
	if len(s.Enum) == 0 && (s.MaxLength != nil || s.MinLength != nil && *s.MinLength > 1) {
		add(whole(s.MinLength), whole(s.MaxLength), " characters")
	}
	add(whole(s.MinItems), whole(s.MaxItems), " entries")
	add("", whole(s.MaxProperties), " members")
	add(number(s.Minimum), number(s.Maximum), "")
	if s.ExclusiveLow != nil {
		all = append(all, "more than "+number(s.ExclusiveLow))
	}
	add(s.Shortest, s.Longest, "")
	return strings.Join(all, ", ")
}
