package transform

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// free are the functions that run as they are. Each takes a bounded time, or a time in proportion
// to a text, and makes no more than it reads; or jq defines it in its own language, so its
// instructions are counted.
const free = `empty error not path select range first last nth limit skip until while repeat isempty
	type has in arrays objects iterables booleans numbers finites normals strings nulls values scalars length utf8bytelength
	startswith endswith ltrimstr rtrimstr trimstr ltrim rtrim trim toboolean
	infinite nan isinfinite isnan isfinite isnormal floor ceil round trunc sqrt pow log log2 log10 exp exp2 exp10 fabs abs
	gmtime mktime fromdate fromdateiso8601 todate todateiso8601`

// guarded are the functions that have a guard in front of them, by the guard. It sees the input,
// and the first argument if that is a value.
var guarded = byName(map[string]string{
	guardDeep: "tostring tojson format flatten ascii_downcase ascii_upcase explode implode split sort min max unique bsearch",
	guardEach: "map map_values any all walk recurse paths tostream",
	guardWide: "keys reverse to_entries from_entries with_entries sort_by group_by unique_by min_by max_by",
	guardAdd:  "add", guardNumber: "fromjson tonumber", guardSquare: "transpose", guardJoin: "join", guardFormat: "strftime",
	guardTimes: "contains inside indices index rindex", guardPath: "getpath", guardWays: "setpath", guardDelete: "delpaths",
})

func byName(names map[string]string) map[string]string {
	guards := map[string]string{}
	for guard, all := range names {
		for _, name := range strings.Fields(all) {
			guards[name] = guard
		}
	}
	return guards
}

// patterned are the functions that match regular expressions, with the position of their flags and
// those that they have anyhow. Of these t says that no match is made, and s that each is replaced.
var patterned = map[string]struct {
	flags int
	adds  string
}{"test": {1, "t"}, "match": {1, ""}, "capture": {1, ""}, "scan": {1, "g"}, "splits": {1, "g"}, "split": {1, "g"}, "sub": {2, "s"}, "gsub": {2, "gs"}}

// formats are the strings that gojq knows behind an @. It looks one up when it runs.
var formats = []string{"@text", "@json", "@html", "@uri", "@urid", "@csv", "@tsv", "@sh", "@base64", "@base64d"}

// rewriter puts guards into one expression.
type rewriter struct {
	free   []string
	scope  []*function // visible, the innermost last
	err    error
	format error // an unknown format, which only Check refuses
	vars   int
}

// function is one that the expression defines, or a parameter of one.
type function struct {
	name  string
	args  int
	open  bool // its own body is being read
	tails map[*gojq.Func]bool
	calls []*gojq.Term // the guards of calls inside of it, which get what such a call takes of the stacks
}

// all returns a query that does what q does, with a guard in front of each operator and function
// whose work grows with more than its instructions. err becomes the first part that is not
// available.
func (r *rewriter) all(q *gojq.Query) *gojq.Query {
	if q.Meta != nil || len(q.Imports) > 0 {
		r.err = errors.New("modules are not available here")
		return q
	}
	return r.query(q)
}

func (r *rewriter) refuse(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s is not available here", what)
	}
}

func (r *rewriter) queries(all []*gojq.Query) []*gojq.Query {
	out := make([]*gojq.Query, len(all))
	for i := range all {
		out[i] = r.query(all[i])
	}
	return out
}

func (r *rewriter) query(q *gojq.Query) *gojq.Query {
	if q == nil {
		return nil
	}
	visible := len(r.scope)
	defer func() { r.scope = r.scope[:visible] }()
	out := &gojq.Query{Op: q.Op}
	var defs []*gojq.FuncDef
	for _, d := range q.FuncDefs {
		defs = append(defs, r.define(d))
	}
	switch {
	case q.Term != nil:
		out = r.term(q.Term)
	case len(q.Patterns) > 0:
		out.Left, out.Patterns, out.Right = r.query(q.Left), r.patterns(q.Patterns), r.query(q.Right)
	default:
		out = r.operator(q.Op, r.query(q.Left), r.query(q.Right))
	}
	out.FuncDefs = append(defs, out.FuncDefs...)
	return out
}

// define enters a function into the scope. A call of it inside its own body is a recursion, for
// which the machine's stacks grow by what the body can push at most.
func (r *rewriter) define(d *gojq.FuncDef) *gojq.FuncDef {
	f := &function{name: d.Name, args: len(d.Args), open: true}
	r.scope = append(r.scope, f)
	visible := len(r.scope)
	var params []string
	for _, name := range d.Args {
		name = strings.TrimPrefix(name, "$")
		params = append(params, own(name))
		r.scope = append(r.scope, &function{name: name})
	}
	f.tails = map[*gojq.Func]bool{}
	tails(d.Body, f.tails)
	body := r.query(d.Body)
	r.scope = r.scope[:visible]
	f.open = false
	for i, name := range slices.Backward(d.Args) { // f($x): is f(x): x as $x |
		if strings.HasPrefix(name, "$") {
			body = bind(call(params[i]), name, body)
		}
	}
	if len(f.calls) > 0 {
		held := strconv.Itoa(stackOfCall + stackOfText*len(body.String()))
		for _, t := range f.calls {
			t.Number = held
		}
	}
	return &gojq.FuncDef{Name: own(d.Name), Args: params, Body: body}
}

// own is the name that an expression's function gets: a function that is called path must not be
// the one that guards call.
func own(name string) string { return name + " own" }

// term is a term as a query, which is that term alone where nothing has to stand in front of it.
func (r *rewriter) term(t *gojq.Term) *gojq.Query {
	if i := lastIter(t); i >= 0 { // a guard sees the value whose parts are looked at
		before := *t
		before.SuffixList = t.SuffixList[:i]
		each := pipe(r.term(&before), call(guardEach))
		return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: each, SuffixList: r.suffixes(t.SuffixList[i:])}}
	}
	out := *t
	out.SuffixList = r.suffixes(t.SuffixList)
	var instead *gojq.Query
	switch t.Type {
	case gojq.TermTypeIndex:
		out.Index = r.index(t.Index)
	case gojq.TermTypeFunc:
		instead = r.call(t.Func)
	case gojq.TermTypeObject:
		out.Object = r.object(t.Object)
	case gojq.TermTypeArray:
		out.Array = &gojq.Array{Query: r.query(t.Array.Query)}
	case gojq.TermTypeUnary:
		out.Unary = &gojq.Unary{Op: t.Unary.Op, Term: single(r.term(t.Unary.Term))}
	case gojq.TermTypeFormat:
		instead = r.formatted(t)
	case gojq.TermTypeRecurse:
		instead = pipe(call(guardEach), call("recurse"))
	case gojq.TermTypeString:
		out.Str = r.text(t.Str)
	case gojq.TermTypeIf:
		out.If = &gojq.If{Cond: r.query(t.If.Cond), Then: r.query(t.If.Then), Else: r.query(t.If.Else)}
		for _, e := range t.If.Elif {
			out.If.Elif = append(out.If.Elif, &gojq.IfElif{Cond: r.query(e.Cond), Then: r.query(e.Then)})
		}
	case gojq.TermTypeTry:
		out.Try = &gojq.Try{Body: r.query(t.Try.Body), Catch: r.query(t.Try.Catch)}
	case gojq.TermTypeReduce:
		e := t.Reduce
		out.Reduce = &gojq.Reduce{Query: r.query(e.Query), Patterns: r.patterns(e.Patterns), Start: r.query(e.Start), Update: r.query(e.Update)}
	case gojq.TermTypeForeach:
		e := t.Foreach
		out.Foreach = &gojq.Foreach{Query: r.query(e.Query), Patterns: r.patterns(e.Patterns), Start: r.query(e.Start),
			Update: r.query(e.Update), Extract: r.query(e.Extract)}
	case gojq.TermTypeLabel:
		out.Label = &gojq.Label{Ident: t.Label.Ident, Body: r.query(t.Label.Body)}
	case gojq.TermTypeQuery:
		out.Query = r.query(t.Query)
	}
	if instead == nil {
		return &gojq.Query{Term: &out}
	}
	if len(out.SuffixList) == 0 {
		return instead
	}
	suffixes := out.SuffixList
	out = *single(instead)
	if len(out.SuffixList) > 0 {
		out = gojq.Term{Type: gojq.TermTypeQuery, Query: instead}
	}
	out.SuffixList = suffixes
	return &gojq.Query{Term: &out}
}

func (r *rewriter) suffixes(all []*gojq.Suffix) []*gojq.Suffix {
	out := make([]*gojq.Suffix, len(all))
	for i, s := range all {
		out[i] = &gojq.Suffix{Index: r.index(s.Index), Iter: s.Iter, Optional: s.Optional}
	}
	return out
}

// lastIter is the position of the last [] among the suffixes of a term; -1: there is none.
func lastIter(t *gojq.Term) int {
	for i := len(t.SuffixList) - 1; i >= 0; i-- {
		if t.SuffixList[i].Iter {
			return i
		}
	}
	return -1
}

func (r *rewriter) object(o *gojq.Object) *gojq.Object {
	out := &gojq.Object{}
	for _, kv := range o.KeyVals {
		if kv.Val == nil && kv.Key != "" && !strings.HasPrefix(kv.Key, "$") {
			out.KeyVals = append(out.KeyVals, kv)
			continue
		}
		out.KeyVals = append(out.KeyVals, &gojq.ObjectKeyVal{Key: kv.Key, KeyString: r.text(kv.KeyString), KeyQuery: r.query(kv.KeyQuery),
			Val: r.query(kv.Val)})
	}
	return out
}

func (r *rewriter) patterns(all []*gojq.Pattern) (out []*gojq.Pattern) {
	if len(all) > 1 { // each doubles the code that follows
		r.refuse("?//")
	}
	for _, p := range all {
		out = append(out, r.pattern(p))
	}
	return out
}

func (r *rewriter) pattern(p *gojq.Pattern) *gojq.Pattern {
	if p == nil {
		return nil
	}
	out := &gojq.Pattern{Name: p.Name}
	for _, item := range p.Array {
		out.Array = append(out.Array, r.pattern(item))
	}
	for _, o := range p.Object {
		out.Object = append(out.Object, &gojq.PatternObject{Key: o.Key, KeyString: r.text(o.KeyString), KeyQuery: r.key(o.KeyQuery),
			Val: r.pattern(o.Val)})
	}
	return out
}

func (r *rewriter) index(i *gojq.Index) *gojq.Index {
	if i == nil {
		return nil
	}
	out := &gojq.Index{Name: i.Name, Str: r.text(i.Str), IsSlice: i.IsSlice, Start: i.Start, End: r.query(i.End)}
	switch {
	case i.IsSlice:
		out.Start = r.query(i.Start)
	case !literal(i.Start):
		out.Start = r.key(i.Start)
	}
	return out
}

// key is what stands between brackets. One that is an array would be searched for.
func (r *rewriter) key(q *gojq.Query) *gojq.Query {
	if q == nil {
		return nil
	}
	return pipe(r.query(q), call(guardKey))
}

// text guards the values that a string has inside it, which become text.
func (r *rewriter) text(s *gojq.String) *gojq.String {
	if s == nil || s.Queries == nil {
		return s
	}
	out := &gojq.String{Str: s.Str}
	for _, q := range s.Queries {
		if q.Term == nil || q.Term.Str == nil {
			q = &gojq.Query{Term: single(pipe(r.query(q), call(guardDeep)))}
		}
		out.Queries = append(out.Queries, q)
	}
	return out
}

func (r *rewriter) formatted(t *gojq.Term) *gojq.Query {
	if !slices.Contains(formats, t.Format) && r.format == nil {
		r.format = fmt.Errorf("%s is no format; use one of %s", t.Format, strings.Join(formats, ", "))
	}
	out := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFormat, Format: t.Format, Str: r.text(t.Str)}}
	if t.Str != nil {
		return out
	}
	return pipe(call(guardDeep), out)
}
