package transform

import (
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// Parts of queries.

func call(name string, args ...*gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}}
}

func pipe(left, right *gojq.Query) *gojq.Query {
	return &gojq.Query{Left: left, Op: gojq.OpPipe, Right: right}
}

// bind is: value as name | body.
func bind(value *gojq.Query, name string, body *gojq.Query) *gojq.Query {
	return &gojq.Query{Left: value, Op: gojq.OpPipe, Patterns: []*gojq.Pattern{{Name: name}}, Right: body}
}

// single is a query as a term.
func single(q *gojq.Query) *gojq.Term {
	if q.Term != nil && len(q.FuncDefs) == 0 {
		return q.Term
	}
	return &gojq.Term{Type: gojq.TermTypeQuery, Query: q}
}

func list(q *gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeArray, Array: &gojq.Array{Query: q}}}
}

func number(text string) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeNumber, Number: text}}
}

// item is .[i].
func item(i string) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIndex, Index: &gojq.Index{Start: number(i)}}}
}

func identity() *gojq.Query { return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}} }

// variable is a name that no expression can have: it has a space.
func (r *rewriter) variable() string {
	r.vars++
	return "$ " + strconv.Itoa(r.vars)
}

// literal says whether a query is a number, a text without values inside, null, true or false.
func literal(q *gojq.Query) bool {
	if q == nil || q.Term == nil || len(q.Term.SuffixList) > 0 || len(q.FuncDefs) > 0 {
		return false
	}
	switch q.Term.Type {
	case gojq.TermTypeNumber, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse:
		return true
	case gojq.TermTypeString:
		return q.Term.Str.Queries == nil
	}
	return false
}

func isNumeral(q *gojq.Query) bool { return literal(q) && q.Term.Type == gojq.TermTypeNumber }

// operator applies an operator to two queries that are guarded already.
func (r *rewriter) operator(op gojq.Operator, a, b *gojq.Query) *gojq.Query {
	plain := &gojq.Query{Left: a, Op: op, Right: b}
	switch op {
	case gojq.OpEq, gojq.OpNe, gojq.OpLt, gojq.OpLe, gojq.OpGt, gojq.OpGe:
		if literal(a) || literal(b) {
			return plain
		}
		return operands(guardCompare, plain)
	case gojq.OpAdd, gojq.OpSub, gojq.OpDiv, gojq.OpMod:
		if isNumeral(a) || isNumeral(b) {
			return plain
		}
		return operands(map[gojq.Operator]string{gojq.OpAdd: guardSum, gojq.OpSub: guardMinus}[op], plain)
	case gojq.OpMul:
		return operands(guardRepeat, plain)
	case gojq.OpAssign:
		v := r.variable()
		return bind(b, v, assign(a, call(v)))
	case gojq.OpModify:
		return modify(a, b)
	}
	if inner, is := updates[op]; is {
		v := r.variable()
		return bind(b, v, modify(a, r.operator(inner, identity(), call(v))))
	}
	return plain
}

// updates are the operators that change places, by what they do there.
var updates = map[gojq.Operator]gojq.Operator{
	gojq.OpUpdateAdd: gojq.OpAdd, gojq.OpUpdateSub: gojq.OpSub, gojq.OpUpdateMul: gojq.OpMul, gojq.OpUpdateDiv: gojq.OpDiv,
	gojq.OpUpdateMod: gojq.OpMod, gojq.OpUpdateAlt: gojq.OpAlt,
}

// operands passes the operands of an operator through a guard, which returns them as a pair: in the
// order in which jq evaluates them.
func operands(guard string, q *gojq.Query) *gojq.Query {
	if guard == "" {
		guard = guardOperands
	}
	return pipe(call(guard, q.Left, q.Right), &gojq.Query{Left: item("0"), Op: q.Op, Right: item("1")})
}

// assign is at = value, with its places found once before. The value is a variable.
func assign(at, value *gojq.Query) *gojq.Query {
	guard := call(guardAssign, list(pathOf(call(placesName))), value)
	return places(at, pipe(guard, &gojq.Query{Left: call(placesName), Op: gojq.OpAssign, Right: value}))
}

// modify is at |= value, with its places found once before.
func modify(at, value *gojq.Query) *gojq.Query {
	guard := call(guardWays, list(pathOf(call(placesName))))
	return places(at, pipe(guard, &gojq.Query{Left: call(placesName), Op: gojq.OpModify, Right: pipe(value, call(guardSet))}))
}

// pathOf is path(places). Each result is a list as long as its place is deep, which is charged.
func pathOf(places *gojq.Query) *gojq.Query { return pipe(call("path", places), call(guardEach)) }

// placesName is a function that no expression can call: its name has a space.
const placesName = " places"

// places defines a function for a path that a body needs twice. Written twice, paths inside paths
// would double the code each time.
func places(path, body *gojq.Query) *gojq.Query {
	body.FuncDefs = []*gojq.FuncDef{{Name: placesName, Body: path}}
	return body
}

// call is a call of a function with its guards.
func (r *rewriter) call(f *gojq.Func) *gojq.Query {
	if f.Name == "$ENV" {
		r.refuse(f.Name)
	}
	if f.Name[0] == '$' {
		return call(f.Name)
	}
	args := r.queries(f.Args)
	for _, is := range slices.Backward(r.scope) {
		if is.name != f.Name || is.args != len(args) {
			continue
		}
		called := call(own(f.Name), args...)
		if !is.open || is.tails[f] {
			return called
		}
		held := number("0")
		is.calls = append(is.calls, held.Term)
		return pipe(call(guardCall, held), called)
	}
	if p, is := patterned[f.Name]; is && (f.Name != "split" || len(args) == 2) && len(args) > 0 {
		return r.matching(f.Name, args, p.flags, p.adds)
	}
	guard := guarded[f.Name]
	switch {
	case f.Name == "add" && len(args) == 1:
		return pipe(list(args[0]), pipe(call(guardAdd), call("add")))
	case f.Name == "IN" && len(args) > 0:
		other := identity()
		if len(args) == 2 {
			other = args[1]
		}
		return call("any", r.operator(gojq.OpEq, args[0], other), identity())
	case f.Name == "path" && len(args) == 1:
		return pathOf(args[0])
	case f.Name == "del" && len(args) == 1:
		return r.guardedBy(guardDelete, "delpaths", []*gojq.Query{list(pathOf(args[0]))})
	case f.Name == "pick" && len(args) == 1:
		return places(args[0], pipe(call(guardPick, list(pathOf(call(placesName)))), call(f.Name, call(placesName))))
	case f.Name == "strptime" && len(args) == 1:
		v := r.variable()
		return pipe(call(guardDate, args[0]), bind(item("1"), v, pipe(item("0"), call("strptime", call(v)))))
	}
	if guard == guardWide || guard == guardEach { // an argument is no value
		if len(args) == 1 && strings.HasSuffix(f.Name, "_by") { // but the key by which it sorts
			args[0] = pipe(args[0], call(guardDeep))
		}
		return pipe(call(guard), call(f.Name, args...))
	}
	if guard != "" {
		return r.guardedBy(guard, f.Name, args)
	}
	if !slices.Contains(r.free, f.Name) {
		r.refuse(f.Name)
	}
	return call(f.Name, args...)
}

// guardedBy evaluates the arguments of a function once, for its guard and for itself. The guard
// sees the first.
func (r *rewriter) guardedBy(guard, name string, args []*gojq.Query) *gojq.Query {
	vars := make([]*gojq.Query, len(args))
	for i := range args {
		vars[i] = call(r.variable())
	}
	seen := slices.Clone(vars[:min(len(vars), 1)])
	if guard == guardWays {
		seen[0] = list(seen[0])
	}
	out := pipe(call(guard, seen...), call(name, vars...))
	for i := range args {
		out = bind(args[i], vars[i].Term.Func.Name, out)
	}
	return out
}

// matching is a call of a function that matches a regular expression, which is the first argument.
func (r *rewriter) matching(name string, args []*gojq.Query, flags int, adds string) *gojq.Query {
	pattern, flag := r.variable(), r.variable()
	with := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeNull}}
	if len(args) > flags {
		with, args[flags] = args[flags], call(flag)
	}
	regex := args[0]
	args[0] = call(pattern)
	text := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeString, Str: &gojq.String{Str: adds}}}
	out := pipe(call(guardMatch, call(pattern), call(flag), text), call(name, args...))
	return bind(with, flag, bind(regex, pattern, out))
}
