package catalogue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Check compares data, which are JSON, with the schema.
func (s *Schema) Check(data []byte, m *Meter) ([]Fault, error) {
	c := check{Meter: m, tracks: s.tracks}
	if !c.charge(int64(len(data)) / bytesPer * 4) {
		return nil, m.err
	}
	v, err := decode(data)
	if err != nil {
		return []Fault{{"", "must be JSON"}}, nil
	}
	var faults []Fault
	c.see(s.root, v, nil, &faults)
	slices.SortStableFunc(faults, func(a, b Fault) int { return cmp.Compare(len(a.Pointer), len(b.Pointer)) })
	if m.err != nil {
		return nil, m.err
	}
	return faults, nil
}

// Compare lists the differences from one version to a later one.
func Compare(from, to *Schema, m *Meter) ([]Difference, error) {
	c := comparison{check: check{Meter: m, tracks: from.tracks || to.tracks}, met: map[pair]bool{}, here: []*node{from.root}}
	c.part(from.root, to.root, "", func(n *node) []*node { return []*node{n} })
	if m.err != nil {
		return nil, m.err
	}
	return c.found, nil
}

// Compile prepares a schema for use, or returns its faults.
func Compile(schema []byte) (*Schema, []Fault) {
	if len(schema) > MaxSchema {
		return nil, []Fault{{"", fmt.Sprintf("must be at most %d bytes", MaxSchema)}}
	}
	doc, err := decode(schema)
	if err != nil {
		return nil, []Fault{{"", "must be JSON"}}
	}
	c := &compiler{keywords: keywords(), nodes: map[string]*node{}, anchors: map[string]*node{}}
	root := c.schema(doc, "", 0)
	if root == nil && len(c.faults) == 0 {
		c.fault("", "must be a schema: an object, true or false")
	}
	c.resolve()
	if len(c.faults) == 0 {
		c.refuseLoops()
	}
	if len(c.faults) > 0 {
		slices.SortStableFunc(c.faults, func(a, b Fault) int { return strings.Compare(a.Pointer, b.Pointer) })
		return nil, c.faults[:min(len(c.faults), most)]
	}
	return &Schema{root: root, tracks: c.tracks,
		size: 8*int64(len(schema)) + 700*int64(len(c.nodes)) + 120*c.steps + c.places}, nil
}

// Compile is Compile with its work counted.
func (m *Meter) Compile(schema []byte) (*Schema, []Fault, error) {
	if !m.charge(perByteCompiled * int64(len(schema))) {
		return nil, nil, m.err
	}
	s, faults := Compile(schema)
	return s, faults, nil
}
