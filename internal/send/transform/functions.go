package transform

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/itchyny/gojq"
)

// free are the functions that run as they are. Each takes a bounded time, or a time in proportion
// to a text, and makes no more than it reads; or jq defines it in its own language, so its
// instructions are counted.
const free = `empty error not select range first last limit skip isempty any all
	type has in arrays objects iterables booleans numbers finites normals strings nulls values scalars utf8bytelength
	startswith endswith ltrimstr rtrimstr trimstr ltrim rtrim trim toboolean
	infinite nan isinfinite isnan isfinite isnormal floor ceil round trunc sqrt pow log log2 log10 exp exp2 exp10 fabs abs
	gmtime mktime fromdate fromdateiso8601 todate todateiso8601`

// guarded are the functions that stand in for the library's, whose names they have. Each calls a
// guard (guards.go) and then the library's function, which has its name with an underscore here.
// The functions without arguments that need one guard are in plain.
const guarded = `
	def map(f): __wide | _map(f);
	def map_values(f): __wide | _map_values(f);
	def any(f): __wide | _any(f);
	def all(f): __wide | _all(f);
	def with_entries(f): __wide | _with_entries(f);
	def sort_by(f): __wide | _sort_by(f | __deep);
	def group_by(f): __wide | _group_by(f | __deep);
	def unique_by(f): __wide | _unique_by(f | __deep);
	def min_by(f): __wide | _min_by(f | __deep);
	def max_by(f): __wide | _max_by(f | __deep);
	def recurse(f): _recurse(__step | f);
	def recurse(f; g): _recurse(__step | f; g);
	def repeat(f): _repeat(__step | f);
	def while(f; g): _while(f; __step | g);
	def until(f; g): _until(f; __step | g);
	def walk(f): __deep | _walk(f);
	def paths(f): __deep | _paths(f);
	def flatten($n): __deep | _flatten($n);
	def format($f): __deep | _format($f);
	def split($s): __deep | _split($s);
	def strftime($f): __times($f) | _strftime($f);
	def join($s): __product($s) | _join($s);
	def contains($x): __product($x) | _contains($x);
	def inside($x): __product($x) | _inside($x);
	def indices($x): __product($x) | _indices($x);
	def index($x): __product($x) | _index($x);
	def rindex($x): __product($x) | _rindex($x);
	def add(f): [f] | __deep | _add(.[]);
	def nth($n): ($n | __key) as $i | _nth($i);
	def nth($n; f): _nth($n; f);
	def path(f): _path(f) | __wide;
	def del(f): __deep([path(f) | __wide]) | _del(f);
	def pick(f): . as $v | [path(f) | __wide] | __product(.) | $v | _pick(f);
	def IN(s): any(__same(s; .) | .[0] == .[1]; .);
	def IN(src; s): any(__same(src; s) | .[0] == .[1]; .);
	def _put(p; $v): __ways([path(p) | __wide]; $v) | p = $v;
	def _change(p; f): __ways([path(p) | __wide]) | p |= (f | __deep);`

// plain are the functions of guarded that are no more than a guard and the function.
var plain = []struct{ guard, names string }{
	{"__deep", "add tostring tojson flatten ascii_downcase ascii_upcase explode implode sort min max unique recurse paths"},
	{"__wide", "any all keys reverse to_entries from_entries"},
	{"__digits", "fromjson tonumber"},
	{"__text", "length"},
}

// meterName is the variable with the meter of an evaluation, which each guard gets as its last
// argument. No expression has a variable whose name begins like this.
const meterName = reserved + "meter"

const reserved = "$__"

// standIns are the definitions of guarded and plain in a fixed order, by name and number of
// arguments.
type standIns struct {
	order []string
	defs  map[string][]*gojq.FuncDef
}

var library = sync.OnceValue(func() (s standIns) {
	text := guarded
	for _, p := range plain {
		for name := range strings.FieldsSeq(p.names) {
			text += fmt.Sprintf(" def %s: %s | _%s;", name, p.guard, name)
		}
	}
	query, err := gojq.Parse(text + " .")
	if err != nil {
		panic(err) // the text is above
	}
	visit(reflect.ValueOf(query), func(node any) {
		if f, is := node.(*gojq.Func); is && strings.HasPrefix(f.Name, "__") {
			f.Args = append(f.Args, call(meterName))
		}
	})
	s.defs = map[string][]*gojq.FuncDef{}
	for _, d := range query.FuncDefs {
		key := signature(d.Name, len(d.Args))
		if s.order = append(s.order, key); d.Name[0] != '_' {
			original := &gojq.FuncDef{Name: "_" + d.Name}
			var args []*gojq.Query
			for _, name := range d.Args {
				name = strings.TrimPrefix(name, "$")
				original.Args, args = append(original.Args, name), append(args, call(name))
			}
			original.Body = call(d.Name, args...)
			s.defs[key] = append(s.defs[key], original)
		}
		s.defs[key] = append(s.defs[key], d)
	}
	return s
})

func signature(name string, args int) string { return fmt.Sprintf("%s/%d", name, args) }

// visit calls do for each part of a parsed expression, the inner ones first. The types are public,
// so a new kind of part is visited too.
func visit(v reflect.Value, do func(part any)) {
	switch v.Kind() { //nolint:exhaustive // the others have no parts
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Elem(), do)
			do(v.Interface())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			visit(v.Field(i), do)
		}
	case reflect.Slice:
		for i := range v.Len() {
			visit(v.Index(i), do)
		}
	}
}

// Parts of queries.

func call(name string, args ...*gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}}
}

func guard(name string, args ...*gojq.Query) *gojq.Query {
	return call(name, append(args, call(meterName))...)
}

func pipe(left, right *gojq.Query) *gojq.Query {
	return &gojq.Query{Left: left, Op: gojq.OpPipe, Right: right}
}

func term(q *gojq.Query) *gojq.Term { return &gojq.Term{Type: gojq.TermTypeQuery, Query: q} }

func number(n int) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeNumber, Number: fmt.Sprint(n)}}
}

// item is .[i].
func item(i int) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIndex, Index: &gojq.Index{Start: number(i)}}}
}
