package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxDocument and maxNesting bound the input. A policy is a page, not a book.
const (
	maxDocument = 64 << 10
	maxNesting  = 8
)

// node is a JSON value with its position. encoding/json alone would use the last of two members of
// one name and stop at the first error; the author of a policy wants to see both members and all
// errors.
type node struct {
	pointer string
	kind    kind
	text    string // of a string or a number
	truth   bool
	members []member // of an object
	items   []node   // of an array
}

type member struct {
	name string
	node
}

type kind string

const (
	kindNull   kind = "null"
	kindBool   kind = "a boolean"
	kindNumber kind = "a number"
	kindString kind = "a string"
	kindArray  kind = "an array"
	kindObject kind = "an object"
)

// reader collects errors while values are read from a document.
type reader struct {
	errs  Errors
	named func(string) (Policy, bool) // finds the base of a policy
	usual string                      // the base of a policy that names none
}

func (r *reader) wrong(pointer, format string, args ...any) {
	r.errs = append(r.errs, FieldError{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
}

// document reads raw as one JSON object. It returns false if it is not one.
func (r *reader) document(raw []byte, what string) (node, bool) {
	if len(raw) > maxDocument {
		r.wrong("", "is larger than %d bytes", maxDocument)
		return node{}, false
	}
	if !json.Valid(raw) {
		var v any
		err := json.Unmarshal(raw, &v)
		r.wrong("", "is not JSON: %v", err)
		return node{}, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	root, err := r.value(d, "", 0)
	if err != nil {
		r.wrong("", "%v", err)
		return node{}, false
	}
	if root.kind != kindObject {
		r.wrong("", "is %s where %s, an object, was expected", root.kind, what)
		return node{}, false
	}
	return root, true
}

// value reads one value. The input is known to be valid JSON.
func (r *reader) value(d *json.Decoder, pointer string, depth int) (node, error) {
	if depth > maxNesting {
		return node{}, fmt.Errorf("is nested deeper than %d levels", maxNesting)
	}
	token, err := d.Token()
	if err != nil {
		return node{}, err
	}
	n := node{pointer: pointer}
	switch t := token.(type) {
	case nil:
		n.kind = kindNull
	case bool:
		n.kind, n.truth = kindBool, t
	case json.Number:
		n.kind, n.text = kindNumber, t.String()
	case string:
		n.kind, n.text = kindString, t
	case json.Delim:
		if t == '[' {
			return r.array(d, n, depth)
		}
		return r.object(d, n, depth)
	}
	return n, nil
}

func (r *reader) array(d *json.Decoder, n node, depth int) (node, error) {
	n.kind = kindArray
	for d.More() {
		item, err := r.value(d, n.pointer+"/"+strconv.Itoa(len(n.items)), depth+1)
		if err != nil {
			return node{}, err
		}
		n.items = append(n.items, item)
	}
	_, err := d.Token()
	return n, err
}

func (r *reader) object(d *json.Decoder, n node, depth int) (node, error) {
	n.kind = kindObject
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return node{}, err
		}
		name, _ := token.(string)
		at := n.pointer + "/" + escape(name)
		v, err := r.value(d, at, depth+1)
		if err != nil {
			return node{}, err
		}
		if slices.ContainsFunc(n.members, func(m member) bool { return m.name == name }) {
			r.wrong(at, "is there twice")
			continue
		}
		n.members = append(n.members, member{name, v})
	}
	_, err := d.Token()
	return n, err
}

// escape writes a name as a part of a JSON pointer.
func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// member is an object's member of a name, unless it is null.
func (n *node) member(name string) (node, bool) {
	for _, m := range n.members {
		if m.name == name {
			return m.node, m.kind != kindNull
		}
	}
	return node{}, false
}

// has says whether an object has a member that is not null.
func (n *node) has(name string) bool {
	_, ok := n.member(name)
	return ok
}

// field is a member that an object may have.
type field struct {
	name    string
	read    func(node) // nil: it has been read
	nulls   bool       // read gets null; else null is the same as an omission
	missing string     // the fault of an object without it; empty: none
}

// of is a field that read puts into a variable.
func of[T any](name string, read func(node, *T), into *T) field {
	return field{name: name, read: func(n node) { read(n, into) }}
}

// text is a field that has a string.
func text[T ~string](r *reader, name string, into *T) field {
	return field{name: name, read: func(n node) { word(r, n, into) }}
}

func (f field) withNull() field {
	f.nulls = true
	return f
}

func (f field) needed(missing string) field {
	f.missing = missing
	return f
}

// members reads the members of an object. when says in which case these are its fields.
func (r *reader) members(n node, when string, fields ...field) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
		if f.missing != "" && !n.has(f.name) {
			r.wrong(n.pointer+"/"+f.name, "%s", f.missing)
		}
	}
	for _, m := range n.members {
		i := slices.Index(names, m.name)
		switch {
		case i < 0:
			r.wrong(m.pointer, "is not a field here; the fields are %s%s", strings.Join(names, ", "), when)
		case fields[i].read != nil && (m.kind != kindNull || fields[i].nulls):
			fields[i].read(m.node)
		}
	}
}

// list reads an array. It returns false if an item, or the whole, is at fault.
func list[T any](r *reader, n node, read func(node, *T)) (all []T, ok bool) {
	if !r.is(n, kindArray) {
		return nil, false
	}
	before := len(r.errs)
	for _, item := range n.items {
		var v T
		read(item, &v)
		all = append(all, v)
	}
	return all, len(r.errs) == before
}

// is says whether the value is of the kind wanted, and reports it if not.
func (r *reader) is(n node, want kind) bool {
	if n.kind == want {
		return true
	}
	r.wrong(n.pointer, "is %s where %s was expected", n.kind, want)
	return false
}

func (r *reader) duration(n node, into *Duration) {
	if n.kind != kindString {
		r.wrong(n.pointer, `is %s where a duration such as "90s" or "1h30m" was expected`, n.kind)
		return
	}
	d, err := ParseDuration(n.text)
	if err != nil {
		r.wrong(n.pointer, "%v", errNotDuration)
		return
	}
	*into = Duration(d)
}

func (r *reader) integer(n node, into *int) {
	if !r.is(n, kindNumber) {
		return
	}
	i, whole := Whole(n.text)
	if !whole {
		r.wrong(n.pointer, "is not a whole number")
		return
	}
	*into = i
}

// Whole reads a JSON number that is an integer as JSON Schema means it: 32.0 and 3.2e1 are 32.
func Whole(text string) (int, bool) {
	if n, err := strconv.Atoi(text); err == nil {
		return n, true
	}
	x, err := strconv.ParseFloat(text, 64)
	const exact = 1 << 53 // above this not every integer is a float
	return int(x), err == nil && x == math.Trunc(x) && math.Abs(x) <= exact
}

func (r *reader) float(n node, into *float64) {
	if !r.is(n, kindNumber) {
		return
	}
	f, err := strconv.ParseFloat(n.text, 64)
	if err != nil {
		r.wrong(n.pointer, "is not a number that can be used")
		return
	}
	*into = f
}

// word reads a string into any type that is one. It returns false if the value is none.
func word[T ~string](r *reader, n node, into *T) bool {
	ok := r.is(n, kindString)
	if ok {
		*into = T(n.text)
	}
	return ok
}
