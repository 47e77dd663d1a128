package transform

import "github.com/itchyny/gojq"

// tails adds the calls without arguments that a function ends with and that nothing is left for:
// the library runs them as jumps, so a loop of them takes no memory. Each query before them must
// give one result, because one that may give more waits on the stacks.
func tails(q *gojq.Query, all map[*gojq.Func]bool) {
	switch {
	case q == nil || len(q.Patterns) > 0:
	case q.Term == nil:
		if q.Op == gojq.OpPipe && once(q.Left) {
			tails(q.Right, all)
		}
	case len(q.Term.SuffixList) > 0:
	case q.Term.Type == gojq.TermTypeFunc:
		all[q.Term.Func] = len(q.Term.Func.Args) == 0
	case q.Term.Type == gojq.TermTypeQuery:
		tails(q.Term.Query, all)
	case q.Term.Type == gojq.TermTypeIf && once(q.Term.If.Cond):
		tails(q.Term.If.Then, all)
		tails(q.Term.If.Else, all)
	}
}

// once says whether a query certainly gives one result or fails.
func once(q *gojq.Query) bool {
	if q == nil || len(q.Patterns) > 0 {
		return false
	}
	if q.Term == nil {
		switch q.Op {
		case gojq.OpModify:
			return true
		case gojq.OpComma, gojq.OpAlt, gojq.OpUpdateAlt:
			return false
		case gojq.OpAssign, gojq.OpUpdateAdd, gojq.OpUpdateSub, gojq.OpUpdateMul, gojq.OpUpdateDiv, gojq.OpUpdateMod:
			return once(q.Right)
		}
		return once(q.Left) && once(q.Right)
	}
	for _, s := range q.Term.SuffixList {
		if s.Iter || s.Optional || s.Index.Start != nil && !literal(s.Index.Start) || s.Index.Str != nil {
			return false
		}
	}
	switch t := q.Term; t.Type {
	case gojq.TermTypeIdentity, gojq.TermTypeArray, gojq.TermTypeNumber, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse:
		return true
	case gojq.TermTypeIndex:
		return t.Index.Name != "" || literal(t.Index.Start)
	case gojq.TermTypeFunc:
		return t.Func.Name[0] == '$' || t.Func.Name == "not" || t.Func.Name == "length"
	case gojq.TermTypeQuery:
		return once(t.Query)
	}
	return literal(q)
}
