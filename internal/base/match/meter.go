package match

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/grapnelhq/grapnel"
)

// Units of cost. One unit is a simple operation, about 40 ns. CEL's own prices are too low for some
// operations on large data (comparing maps, adding strings, counting characters), so a filter
// within CEL's limit could run for half a minute. These prices follow the work.
const (
	regexPerUnit    = 8   // characters times program size
	charactersPer   = 100 // touched for one unit
	timeZoneLoading = 250 // units
)

// limit bounds one evaluation, and the memory that a compiled text takes.
type limit struct {
	cost     int
	regex    int // characters times program size in one call
	programs int // steps of all patterns together
}

// whenSet is the limit of a text that a request sets. One that was saved earlier has no limit of
// its programs: if it did not compile any more its endpoint would get no events.
func (l limit) whenSet() limit {
	l.programs = maxRegexPrograms
	return l
}

// A source's expression runs for every client that knows the source's address, so it may do a
// twentieth.
var (
	filterLimit     = limit{100_000, 4_000_000, math.MaxInt} // one call of matches takes some 25 ms
	expressionLimit = limit{5_000, 200_000, math.MaxInt}
)

// meter prices the calls of one filter. It is not changed once the filter is compiled.
type meter struct {
	limit   limit
	regexes map[string]int // pattern → program size
	steps   int            // of all programs, each of which is kept in memory
	sizes   *types.SizeCalculator
}

func newMeter(l limit) *meter {
	return &meter{
		limit:   l,
		regexes: map[string]int{},
		// Values that are nested deeper or have more parts than this count as infinite.
		sizes: types.NewSizeCalculator(types.SizeCalculatorMaxDepth(grapnel.MaxDepth+1), types.SizeCalculatorMaxTraversal(l.cost)),
	}
}

// CallCost is the cost of a call. CEL adds the cost between calls.
func (m *meter) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	cost := uint64(1)
	switch {
	case types.IsError(result) && function == overloads.Matches: // refused before it ran
	case compares(function):
		cost += m.compared(function, args)
	case function == overloads.Matches && len(args) == 2:
		text, _ := args[0].Value().(string)
		pattern, _ := args[1].Value().(string)
		cost += uint64(len(text)*m.regexes[pattern]) / regexPerUnit
	default:
		if strings.HasPrefix(function, "get") && len(args) == 2 { // getHours(zone) and the like read the zone's file
			cost += timeZoneLoading
		}
		for _, arg := range args {
			switch v := arg.(type) {
			case types.String:
				cost += uint64(len(v)) / charactersPer
			case types.Bytes:
				cost += uint64(len(v)) / charactersPer
			}
		}
	}
	return &cost
}

func compares(function string) bool {
	return function == operators.Equals || function == operators.NotEquals || function == operators.In
}

// compared is the number of parts that a comparison may look at.
func (m *meter) compared(function string, args []ref.Val) (n uint64) {
	if function == operators.In {
		if _, lookUp := args[1].(traits.Mapper); lookUp {
			return 0
		}
		args = args[1:]
	}
	for _, arg := range args {
		n += uint64(m.sizes.AggregateSize(arg))
	}
	return n
}

// comparisons refuses those of values that are too large before they would run for too long,
// because CEL charges a price only afterwards. A value may contain another one many times: a filter
// of 400 bytes can double a list 40 times.
func (m *meter) comparisons() cel.ProgramOption {
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok || !compares(call.Function()) {
			return i, nil
		}
		run := func(values ...ref.Val) ref.Val {
			if m.compared(call.Function(), values) > uint64(m.limit.cost) {
				return types.NewErr("values of more than %d parts are too large for a comparison", m.limit.cost)
			}
			switch call.Function() {
			case operators.Equals:
				return types.Equal(values[0], values[1])
			case operators.NotEquals:
				return types.Bool(types.Equal(values[0], values[1]) != types.True)
			}
			container, ok := values[1].(traits.Container)
			if !ok {
				return types.MaybeNoSuchOverloadErr(values[1])
			}
			return container.Contains(values[0])
		}
		return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), run), nil
	})
}

// learn reads the sizes of the regular expressions. It refuses those that are built while the
// filter runs, because the cost of compiling them could not be bounded.
func (m *meter) learn(checked *cel.Ast) error {
	native := checked.NativeRep()
	var bad *CompileError
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if bad != nil || e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.Matches {
			return
		}
		args := e.AsCall().Args()
		if detail := m.regex(args[len(args)-1]); detail != "" {
			at := native.SourceInfo().GetStartLocation(args[len(args)-1].ID())
			bad = &CompileError{max(at.Line(), 1), max(at.Column(), 0) + 1, detail}
		}
	}))
	if bad != nil {
		return bad
	}
	chargeTexts(checked)
	return nil
}

// chargeTexts passes values that may be long texts through the function dyn, whose price they pay,
// where CEL charges nothing for them: it counts the characters of a range before it finds that a
// text cannot be iterated over, and it hashes what it looks for in a list or map.
func chargeTexts(checked *cel.Ast) {
	native, build := checked.NativeRep(), ast.NewExprFactory()
	id := slices.Max(slices.Collect(maps.Keys(native.IDs())))
	charged := func(e ast.Expr) ast.Expr {
		id++
		native.SetType(id, types.DynType)
		native.SetReference(id, ast.NewFunctionReference(overloads.ToDyn))
		return build.NewCall(id, overloads.TypeConvertDyn, e)
	}
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.CallKind:
			if c := e.AsCall(); c.FunctionName() == operators.In && c.Args()[0].Kind() != ast.LiteralKind {
				e.SetKindCase(build.NewCall(e.ID(), operators.In, charged(c.Args()[0]), c.Args()[1]))
			}
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			if native.GetType(c.IterRange().ID()).Kind() != types.DynKind {
				return
			}
			e.SetKindCase(build.NewComprehensionTwoVar(e.ID(), charged(c.IterRange()), c.IterVar(), c.IterVar2(),
				c.AccuVar(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()))
		}
	}))
}

func (m *meter) regex(e ast.Expr) (wrong string) {
	if e.Kind() != ast.LiteralKind {
		return "the pattern of matches must be written in the filter itself"
	}
	pattern, _ := e.AsLiteral().Value().(string)
	size, err := PatternSteps(pattern)
	if err != nil {
		return err.Error()
	}
	if m.steps += size; m.steps > m.limit.programs {
		return fmt.Sprintf("the patterns compile to more than %d steps together", m.limit.programs)
	}
	m.regexes[pattern] = size
	return ""
}

// matches is the implementation of the function matches: compiled once, and refused before it would
// run for too long, because CEL charges a price only afterwards.
func (m *meter) matches() cel.ProgramOption {
	factory := func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
		compiled, err := regexp.Compile(pattern)
		if err != nil {
			return nil, err
		}
		longest, quoted := m.limit.regex/max(m.regexes[pattern], 1), strconv.Quote(pattern)
		run := func(values ...ref.Val) ref.Val {
			text, ok := values[0].(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(values[0])
			}
			if len(text) > longest {
				return types.NewErr("a text of %d bytes is too long for the pattern %s", len(text), quoted)
			}
			return types.Bool(compiled.MatchString(string(text)))
		}
		return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), run), nil
	}
	return cel.OptimizeRegex(
		&interpreter.RegexOptimization{Function: overloads.Matches, OverloadID: overloads.Matches, RegexIndex: 1, Factory: factory},
		&interpreter.RegexOptimization{Function: overloads.Matches, OverloadID: overloads.MatchesString, RegexIndex: 1, Factory: factory},
	)
}

// PatternSteps is the size of a regular expression's program, or the reason why it may not be used.
func PatternSteps(pattern string) (int, error) {
	size, err := types.RegexProgramSize(pattern)
	if err == nil && size > maxRegexProgram {
		err = fmt.Errorf("the pattern compiles to %d steps, more than %d", size, maxRegexProgram)
	}
	return size, err
}
