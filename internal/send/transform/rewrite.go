package transform

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/grapnelhq/grapnel/internal/base/match"
)

// formats are the strings that gojq knows behind an @. It looks one up when it runs.
var formats = []string{"@text", "@json", "@html", "@uri", "@urid", "@csv", "@tsv", "@sh", "@base64", "@base64d"}

// patterned are the functions that match regular expressions, with the position of their flags and
// those that they have anyhow. Of these t says that no match is made, and s that each is replaced.
var patterned = map[string]struct {
	flags int
	adds  string
}{"test": {1, "t"}, "match": {1, ""}, "capture": {1, ""}, "scan": {1, "g"}, "splits": {1, "g"}, "split": {1, "g"}, "sub": {2, "s"}, "gsub": {2, "gs"}}

// maxSteps is the size of all regular expressions of an expression together.
const maxSteps = 5000

// rewriter puts guards into a parsed expression: in front of functions by definitions that stand in
// for them, and in front of operators, iterations, indices, formats and texts in place. Definitions
// of the expression itself come after the former, so an expression cannot change what these call.
type rewriter struct {
	err      error    // the first part that is not available
	format   error    // an unknown format, which only Check refuses
	used     []string // the stand-ins that are called
	patterns []pattern
	steps    int
}

func (r *rewriter) refuse(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *rewriter) rewrite(q *gojq.Query) {
	visit(reflect.ValueOf(q), func(part any) {
		switch part := part.(type) {
		case *gojq.FuncDef:
			r.define(part)
		case *gojq.Func:
			r.call(part)
		case *gojq.Term:
			r.term(part)
		case *gojq.Query:
			r.alternatives(part.Patterns)
			r.query(part)
		case *gojq.Reduce:
			r.alternatives(part.Patterns)
		case *gojq.Foreach:
			r.alternatives(part.Patterns)
		case *gojq.Index:
			if part.Start != nil && !part.IsSlice {
				part.Start = key(part.Start)
			}
		case *gojq.PatternObject:
			if part.KeyQuery != nil {
				part.KeyQuery = key(part.KeyQuery)
			}
		case *gojq.String:
			for i, q := range part.Queries { // the values in it become text
				if q.Term == nil || q.Term.Str == nil {
					part.Queries[i] = &gojq.Query{Term: term(pipe(q, guard("__deep")))}
				}
			}
		}
	})
	defs := q.FuncDefs
	q.FuncDefs = nil
	for _, name := range library().order {
		if slices.Contains(r.used, name) {
			q.FuncDefs = append(q.FuncDefs, library().defs[name]...)
		}
	}
	q.FuncDefs = append(q.FuncDefs, defs...)
}

// alternatives refuses more than one pattern, because each doubles the code that follows.
func (r *rewriter) alternatives(patterns []*gojq.Pattern) {
	if len(patterns) > 1 {
		r.refuse("?// is not available here")
	}
}

// define refuses a function that calls itself: the stacks of the machine would grow without a bound
// that can be seen. Others end, because a function sees only those before it.
func (r *rewriter) define(d *gojq.FuncDef) {
	if d.Name[0] == '_' {
		r.refuse("%s is not available here: a function's name begins with a letter", d.Name)
	}
	visit(reflect.ValueOf(d.Body), func(part any) {
		if f, is := part.(*gojq.Func); is && f.Name == d.Name && len(f.Args) == len(d.Args) {
			r.refuse("%s calls itself, which is not available here; use until, recurse or walk", d.Name)
		}
	})
}

func (r *rewriter) call(f *gojq.Func) {
	if f.Name[0] == '$' && f.Name != "$ENV" {
		return
	}
	name := signature(f.Name, len(f.Args))
	_, isPatterned := patterned[f.Name]
	switch {
	case library().defs[name] != nil:
		r.used = append(r.used, name)
	case isPatterned || slices.Contains(strings.Fields(free), f.Name):
	case f.Name[0] == '_' || isBuiltin(f):
		r.refuse("%s is not available here", f.Name)
	}
}

// isBuiltin says whether the library has a function. Other names are of the expression itself.
func isBuiltin(f *gojq.Func) bool {
	args := slices.Repeat([]*gojq.Query{{Term: &gojq.Term{Type: gojq.TermTypeIdentity}}}, len(f.Args))
	_, err := gojq.Compile(call(f.Name, args...))
	return err == nil
}

// term puts guards in front of a term and between its suffixes: before all that is looked at part
// by part, and before what becomes text.
func (r *rewriter) term(t *gojq.Term) {
	head := *t
	head.SuffixList = nil
	before := func(guard *gojq.Query) {
		inner := head
		head = *term(pipe(guard, &gojq.Query{Term: &inner}))
	}
	switch {
	case t.Type == gojq.TermTypeFormat:
		if !slices.Contains(formats, t.Format) && r.format == nil {
			r.format = fmt.Errorf("%s is no format; use one of %s", t.Format, strings.Join(formats, ", "))
		}
		if t.Str == nil {
			before(guard("__deep"))
		}
	case t.Type == gojq.TermTypeRecurse:
		before(guard("__deep"))
	case t.Type == gojq.TermTypeIndex && t.Index.IsSlice:
		before(guard("__text"))
	case t.Type == gojq.TermTypeFunc:
		if r.pattern(t.Func) {
			before(guard("__match", number(len(r.patterns)-1)))
		}
	}
	for _, s := range t.SuffixList {
		inner := head
		switch {
		case s.Iter:
			head = *term(pipe(&gojq.Query{Term: &inner}, guard("__wide")))
		case s.Index != nil && s.Index.IsSlice:
			head = *term(pipe(&gojq.Query{Term: &inner}, guard("__text")))
		}
		head.SuffixList = append(head.SuffixList, s)
	}
	*t = head
}

// key guards what stands between brackets.
func key(q *gojq.Query) *gojq.Query {
	if literal(q) && len(q.Term.Number) < 3 {
		return q
	}
	return pipe(q, guard("__key"))
}

// literal says whether a query is a number, null, true, false or a text without values inside.
func literal(q *gojq.Query) bool {
	t := q.Term
	if t == nil || len(q.FuncDefs)+len(t.SuffixList) > 0 {
		return false
	}
	return slices.Contains([]gojq.TermType{gojq.TermTypeNumber, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse}, t.Type) ||
		t.Type == gojq.TermTypeString && t.Str.Queries == nil
}

// cheap says whether an operator does no more for an operand than that is long.
func cheap(op gojq.Operator, operand *gojq.Query) bool {
	return literal(operand) && (operands[op] == "__same" || op != gojq.OpMul && operand.Term.Type == gojq.TermTypeNumber)
}

// query puts a guard in front of an operator.
func (r *rewriter) query(q *gojq.Query) {
	if q.Term == nil && len(q.Patterns) == 0 {
		defs := q.FuncDefs
		q.FuncDefs = nil
		*q = *r.operator(q.Op, q.Left, q.Right)
		q.FuncDefs = append(defs, q.FuncDefs...)
	}
}

// operands are the guards of operators. They return the two operands as a pair, in the order in
// which jq evaluates them.
var operands = map[gojq.Operator]string{
	gojq.OpEq: "__same", gojq.OpNe: "__same", gojq.OpLt: "__same", gojq.OpLe: "__same", gojq.OpGt: "__same", gojq.OpGe: "__same",
	gojq.OpAdd: "__sum", gojq.OpSub: "__minus", gojq.OpMul: "__repeat", gojq.OpDiv: "__both", gojq.OpMod: "__both",
}

// updates are the operators that change places, by what they do there.
var updates = map[gojq.Operator]gojq.Operator{
	gojq.OpUpdateAdd: gojq.OpAdd, gojq.OpUpdateSub: gojq.OpSub, gojq.OpUpdateMul: gojq.OpMul, gojq.OpUpdateDiv: gojq.OpDiv,
	gojq.OpUpdateMod: gojq.OpMod, gojq.OpUpdateAlt: gojq.OpAlt,
}

func (r *rewriter) operator(op gojq.Operator, a, b *gojq.Query) *gojq.Query {
	if name, is := operands[op]; is {
		if cheap(op, a) || cheap(op, b) {
			return &gojq.Query{Left: a, Op: op, Right: b}
		}
		return pipe(guard(name, a, b), &gojq.Query{Left: item(0), Op: op, Right: item(1)})
	}
	standIn := func(name string) *gojq.Query {
		r.used = append(r.used, signature(name, 2))
		return call(name, a, b)
	}
	switch inner, update := updates[op]; {
	case update: // a op= b is: b as $value | a |= (. op $value)
		const value = reserved + "value"
		right := b
		b = r.operator(inner, &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}}, call(value))
		return &gojq.Query{Left: right, Op: gojq.OpPipe, Patterns: []*gojq.Pattern{{Name: value}}, Right: standIn("_change")}
	case op == gojq.OpAssign:
		return standIn("_put")
	case op == gojq.OpModify:
		return standIn("_change")
	}
	return &gojq.Query{Left: a, Op: op, Right: b}
}

// pattern is a regular expression that stands in an expression.
type pattern struct {
	*regexp.Regexp
	steps  int64
	anyhow string // its flags, and those of patterned
}

var errPattern = errors.New("a pattern and its flags must be texts that stand in the expression")

// pattern says whether a function matches a regular expression, and adds that to the patterns.
func (r *rewriter) pattern(f *gojq.Func) bool {
	p, is := patterned[f.Name]
	if !is || len(f.Args) == 0 || f.Name == "split" && len(f.Args) == 1 {
		return false
	}
	source, err := written(f.Args[0], nil)
	flags := ""
	if len(f.Args) > p.flags {
		flags, err = written(f.Args[p.flags], err)
	}
	for _, flag := range []struct{ letter, means string }{{"i", "(?i)"}, {"m", "(?s)"}} {
		if strings.Contains(flags, flag.letter) {
			source = flag.means + source
		}
	}
	steps := 0
	if err == nil {
		steps, err = match.PatternSteps(source)
	}
	if r.steps += steps; err == nil && r.steps > maxSteps {
		err = fmt.Errorf("the patterns compile to more than %d steps together", maxSteps)
	}
	if err != nil {
		r.refuse("%s: %w", f.Name, err)
		return false
	}
	r.patterns = append(r.patterns, pattern{regexp.MustCompile(source), int64(steps), flags + p.adds})
	return true
}

// written returns a text that stands in the expression; empty for null.
func written(q *gojq.Query, err error) (string, error) {
	switch {
	case !literal(q) || q.Term.Type != gojq.TermTypeString && q.Term.Type != gojq.TermTypeNull:
		return "", errPattern
	case q.Term.Str == nil:
		return "", err
	}
	return q.Term.Str.Str, err
}
