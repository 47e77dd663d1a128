package chain

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	Changed  Kind = "changed"  // the line's bytes do not have its hash
	Unread   Kind = "unread"   // no line of a chain, or a part of one
	Missing  Kind = "missing"  // lines before this one are not there
	Moved    Kind = "moved"    // the line follows another one than that before it, which was read too
	Cut      Kind = "cut"      // the expected last line is not there
	Extended Kind = "extended" // lines follow the one that was expected as the last
)

// Fault is a line at which a chain is broken.
type Fault struct {
	File   string `json:"file"`
	Line   int    `json:"line"` // from 1; 0: of no line
	Kind   Kind   `json:"kind"`
	Detail string `json:"detail"`
	prev   *Hash  // of a line that does not follow the one before it
}

// Report says what a check has found.
type Report struct {
	Verified bool    `json:"verified"`
	Lines    int     `json:"lines"`
	First    int64   `json:"first"` // number of the first entry; 0: none
	Last     int64   `json:"last"`
	Head     string  `json:"head"` // hash of the last line
	Count    int     `json:"faults_found"`
	Faults   []Fault `json:"faults"` // the first of them
}

// Bounds are the sizes inside this package; see package bounds.
type Bounds struct {
	Line   int `bound:"65536" least:"512"` // bytes; a longer one is Unread
	Faults int `bound:"20"`                // reported; all are counted
}

// Checker checks a chain that is written to it in parts. A fault is reported once, at its line: the
// line behind a changed one may follow what that one says or what it is.
type Checker struct {
	bounds  Bounds
	file    string
	at      int // lines of the file
	part    []byte
	long    bool         // the line is too long, so part is not all of it
	follows []Hash       // one of these is the prev of the next line; none: any
	places  map[Hash]int // of lines, among those of all files
	report  Report
}

// NewChecker checks a chain whose first line follows after; nil: it may follow anything.
func NewChecker(after *Hash, b Bounds) *Checker {
	c := &Checker{bounds: bounds.Fill(b), places: map[Hash]int{}, report: Report{Faults: []Fault{}}}
	if after != nil {
		c.follows, c.places[*after], c.report.Head = []Hash{*after}, 0, after.String()
	}
	return c
}

// File says that the next lines are those of another file, which continues the chain.
func (c *Checker) File(name string) {
	c.endLine()
	c.file, c.at = name, 0
}

// Write never fails.
func (c *Checker) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		whole := end > 0
		if !whole {
			end = len(rest)
		}
		if c.long = c.long || len(c.part)+end > c.bounds.Line; !c.long {
			c.part = append(c.part, rest[:end]...)
		}
		if rest = rest[end:]; whole {
			c.line()
		}
	}
	return len(p), nil
}

// endLine reads the part of a line whose end was not written.
func (c *Checker) endLine() {
	if len(c.part) > 0 || c.long {
		c.line()
	}
}

func (c *Checker) line() {
	c.at++
	c.report.Lines++
	l, ok := split(c.part)
	ok = ok && !c.long
	c.part, c.long = c.part[:0], false
	if !ok {
		c.fault(Unread, "this is not a whole line of an export", nil)
		c.follows = nil // unknown: the next line is taken as it is
		return
	}
	switch {
	case l.stated != l.computed:
		c.fault(Changed, fmt.Sprintf("the line was changed: its hash is %s, and the line says %s", l.computed, l.stated), nil)
	case c.follows != nil && !slices.Contains(c.follows, l.prev):
		c.fault(Missing, "the line does not follow the one before it: lines between them are missing, or that one was replaced", &l.prev)
	}
	if c.report.First == 0 {
		c.report.First = l.number
	}
	c.report.Last, c.report.Head = l.number, l.stated.String()
	c.follows = []Hash{l.stated, l.computed}
	c.places[l.computed] = c.report.Lines
}

func (c *Checker) fault(kind Kind, detail string, prev *Hash) {
	if c.report.Count++; len(c.report.Faults) < c.bounds.Faults {
		c.report.Faults = append(c.report.Faults, Fault{c.file, c.at, kind, detail, prev})
	}
}

// End ends the check. head is the hash that the last line has to have; nil: any.
func (c *Checker) End(head *Hash) Report {
	c.endLine()
	for i := range c.report.Faults {
		f := &c.report.Faults[i]
		if f.prev == nil {
			continue
		}
		if place, there := c.places[*f.prev]; there {
			f.Kind = Moved
			f.Detail = fmt.Sprintf("the line follows line %d of all that were read, and stands elsewhere: "+
				"lines were moved, repeated or added", place)
		} else if f.Line == 1 {
			f.Detail = "lines before this one are missing: it follows the hash " + f.prev.String()
		}
	}
	if head != nil && c.report.Head != head.String() && !slices.Contains(c.follows, *head) {
		if place, there := c.places[*head]; there {
			c.fault(Extended, fmt.Sprintf("line %d of all that were read has the expected head, and %d follow it", place, c.report.Lines-place), nil)
		} else {
			c.fault(Cut, "the last line does not have the expected head: lines are missing at the end, or all hashes were computed again", nil)
		}
	}
	c.report.Verified = c.report.Count == 0
	return c.report
}
