package catalogue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Limits of a schema. They bound the time of compiling, and what a compiled schema keeps in memory.
const (
	MaxSchema  = 64 << 10 // bytes
	maxNodes   = 3000     // subschemas
	maxPlaces  = 1 << 20  // bytes of the pointers to all subschemas
	maxNesting = 64       // levels of the schema
	maxPattern = 512      // bytes of one pattern
	maxProgram = 1000     // steps of the program of one pattern
	maxSteps   = 10_000   // the same of all patterns
	maxDigits  = 40       // of multipleOf
)

const dialect = "https://json-schema.org/draft/2020-12/schema"

// compiler makes one schema.
type compiler struct {
	keywords map[string]keyword
	nodes    map[string]*node // by their pointer
	anchors  map[string]*node
	refs     []reference
	faults   []Fault
	steps    int64
	places   int64 // bytes of the pointers to the subschemas
	tracks   bool
}

type reference struct {
	from *node
	text string
}

// decode reads one JSON value. Numbers keep their digits.
func decode(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err = d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}

func (c *compiler) full() bool { return len(c.faults) >= most }

func (c *compiler) fault(at, format string, args ...any) {
	if !c.full() {
		c.faults = append(c.faults, Fault{at, fmt.Sprintf(format, args...)})
	}
}

// schema compiles a value at a place of a schema. It returns nil for one that is none.
func (c *compiler) schema(v any, at string, depth int) *node {
	n := &node{at: at}
	c.places += int64(len(at))
	switch {
	case c.full():
		return nil
	case len(c.nodes) >= maxNodes:
		c.fault(at, "is one schema too many; at most %d are allowed", maxNodes)
		return nil
	case c.places > maxPlaces: // each pointer repeats the names above its subschema
		c.fault("", "has too many schemas below long names; the pointers to them may take %d bytes together", maxPlaces)
		return nil
	case depth > maxNesting:
		c.fault(at, "is nested more than %d levels deep", maxNesting)
		return nil
	}
	c.nodes[at] = n
	switch v := v.(type) {
	case bool:
		n.never = !v
		return n
	case map[string]any:
		for _, name := range names(v) {
			if k, known := c.keywords[name]; known {
				k(c, n, place{v[name], at + "/" + escape(name), depth})
			}
		}
		if n.contains == nil {
			n.minContains, n.maxContains = nil, nil
		}
		if n.when == nil {
			n.then, n.else_ = nil, nil
		}
		return n
	}
	delete(c.nodes, at)
	c.fault(at, "must be a schema: an object, true or false")
	return nil
}

// place is the value of a keyword.
type place struct {
	value any
	at    string
	depth int // of the schema that it is in
}

func (p place) child(name string, v any) place { return place{v, p.at + "/" + escape(name), p.depth} }

func (c *compiler) sub(p place) *node { return c.schema(p.value, p.at, p.depth+1) }

// resolve gives references their targets.
func (c *compiler) resolve() {
	for _, r := range c.refs {
		fragment, local := strings.CutPrefix(r.text, "#")
		pointer, err := url.PathUnescape(fragment)
		target := c.nodes[pointer]
		if target == nil && !strings.Contains(pointer, "/") && pointer != "" {
			target = c.anchors[pointer]
		}
		switch {
		case !local:
			c.fault(r.from.at+"/$ref", "must begin with #: a schema stands for itself and nothing is fetched")
		case err != nil || target == nil:
			c.fault(r.from.at+"/$ref", "must point to a schema of this document, such as #/$defs/name")
		default:
			r.from.ref = target
		}
	}
}

// refuseLoops refuses a schema that refers to itself for the same value, which no check would end.
func (c *compiler) refuseLoops() {
	const open, done = 1, 2
	state := map[*node]int{}
	var visit func(n *node) bool
	visit = func(n *node) bool {
		state[n] = open
		for _, sub := range n.inPlace() {
			if state[sub] == open || state[sub] == 0 && !visit(sub) {
				return false
			}
		}
		state[n] = done
		return true
	}
	for _, at := range names(c.nodes) {
		if n := c.nodes[at]; state[n] == 0 && !visit(n) {
			c.fault(at, "refers to itself without a step into the value")
			return
		}
	}
}

// pattern compiles a regular expression.
func (c *compiler) pattern(text, at string) *pattern {
	if len(text) > maxPattern {
		c.fault(at, "must be at most %d bytes", maxPattern)
		return nil
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		c.fault(at, "must be a regular expression of RE2, which has no lookaround: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return nil
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		c.fault(at, "is a pattern that takes too much work: it compiles to %d steps, of which %d are allowed", len(program.Inst), maxProgram)
		return nil
	}
	if c.steps += int64(len(program.Inst)); c.steps > maxSteps {
		c.fault(at, "is one pattern too many: together they compile to more than %d steps", maxSteps)
		return nil
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		c.fault(at, "must be a regular expression of RE2")
		return nil
	}
	return &pattern{compiled, int64(len(program.Inst))}
}

type keyword func(c *compiler, n *node, p place)
