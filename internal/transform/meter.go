package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"github.com/itchyny/gojq"
	"github.com/itchyny/timefmt-go"
)

// The reasons for which an evaluation is ended.
var (
	errWork = errors.New("too much work for this event")
	errTime = errors.New("evaluation takes too long for this event")
	errDeep = errors.New("works on values that are nested too deep")
	errHeld = errors.New("too much memory for this event; a recursion may be without an end")
)

const (
	stepCost = 30  // of an instruction
	nodeSize = 8   // of a value, besides its text
	maxDepth = 256 // of a value that a function walks through
	maxError = 200 // bytes quoted of an expression's own error
	look     = 32  // instructions between two looks at the clock and at the stacks
)

// meter counts the work of an evaluation. It is the context of the machine, which asks for Done
// before each instruction, and it stands around each function that an instruction calls (see
// attach). Once it has ended an evaluation every further instruction and call fails, so an
// expression cannot catch that.
type meter struct {
	left     int64
	ended    error
	steps    int
	held     []held // the machine's stacks
	most     int64  // bytes that they may take
	peak     int64  // bytes that they took
	now      func() time.Time
	deadline time.Time
	closed   chan struct{}
	patterns map[string]*pattern
	states   int // of all that it has compiled
	// the machine is discarded, because it caches too many compiled regular expressions
	crowded bool
}

func newMeter() *meter {
	m := &meter{closed: make(chan struct{}), patterns: map[string]*pattern{}}
	close(m.closed)
	return m
}

func (m *meter) begin(b Bounds, now func() time.Time) {
	m.left, m.ended, m.steps, m.now, m.deadline = b.Work, nil, 0, now, now().Add(b.Time)
	m.most, m.peak = b.Stacks, 0
}

// held is a slice of the machine that grows with the depth of calls and with open alternatives.
type held struct {
	slice reflect.Value
	size  int64 // bytes of an element
}

// watch finds the stacks of a machine that is about to run. Like attach it needs reflection: if a
// later version of the library differs, nothing is evaluated, and the tests fail.
func (m *meter) watch(machine gojq.Iter) error {
	m.held = m.held[:0]
	env := reflect.ValueOf(machine)
	if env.Kind() != reflect.Pointer || env.Elem().Kind() != reflect.Struct {
		return errors.New("transform: the machine is not as expected")
	}
	for _, name := range []string{"stack", "paths", "scopes", "values", "forks"} {
		slice := env.Elem().FieldByName(name)
		if slice.Kind() == reflect.Pointer && slice.Elem().Kind() == reflect.Struct {
			slice = slice.Elem().FieldByName("data")
		}
		if slice.Kind() != reflect.Slice {
			return errors.New("transform: the " + name + " of the machine are not as expected")
		}
		m.held = append(m.held, held{slice, int64(slice.Type().Elem().Size())})
	}
	return nil
}

// weigh ends an evaluation whose stacks take too many bytes.
func (m *meter) weigh() {
	bytes := int64(0)
	for _, h := range m.held {
		bytes += int64(h.slice.Cap()) * h.size
	}
	if m.peak = max(m.peak, bytes); bytes > m.most {
		m.end(errHeld)
	}
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
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(err.Error(), "�"))
	if len(text) > maxError {
		text = text[:maxError]
		for !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
		text += "…"
	}
	return errors.New(text)
}

// charge subtracts units, and says whether the evaluation may continue.
func (m *meter) charge(units int64) bool {
	if m.left -= units; m.left < 0 || units < 0 {
		m.end(errWork)
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
	m.charge(stepCost)
	if m.steps++; m.steps%look == 0 {
		if m.weigh(); m.now().After(m.deadline) {
			m.end(errTime)
		}
	}
	if m.ended != nil {
		return m.closed
	}
	return nil
}

// Err is why Done is closed.
func (m *meter) Err() error { return m.ended }

// Deadline reports none to other callers: the meter looks at the clock itself.
func (m *meter) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value is none.
func (m *meter) Value(any) any { return nil }

// attach puts the meter around every function that the code calls. A function without a cost in the
// table does not compile: so impure functions, and those that a later version of the library adds,
// are excluded.
//
// The library has no hook for this, so attach changes its code by reflection: each call holds its
// function, the number of arguments and the name. If a later version differs, nothing compiles, and
// the tests fail.
func (m *meter) attach(code *gojq.Code) error {
	table := costs()
	codes := reflect.ValueOf(code).Elem().FieldByName("codes")
	if codes.Kind() != reflect.Slice {
		return errors.New("transform: the code of an expression is not as expected")
	}
	if codes.Len() > maxCode {
		return errors.New("is too long")
	}
	for i := range codes.Len() {
		slot := codes.Index(i).Elem().FieldByName("v")
		if slot.Kind() != reflect.Interface {
			return errors.New("transform: an instruction of an expression is not as expected")
		}
		held := reflect.NewAt(slot.Type(), unsafe.Pointer(slot.UnsafeAddr())).Elem()
		call, is := held.Interface().([3]any)
		if !is {
			continue
		}
		f, isFunc := call[0].(func(any, []any) any)
		name, isName := call[2].(string)
		if !isFunc || !isName {
			return errors.New("transform: a call of an expression is not as expected")
		}
		cost, known := table[name]
		if !known {
			return fmt.Errorf("%s is not available here", strings.TrimPrefix(name, "_"))
		}
		if name == "strptime" {
			f = inUTC(f)
		}
		held.Set(reflect.ValueOf([3]any{m.around(f, cost), call[1], name}))
	}
	return nil
}

// inUTC is strptime without the machine's zone, in which the library looks up names of zones: one
// that is not known in UTC counts as UTC.
func inUTC(strptime func(any, []any) any) func(any, []any) any {
	return func(x any, args []any) any {
		text, isText := x.(string)
		format, isFormat := args[0].(string)
		t, err := timefmt.ParseInLocation(text, format, time.UTC)
		if !isText || !isFormat || err != nil {
			return strptime(x, args) // its error
		}
		return strptime(fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000), []any{"%s.%f"})
	}
}

// maxCode is the most instructions that an expression compiles to.
const maxCode = 50_000

func (m *meter) around(f func(any, []any) any, cost cost) func(any, []any) any {
	return func(x any, args []any) any {
		if !m.charge(stepCost+cost(m, x, args)) || m.ended != nil {
			return m.ended
		}
		return f(x, args)
	}
}

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
	*n += nodeSize
	switch v := v.(type) {
	case string:
		*n += int64(len(v))
	case json.Number: // reading one takes the square of its digits
		*n += int64(len(v)) * int64(len(v)) / 8
	case *big.Int:
		*n += int64(v.BitLen()) * int64(v.BitLen()) / 256
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
