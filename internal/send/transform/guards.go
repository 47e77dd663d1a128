package transform

import (
	"errors"
	"strings"

	"github.com/itchyny/gojq"
)

// factor is how much a function may do and make for each unit of what it walks through.
const factor = 16

// cost is the highest cost of what follows a guard, in units of Bounds.Work.
type cost func(m *meter, x any, args []any) int64

// costs are the guards that return their input once the meter is charged, and those of operators,
// which return their operands. No expression can call one: its functions begin with a letter.
var costs = []struct {
	name string
	args int
	of   cost
	pair bool
}{
	{"__deep", 0, sized, false}, // walks through what the function sees
	{"__deep", 1, sized, false},
	{"__wide", 0, wide, false},       // counts its input's own parts
	{"__step", 0, step, false},       // of a function that calls itself, which leaves things on the stacks
	{"__text", 0, length, false},     // counts the characters of a text
	{"__digits", 0, digits, false},   // finds numbers in a text
	{"__product", 1, product, false}, // multiplies the sizes of its input and its argument
	{"__times", 1, times, false},     // of a format of times
	{"__key", 0, reach, false},       // of an index
	{"__match", 1, nil, false},       // of a regular expression, whose number it gets
	{"__ways", 1, ways, false},       // counts places that are set
	{"__ways", 2, ways, false},       // the same, with the value that they get
	{"__same", 2, compared, true},
	{"__sum", 2, added, true},
	{"__minus", 2, difference, true},
	{"__repeat", 2, repeated, true},
	{"__both", 2, sized, true},
}

// guards are the functions that an expression is compiled with. The last argument of each call is
// the meter.
func guards(patterns []pattern) (options []gojq.CompilerOption) {
	for _, g := range costs {
		if g.name == "__match" {
			g.of = func(m *meter, x any, args []any) int64 {
				i, _ := args[0].(int)
				return matched(m, x, patterns[i])
			}
		}
		options = append(options, gojq.WithFunction(g.name, g.args+1, g.args+1, func(x any, args []any) any {
			m, _ := args[g.args].(*meter)
			if !m.charge(g.of(m, x, args[:g.args])) || m.ended != nil {
				return m.ended
			}
			if g.pair {
				return []any{args[0], args[1]}
			}
			return x
		}))
	}
	return options
}

// sized is for functions that walk through all that they see.
func sized(m *meter, x any, args []any) int64 {
	if len(args) == 2 { // an operator: it does not look at x
		x = nil
	}
	return factor * (m.size(x) + m.size(args...))
}

// step is for a call inside of its own function, which leaves a kilobyte on the stacks.
func step(*meter, any, []any) int64 { return 1500 }

// wide is for functions that copy their input one level deep, and may sort its names; and for a
// look at each part of a value, whose list of parts stays while anything is done with one.
func wide(_ *meter, x any, _ []any) int64 {
	if members, is := x.(map[string]any); is {
		return 150 * int64(len(members))
	}
	return 2 * factor * width(x)
}

// length is for functions that count the characters of a text, and do little for other values.
func length(_ *meter, x any, _ []any) int64 {
	text, _ := x.(string)
	return int64(len(text))
}

// digits is for reading numbers in a text.
func digits(m *meter, x any, _ []any) int64 {
	text, _ := x.(string)
	if longestNumber(text) > maxDigits {
		m.end(errWork)
	}
	return nodeSize + factor*int64(len(text))
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

// product is for functions that compare every part of one value with every part of another.
func product(m *meter, x any, args []any) int64 { return 2 * capped(m.size(x), m.size(args[0])) }

// times is for formats of times, in which each %1024d gives 1024 bytes.
func times(_ *meter, _ any, args []any) int64 { return 2000 * width(args[0]) }

var errKey = errors.New("an array between brackets is not available here")

// reach is for an index. Setting what it leads to makes an array that is as long; an array as an
// index would be searched for.
func reach(m *meter, x any, _ []any) int64 {
	if kind(x) == anArray {
		m.end(errKey)
	}
	i, _ := gojq.ToInt(x)
	return capped(factor, int64(max(i, 0)))
}

var errSlices = errors.New("setting more than one slice is not available here")

// ways is for setting places. The values on the way to one are copied, but each of them once, so
// all ways together cost no more than the whole. An array grows to the index that is set. What a
// place gets may be copied by a place inside of it: an update charges for what it puts there, an
// assignment does here.
func ways(m *meter, x any, args []any) int64 {
	places, _ := args[0].([]any)
	given, onWay := int64(0), int64(0)
	if len(args) == 2 {
		given = factor * m.size(args[1])
	}
	n := capped(given, int64(len(places)))
	for _, place := range places {
		steps, _ := place.([]any)
		if len(steps) > maxDepth {
			m.end(errDeep)
		}
		n += factor * int64(len(steps))
		at := x
		for _, step := range steps {
			if _, slice := step.(map[string]any); slice && len(places) > 1 { // each copies what those before it put there
				m.end(errSlices)
			}
			onWay += factor * width(at)
			if i, _ := gojq.ToInt(step); int64(i) >= width(at) {
				n += capped(factor, int64(i))
			}
			at = below(at, step)
		}
	}
	if onWay > factor*maxDepth {
		onWay = min(onWay, factor*m.size(x))
	}
	return n + onWay
}

// below is what a step of a path leads to.
func below(v, step any) any {
	switch v := v.(type) {
	case map[string]any:
		name, _ := step.(string)
		return v[name]
	case []any:
		if i, is := step.(int); is && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	return nil
}

// compared is for comparisons. Values of different kinds are compared without walking through them.
func compared(m *meter, _ any, args []any) int64 {
	if kind(args[0]) != kind(args[1]) {
		return 1
	}
	return 2 * m.size(args...)
}

// added is for sums of two operands, which are copied one level deep.
func added(m *meter, _ any, args []any) (n int64) {
	for _, arg := range args {
		if n += factor * width(arg); kind(arg) == aScalar {
			n += m.size(arg)
		}
	}
	return n
}

// difference is for numbers, and for arrays whose elements are compared with each other.
func difference(m *meter, _ any, args []any) int64 {
	if kind(args[0]) == aScalar {
		return m.size(args...)
	}
	return product(m, args[0], args[1:])
}

// repeated is for products: of numbers, of a text and a number, and of objects merged in depth.
func repeated(m *meter, _ any, args []any) int64 {
	n := m.size(args...)
	for i, arg := range args {
		if text, is := arg.(string); is {
			often, _ := gojq.ToInt(args[1-i])
			n += capped(int64(len(text)), int64(max(often, 1)))
		}
	}
	return n
}

// matched is for matching a regular expression. With the flag g it finds all matches, and each of
// them costs as much as the text is long, because its position is counted from the text's start.
func matched(m *meter, x any, p pattern) int64 {
	text, _ := x.(string)
	each := (4*int64(len(text)) + nodeSize) * int64(1+p.NumSubexp())
	n := int64(len(text)) * (10 + p.steps)
	if strings.Contains(p.anyhow, "t") {
		return n
	}
	if !strings.Contains(p.anyhow, "g") || !m.charge(n) {
		return n + each
	}
	found := int64(0)
	for at := 0; at <= len(text); found++ {
		cost := each + int64(len(text)-at)*p.steps/4
		if strings.Contains(p.anyhow, "s") { // the parts so far are copied
			cost += 16 * found
		}
		if !m.charge(cost) {
			break
		}
		next := p.FindStringIndex(text[at:])
		if next == nil {
			break
		}
		at += max(next[1], 1)
	}
	return n
}

// capped multiplies; an overflow becomes more than any bound.
func capped(a, b int64) int64 {
	const most = 1 << 50
	if a > 0 && b > most/a {
		return most
	}
	return a * b
}
