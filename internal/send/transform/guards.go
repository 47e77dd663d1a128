package transform

import (
	"errors"
	"fmt"
	"time"

	"github.com/itchyny/gojq"
	"github.com/itchyny/timefmt-go"
)

// Names of guards. No expression can call one, because each has a space.
const (
	guardDeep   = " deep"   // walks through what the function sees
	guardEach   = " each"   // counts the input's parts on the stacks while each is looked at
	guardWide   = " wide"   // counts its input's own parts
	guardAdd    = " add"    // counts the input's parts and theirs
	guardNumber = " number" // finds numbers in a text
	guardSquare = " square" // looks at the input's rows
	guardTimes  = " times"  // multiplies two sizes
	guardJoin   = " join"
	guardFormat = " format" // of times
	guardDate   = " date"
	guardKey    = " key"    // refuses to search for an array
	guardPath   = " path"   // the same in a path
	guardWays   = " ways"   // counts copies on paths
	guardAssign = " assign" // the same, and the value that places get
	guardSet    = " set"    // counts a value that a place gets
	guardPick   = " pick"
	guardDelete = " delete"
	guardMatch  = " match"
	guardCall   = " call" // of a function inside of itself

	// These return their two arguments, as operands.
	guardCompare  = " compare"
	guardSum      = " sum"
	guardMinus    = " minus"
	guardRepeat   = " repeat"
	guardOperands = " operands" // of other operators
)

// factor is how much a function may do and make for each unit of what it walks through.
const factor = 16

// cost is the highest cost of what follows a guard, in units of Bounds.Work.
type cost func(m *meter, x any, args []any) int64

// guards are the functions that an expression is compiled with. Those in front of a function return
// their input and those of operators their operands, once the meter is charged.
func (m *meter) guards() []gojq.CompilerOption {
	before := func(name string, args int, of cost) gojq.CompilerOption {
		return gojq.WithFunction(name, args, args, func(x any, args []any) any {
			if !m.charge(of(m, x, args)) || m.ended != nil {
				return m.ended
			}
			return x
		})
	}
	operands := func(name string, of cost) gojq.CompilerOption {
		return gojq.WithFunction(name, 2, 2, func(x any, args []any) any {
			if !m.charge(of(m, x, args)) || m.ended != nil {
				return m.ended
			}
			return []any{args[0], args[1]}
		})
	}
	key := func(of func(x any, args []any) any) func(any, []any) any {
		return func(x any, args []any) any {
			path := steps(of(x, args))
			if len(path) > maxDepth {
				m.end(errDeep)
				return m.ended
			}
			for _, step := range path {
				if _, is := step.([]any); is {
					return errKey
				}
			}
			return x
		}
	}
	return []gojq.CompilerOption{
		before(guardDeep, 0, sized), before(guardDeep, 1, sized), before(guardEach, 0, waiting), before(guardWide, 0, wide),
		before(guardAdd, 0, sum), before(guardNumber, 0, numbered), before(guardSquare, 0, square), before(guardTimes, 1, product),
		before(guardJoin, 1, joined),
		before(guardFormat, 1, formatted), before(guardWays, 1, ways), before(guardAssign, 2, ways), before(guardSet, 0, wide),
		before(guardPick, 1, picked), before(guardDelete, 1, removed), before(guardMatch, 3, matched), before(guardCall, 1, called),
		operands(guardCompare, compared), operands(guardSum, added), operands(guardMinus, product), operands(guardRepeat, multiplied),
		operands(guardOperands, sized),
		gojq.WithFunction(guardKey, 0, 0, key(func(x any, _ []any) any { return []any{x} })),
		gojq.WithFunction(guardPath, 1, 1, key(func(_ any, args []any) any { return args[0] })),
		gojq.WithFunction(guardDate, 1, 1, m.date),
	}
}

var errKey = errors.New("an array between brackets or in a path is not available here")

func steps(path any) []any {
	all, _ := path.([]any)
	return all
}

// date returns a text and the format to read it by. They are those of the call if that fails or
// would take long. Otherwise they are the same moment without the machine's zone, in which the
// library looks up names of zones: one that is not known in UTC counts as UTC.
func (m *meter) date(x any, args []any) any {
	text, isText := x.(string)
	format, isFormat := args[0].(string)
	if !m.charge(40*m.size(x, args[0])) || m.ended != nil {
		return m.ended
	}
	if t, err := timefmt.ParseInLocation(text, format, time.UTC); isText && isFormat && err == nil {
		return []any{fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000), "%s.%f"}
	}
	return []any{x, args[0]}
}

// called charges the stacks for a recursion.
func called(m *meter, _ any, args []any) int64 {
	held, _ := gojq.ToInt(args[0])
	if m.peak += int64(held); m.peak > m.most {
		m.end(errHeld)
	}
	return stepCost
}

// sized is for functions that walk through all that they see.
func sized(m *meter, x any, args []any) int64 { return factor * (m.size(x) + m.size(args...)) }

// waiting is for a look at each part of a value: all parts are written to a list, which stays while
// anything is done with one of them.
func waiting(_ *meter, x any, _ []any) int64 {
	if _, text := x.(string); text {
		return 1
	}
	return 2 * factor * width(x)
}

// wide is for functions that copy their input one level deep, and may sort its names.
func wide(_ *meter, x any, _ []any) int64 {
	if members, is := x.(map[string]any); is {
		return 150 * int64(len(members))
	}
	return factor * width(x)
}

// added is for sums of two operands, which are copied one level deep.
func added(m *meter, _ any, args []any) (n int64) {
	for _, arg := range args {
		if n += factor * width(arg); isNumber(arg) {
			n += m.size(arg)
		}
	}
	return n
}

func isNumber(v any) bool {
	switch v.(type) {
	case nil, bool, string, []any, map[string]any:
		return false
	}
	return true
}

// sum is for adding all elements.
func sum(m *meter, x any, _ []any) (n int64) {
	each(x, func(v any) {
		if n += nodeSize + factor*width(v); isNumber(v) {
			n += m.size(v)
		}
	})
	return n
}

func each(x any, visit func(any)) {
	switch x := x.(type) {
	case []any:
		for _, v := range x {
			visit(v)
		}
	case map[string]any:
		for _, v := range x {
			visit(v)
		}
	}
}

// numbered is for reading numbers in a text, each of which takes the square of its digits.
func numbered(_ *meter, x any, _ []any) int64 {
	text, _ := x.(string)
	longest := int64(longestNumber(text))
	return nodeSize + factor*int64(len(text)) + capped(longest, longest)/8
}

// longestNumber is the length of the longest part of a text that may be a number.
func longestNumber[T string | []byte](text T) (longest int) {
	n := 0
	for i := range len(text) {
		if c := text[i]; c >= '0' && c <= '9' || c == '.' {
			n++
			longest = max(longest, n)
		} else {
			n = 0
		}
	}
	return longest
}

func joined(m *meter, x any, args []any) int64 {
	return factor * (m.size(x) + capped(width(x), width(args[0])))
}

// formatted is for formats of times, in which each %1024d gives 1024 bytes.
func formatted(_ *meter, _ any, args []any) int64 { return 2000 * width(args[0]) }

// multiplied is for products: of numbers, of a text and a number, and of objects merged in depth.
func multiplied(m *meter, _ any, args []any) int64 {
	n := m.size(args...)
	for i, arg := range args {
		if text, is := arg.(string); is {
			often, _ := gojq.ToInt(args[1-i])
			n += capped(int64(len(text)), int64(max(often, 1)))
		}
	}
	return n
}

// product is for functions that compare every part of one value with every part of another.
func product(m *meter, x any, args []any) int64 {
	all := append([]any{x}, args...)
	if len(args) == 2 { // an operator: it does not look at x
		all = args
	}
	if isNumber(all[0]) {
		return m.size(all...)
	}
	return 2 * capped(m.size(all[0]), m.size(all[1]))
}

// capped multiplies; an overflow becomes more than any bound.
func capped(a, b int64) int64 {
	const most = 1 << 50
	if a > 0 && b > most/a {
		return most
	}
	return a * b
}

// compared is for comparisons. Values of different kinds are compared without walking through them.
func compared(m *meter, _ any, args []any) int64 {
	a, b := args[0], args[1]
	switch a.(type) {
	case []any:
		if _, same := b.([]any); !same {
			return 1
		}
	case map[string]any:
		if _, same := b.(map[string]any); !same {
			return 1
		}
	case string:
		if _, same := b.(string); !same {
			return 1
		}
	}
	return 2 * m.size(a, b)
}

// removed is for removing places: all of the value is looked through once.
func removed(m *meter, x any, args []any) int64 {
	if width(args[0]) == 0 {
		return 1
	}
	return sized(m, x, args)
}

// square is for transposing: the result is as wide as the longest row in all places.
func square(_ *meter, x any, _ []any) int64 {
	longest := int64(0)
	each(x, func(v any) { longest = max(longest, width(v)) })
	return nodeSize * capped(width(x)+1, longest+1)
}

// ways is for setting places: each value on the way to one is copied, but once for places that
// follow each other and share it. The second argument, if there is one, is the value that all
// places get: a place inside of another one copies it.
func ways(m *meter, x any, args []any) (n int64) {
	var before []any // the last place; nil: nothing is a copy
	for _, place := range steps(args[0]) {
		path := steps(place)
		if len(path) > maxDepth {
			m.end(errDeep)
		}
		shared := common(before, path)
		at := x
		for i, step := range path {
			if before == nil || i > shared || i >= len(before) {
				n += factor * width(at)
			}
			if at = below(at, step, &n); n > m.left || n < 0 {
				m.end(errWork)
			}
			if m.ended != nil {
				return n
			}
		}
		if before != nil && shared == len(before) && len(args) > 1 {
			n += factor * width(args[1])
		}
		if before = path; shared == len(path) && shared > 0 { // what stood there is a value of its own now
			before = nil
		}
	}
	return n
}

// common is the number of steps with which two paths begin alike.
func common(a, b []any) (n int) {
	for n < min(len(a), len(b)) && sameStep(a[n], b[n]) {
		n++
	}
	return n
}

func sameStep(a, b any) bool {
	switch a := a.(type) {
	case string:
		b, is := b.(string)
		return is && a == b
	case int:
		b, is := b.(int)
		return is && a == b
	}
	return false
}

// below is what a step of a path leads to. An array grows as far as the step says.
func below(v any, step any, n *int64) any {
	*n += nodeSize
	switch step := step.(type) {
	case string:
		members, _ := v.(map[string]any)
		return members[step]
	case map[string]any: // a slice
		*n += 2 * factor * width(v)
		return v
	case []any:
		return nil
	}
	at, _ := gojq.ToInt(step)
	elements, _ := v.([]any)
	if at >= 0 && at < len(elements) {
		return elements[at]
	}
	*n += capped(factor, int64(max(at, 0)))
	return nil
}

// picked is for making a value of places: for each, all that is there already may be copied.
func picked(m *meter, x any, args []any) (n int64) {
	for i, place := range steps(args[0]) {
		at := x
		for _, step := range steps(place) {
			n += factor * int64(i+1)
			if at = below(at, step, &n); isNumber(step) {
				reach, _ := gojq.ToInt(step)
				n += capped(factor, int64(max(reach, 0)))
			}
		}
		if len(steps(place)) > maxDepth {
			m.end(errDeep)
		}
	}
	return n
}
