package byhand

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
)

// Override is a new value for a place in the body of a fixture.
type Override struct{ Path, Value string }

// Unmatched is an override of a place that the body does not have.
type Unmatched struct {
	Path string
	Has  []string // the paths that there are
}

func (u *Unmatched) Error() string { return "the body has no " + u.Path }

// leaf is a value of a body: its path, and where its text is.
type leaf struct {
	path       string
	begin, end int
}

// leaves are all values of a body, objects and arrays among them.
func leaves(body string) (all []leaf) {
	var walk func(path string, value canonical.Value)
	walk = func(path string, value canonical.Value) {
		for step, member := range value.Members() {
			at := strings.TrimPrefix(path+"."+step, ".")
			all = append(all, leaf{at, member.At, member.At + len(member.Raw)})
			walk(at, member)
		}
	}
	walk("", canonical.Root([]byte(body)))
	return all
}

// override changes a body before it is filled in. A value with a name changes wherever the name
// stands, headers included, so that the request stays consistent.
func (r *rendering) override(body string, o Override) (string, error) {
	var has []string
	for _, l := range leaves(body) {
		has = append(has, l.path)
		if l.path != o.Path {
			continue
		}
		raw := body[l.begin:l.end]
		parts, quote := filled.FindStringSubmatch(raw), `"`
		if parts != nil && parts[1] != "" {
			raw, parts = "0", filled.FindStringSubmatch(parts[1]) // a number
		}
		kind := kindOf(raw)
		if kind != "a text" && (kind != "null" || json.Valid([]byte(o.Value))) {
			quote = `"#`
		}
		if is := kindOf(o.Value); kind != "a text" && kind != "null" && is != kind {
			return "", fmt.Errorf("%s is %s, not %q", o.Path, kind, o.Value)
		}
		if parts != nil && r.names[parts[2]] != nil && body[l.begin:l.end] == quote+parts[0]+`"` {
			r.values[parts[2]] = o.Value
			return body, nil
		}
		name := fmt.Sprintf("set_%d", len(r.values))
		r.values[name] = o.Value
		return body[:l.begin] + quote + "${" + name + `}"` + body[l.end:], nil
	}
	return "", &Unmatched{o.Path, has}
}

// kindOf is the kind of a value of JSON; empty: it is no JSON.
func kindOf(value string) string {
	if !json.Valid([]byte(value)) {
		return ""
	}
	switch first := canonical.Root([]byte(value)).Raw[0]; first {
	case '"':
		return "a text"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	default:
		return "a number"
	}
}

// filled is a part of a template that is filled in: a number ("#${amount}" has no quotes then), a
// reference, or the pattern of a new id.
var filled = regexp.MustCompile(`"#([^"]*\$\{[^"]*)"|\$\{([a-z_0-9]+?)([+-]\d+)?\}|\[([aAbBdhHu])(\d*)\]`)

// rendering is one request while it is made.
type rendering struct {
	now    time.Time
	random io.Reader
	names  map[string]any
	values map[string]string // of names, once they are used
	err    error
}
