package catalogue

import (
	"encoding/json"
	"maps"
	"strconv"
)

// check is one comparison of data with a schema. Once its meter has ended every comparison in it
// fails at once.
type check struct {
	*Meter
	depth  int // of see
	tracks bool
}

// within enters a comparison, unless too many are in progress within each other.
func (c *check) within() bool {
	c.depth++
	if c.depth > maxStack && c.err == nil {
		c.err = ErrTooCostly
	}
	return c.err == nil
}

// path is where a value is in the data; nil: it is all of them.
type path struct {
	above *path
	name  string
	index int // if name is empty and it is not a member
	item  bool
}

func (p *path) String() string {
	if p == nil {
		return ""
	}
	if p.item {
		return p.above.String() + "/" + strconv.Itoa(p.index)
	}
	return p.above.String() + "/" + escape(p.name)
}

// seen says which members or items of a value subschemas have dealt with; nil: none. It is only
// kept for schemas that ask for the rest.
type seen struct {
	members map[string]bool
	items   map[int]bool
}

func (s *seen) member(name string) {
	if s != nil {
		s.members[name] = true
	}
}

func (s *seen) item(i int) {
	if s != nil {
		s.items[i] = true
	}
}

// add takes over the members and items that another subschema has seen of the same value.
func (c *check) add(s, other *seen) {
	if s == nil || other == nil || !c.charge(int64(len(other.members)+len(other.items))*perMember) {
		return
	}
	maps.Copy(s.members, other.members)
	maps.Copy(s.items, other.items)
}

// result is what becomes of one comparison.
type result struct {
	*check
	at    *path
	into  *[]Fault
	seen  *seen
	right bool
}

// goesOn says whether more of the subschema has to be compared.
func (r *result) goesOn() bool {
	return r.err == nil && (r.right || r.reports())
}

// reports says whether the next fault is reported.
func (r *result) reports() bool { return r.into != nil && len(*r.into) < most }

// fault reports one of the value itself.
func (r *result) fault(detail string) { r.faultAt(r.at, detail) }

func (r *result) faultAt(at *path, detail string) {
	if r.right = false; r.reports() {
		*r.into = append(*r.into, Fault{at.String(), detail})
	}
}

// faultBy is fault with a detail that may be long: it is only made if it is reported.
func (r *result) faultBy(detail func() string) {
	if r.right = false; r.reports() {
		r.fault(detail())
	}
}

// walk charges for reading all of a value.
func (c *check) walk(v any) bool {
	if !c.charge(perItem) {
		return false
	}
	switch v := v.(type) {
	case string:
		return c.charge(int64(len(v)) / bytesPer)
	case json.Number:
		return c.charge(int64(len(v)) / bytesPer)
	case []any:
		for i := range v {
			if !c.walk(v[i]) {
				return false
			}
		}
	case map[string]any:
		if !c.charge(perMember * int64(len(v))) {
			return false
		}
		for name, member := range v {
			if !c.charge(int64(len(name))/bytesPer) || !c.walk(member) {
				return false
			}
		}
	}
	return true
}

// matches charges for a pattern and runs it.
func (c *check) matches(p *pattern, text string) bool {
	return c.charge(1+int64(len(text))*p.steps/stepsPer) && p.MatchString(text)
}
