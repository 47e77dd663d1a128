package transform

import (
	"reflect"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/itchyny/gojq"
)

// cost is the highest cost of a call of a function, in units of Bounds.Work.
type cost func(m *meter, x any, args []any) int64

// costs has an entry for each function that expressions may call: jq's own and those of its
// operators. A function without an entry does not compile. Functions that jq defines in its own
// language consist of these.
func costs() map[string]cost {
	table := map[string]cost{
		"_add": times(16, widths), "_divide": times(16, widths), "tonumber": numbered,
		"add": sum, "join": joined, "_multiply": multiplied, "_subtract": product,
		"_index": indexed, "_slice": times(4, widths), "indices": product, "index": product, "rindex": product,
		"contains": product, "inside": product, "keys": times(150, widths), "reverse": times(16, widths),
		"getpath": wayOf(0), "setpath": wayOf(0), "_setpath": wayOf(0), "delpaths": removed, "_delpaths": removed,
		"transpose": square, "_match": matched,
	}
	for names, cost := range map[string]cost{
		"_equal _notequal _greater _less _greatereq _lesseq":                                                                   compared,
		"empty path has type length utf8bytelength _plus _negate _alternative not _range _allocator _break error infinite nan": times(2, scalar),
		"sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh floor round nearbyint rint ceil trunc significand fabs sqrt cbrt " +
			"exp exp10 exp2 expm1 frexp modf log log10 log1p log2 logb gamma tgamma lgamma erf erfc j0 j1 y0 y1 atan2 copysign drem " +
			"fdim fmax fmin fmod hypot nextafter nexttoward remainder ldexp scalb scalbln pow fma isfinite isinfinite isnan isnormal " +
			"toboolean _modulo": times(2, sized),
		"fromjson startswith endswith ltrimstr rtrimstr trimstr ltrim rtrim trim ascii_downcase ascii_upcase":          times(8, sized),
		"tostring tojson format _tohtml _touri _tourid _tocsv _totsv _tosh _tobase64 _tobase64d explode implode split": times(8, sized),
		"flatten min max _min_by _max_by bsearch _captures":                                                            times(8, sized),
		"sort _sort_by _group_by unique _unique_by":                                                                    times(40, sized),
		"gmtime mktime strptime": times(40, sized),
		"strftime":               times(2000, sized), // each %1024d of a format gives 1024 bytes
	} {
		for _, name := range strings.Fields(names) {
			table[name] = cost
		}
	}
	return table
}

func scalar(*meter, any, []any) int64 { return 1 }

// sized is for functions that walk through all their arguments.
func sized(m *meter, x any, args []any) int64 { return m.size(x) + m.size(args...) }

func times(n int64, of cost) cost {
	return func(m *meter, x any, args []any) int64 { return n * of(m, x, args) }
}

// widths is for functions that copy their arguments one level deep.
func widths(m *meter, x any, args []any) int64 {
	n := int64(0)
	if len(args) == 0 {
		n = width(x)
	}
	for _, arg := range args {
		if n += width(arg); isNumber(arg) {
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
		if n += nodeSize + 16*width(v); isNumber(v) {
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

// numbered is for reading a number, which takes the square of its digits.
func numbered(_ *meter, x any, _ []any) int64 { return nodeSize + capped(width(x), width(x))/8 }

func joined(m *meter, x any, args []any) int64 { return m.size(x) + width(x)*width(args[0]) }

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
	a, b := all[0], all[1]
	if _, is := a.(string); is {
		return 8 * (width(a) + width(b))
	}
	if isNumber(a) {
		return m.size(a, b)
	}
	return 2 * capped(m.size(a), m.size(b))
}

// capped multiplies; an overflow becomes more than any bound.
func capped(a, b int64) int64 {
	const most = 1 << 50
	if a > 0 && b > most/a {
		return most
	}
	return a * b
}

// indexed is for .[x]: one step, except for an array inside an array, which is searched for.
func indexed(m *meter, _ any, args []any) int64 {
	if _, is := args[1].([]any); is {
		return product(m, nil, args)
	}
	return 1
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

// wayOf is for functions that copy each value on a path, which is the i-th argument. The next
// argument lists the values that are already copies and are changed in place.
func wayOf(i int) cost {
	return func(m *meter, x any, args []any) int64 {
		path, _ := args[i].([]any)
		return m.way(x, path, reflect.ValueOf(args[len(args)-1]))
	}
}

func (m *meter) way(v any, path []any, copies reflect.Value) (n int64) {
	for _, step := range path {
		n += m.size(step)
		if !copied(v, copies) {
			n += 16 * width(v)
		}
		switch step := step.(type) {
		case string:
			members, _ := v.(map[string]any)
			v = members[step]
		case map[string]any: // a slice
			n += 16 * width(v)
		default:
			at, _ := gojq.ToInt(step)
			elements, _ := v.([]any)
			if v = nil; at >= 0 && at < len(elements) {
				v = elements[at]
			} else {
				n += capped(16, int64(max(at, 0))) // the array grows to there
			}
		}
		if n > m.left || n < 0 {
			m.end(errWork)
			return n
		}
	}
	return n
}

// copied says whether a value is in the library's list of its own copies: a map whose keys are
// addresses.
func copied(v any, copies reflect.Value) bool {
	at := reflect.ValueOf(v)
	if !copies.IsValid() || copies.Kind() != reflect.Map || copies.Type().Key().Kind() != reflect.Uintptr ||
		at.Kind() != reflect.Map && at.Kind() != reflect.Slice {
		return false
	}
	return copies.MapIndex(reflect.ValueOf(at.Pointer())).IsValid()
}

// removed is for removing places: all of the value is looked through once.
func removed(m *meter, x any, args []any) int64 {
	if width(args[0]) == 0 {
		return 1
	}
	return 40*m.size(args[0]) + 16*m.size(x)
}

// square is for transposing: the result is as wide as the longest row in all places.
func square(_ *meter, x any, _ []any) int64 {
	longest := int64(0)
	each(x, func(v any) { longest = max(longest, width(v)) })
	return nodeSize * capped(width(x)+1, longest+1)
}

// pattern is a regular expression with its cost.
type pattern struct {
	*regexp.Regexp
	states int64
}

// Limits of regular expressions. Each machine caches those that it has compiled.
const (
	maxPattern  = 512 // bytes
	maxStates   = 1000
	maxPatterns = 64
	maxCached   = 5000 // states of all of them; a machine with more is used once
)

// matched is for matching a regular expression. With the flag g it finds all matches, and each of
// them costs as much as the text is long, because its position is counted from the start of the
// text.
func matched(m *meter, x any, args []any) int64 {
	text, _ := x.(string)
	source, _ := args[0].(string)
	flags, _ := args[1].(string)
	p := m.pattern(source, flags)
	if p == nil {
		return 1 // an error of the expression, or the end
	}
	each := 4*int64(len(text)) + nodeSize*int64(1+p.NumSubexp())
	n := int64(len(text)) * (10 + p.states)
	if !strings.Contains(flags, "g") || !m.charge(n) {
		return n + each*int64(1+p.NumSubexp())
	}
	for at := 0; at <= len(text); {
		if !m.charge(each*int64(1+p.NumSubexp()) + int64(len(text)-at)*p.states/4) {
			break
		}
		found := p.FindStringIndex(text[at:])
		if found == nil {
			break
		}
		at += max(found[1], 1)
	}
	return n
}

func (m *meter) pattern(source, flags string) *pattern {
	if strings.Contains(flags, "i") {
		source = "(?i)" + source
	}
	if strings.Contains(flags, "m") {
		source = "(?s)" + source
	}
	if p := m.patterns[source]; p != nil {
		return p
	}
	if len(source) > maxPattern {
		m.end(errPattern)
		return nil
	}
	if len(m.patterns) >= maxPatterns {
		m.crowded = true
		clear(m.patterns)
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxStates {
		m.end(errPattern)
		return nil
	}
	compiled, err := regexp.Compile(source)
	if err != nil || !m.charge(int64(len(program.Inst))*2000) {
		return nil
	}
	if m.states += len(program.Inst); m.states > maxCached {
		m.crowded = true
	}
	p := &pattern{compiled, int64(len(program.Inst))}
	m.patterns[source] = p
	return p
}
