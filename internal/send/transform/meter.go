package transform

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"time"
	"unicode"

	"github.com/itchyny/gojq"

	"github.com/grapnelhq/grapnel/internal/base/say"
)

// The reasons for which an evaluation is ended.
var (
	errWork = errors.New("too much work for this event")
	errTime = errors.New("evaluation takes too long for this event")
	errDeep = errors.New("works on values that are nested too deep")
)

const (
	stepCost = 20   // of an instruction
	nodeSize = 8    // of a value, besides its text
	maxDepth = 256  // of a value that a function walks through
	maxError = 200  // bytes quoted of an expression's own error
	look     = 1000 // units between two looks at the clock

	maxDigits = 1000 // of a number
	maxBits   = maxDigits * 10 / 3
)

// meter counts the work of an evaluation. It is the context of the library, which asks for Done
// before each instruction, and guards (guards.go) charge it. Once it has ended an evaluation every
// further instruction fails, so an expression cannot catch that.
type meter struct {
	left     int64
	ended    error
	unseen   int64 // units since the last look at the clock
	now      func() time.Time
	deadline time.Time
	closed   chan struct{}
}

func newMeter(b Bounds, now func() time.Time) *meter {
	return &meter{left: b.Work, now: now, deadline: now().Add(b.Time)}
}

// reason is why an evaluation failed: the meter's reason comes first, since an expression may
// have caught it.
func (m *meter) reason(err error) error {
	if m.ended != nil {
		return m.ended
	}
	// An error's value as text may be far larger than in memory, where its parts are shared.
	if thrown, ok := errors.AsType[gojq.ValueError](err); ok && (!m.charge(8*m.size(thrown.Value())) || m.ended != nil) {
		return m.ended
	}
	return errors.New(say.Cut(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(err.Error(), "�")), maxError))
}

// charge subtracts units, and says whether the evaluation may continue.
func (m *meter) charge(units int64) bool {
	if m.left -= units; m.left < 0 || units < 0 {
		m.end(errWork)
	}
	if m.unseen += units; m.unseen >= look {
		if m.unseen = 0; m.now().After(m.deadline) {
			m.end(errTime)
		}
	}
	return m.ended == nil
}

func (m *meter) end(why error) {
	if m.ended == nil {
		m.ended = why
	}
}

// Done is asked before each instruction.
func (m *meter) Done() <-chan struct{} {
	if m.charge(stepCost) {
		return nil
	}
	if m.closed == nil {
		m.closed = make(chan struct{})
		close(m.closed)
	}
	return m.closed
}

// Err is why Done is closed.
func (m *meter) Err() error { return m.ended }

// Deadline reports none to other callers: the meter looks at the clock itself.
func (m *meter) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value is none.
func (m *meter) Value(any) any { return nil }

// size is the cost of walking through values, shared parts counted each time.
func (m *meter) size(values ...any) (n int64) {
	for _, v := range values {
		m.walk(v, &n, 0)
	}
	return n
}

func (m *meter) walk(v any, n *int64, depth int) {
	if *n > m.left {
		m.end(errWork)
		return
	}
	*n += nodeSize + int64(depth) // the way to it may be written down
	switch v := v.(type) {
	case string:
		*n += int64(len(v))
	case json.Number: // reading one takes the square of its digits
		if *n += int64(len(v)); len(v) > maxDigits {
			m.end(errWork)
		}
	case *big.Int:
		if *n += int64(v.BitLen() / 8); v.BitLen() > maxBits {
			m.end(errWork)
		}
	case []any:
		if depth++; depth > maxDepth {
			m.end(errDeep)
		}
		for i := 0; i < len(v) && m.ended == nil; i++ {
			m.walk(v[i], n, depth)
		}
	case map[string]any:
		if depth++; depth > maxDepth {
			m.end(errDeep)
		}
		for name, member := range v {
			if m.ended != nil {
				return
			}
			*n += int64(len(name))
			m.walk(member, n, depth)
		}
	}
}

// Kinds of values whose work grows in different ways.
const (
	aScalar = iota
	aText
	anArray
	anObject
)

func kind(v any) int {
	switch v.(type) {
	case string:
		return aText
	case []any:
		return anArray
	case map[string]any:
		return anObject
	}
	return aScalar
}

// width is how much a value holds itself: characters, elements or members.
func width(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v))
	case []any:
		return int64(len(v))
	case map[string]any:
		return int64(len(v))
	}
	return 1
}

// Bounds are the limits of one evaluation; see package bounds.
type Bounds struct {
	Work   int64         `bound:"50000000" tiny:"5000000"` // about the nanoseconds that it takes
	Output int           `bound:"1048576"  tiny:"65536"`   // bytes of the body
	Time   time.Duration `bound:"400ms"`                   // of the machine, for work that Work does not count
}
