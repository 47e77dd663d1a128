package match

import (
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/grapnelhq/grapnel"
)

// Limits of a filter. They bound what compiling takes; maxCost bounds what one evaluation takes.
const (
	MaxFilterLength = 4 << 10 // bytes
	maxNodes        = 2_000
	maxDepth        = 50
	maxRegexProgram = 1_000
)

// Filter is a compiled filter. Any number of goroutines may use it.
type Filter struct{ program cel.Program }

// CompileError says what is wrong with a filter and where, both counted from 1.
type CompileError struct {
	Line, Column int
	Detail       string
}

func (e *CompileError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Detail)
}

// environment is the language of filters: CEL's standard library and the variable event. It is read only.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	return cel.NewCustomEnv(
		cel.CustomTypeAdapter(registry),
		cel.CustomTypeProvider(&provider{registry}),
		cel.StdLib(),
		cel.Variable(eventVariable, cel.ObjectType(eventType)),
		cel.ParserExpressionSizeLimit(MaxFilterLength),
		cel.ParserRecursionLimit(maxDepth),
		cel.ExpressionNodeLimit(maxNodes),
	)
})

// Compile prepares a filter for use. An error is a *CompileError.
func Compile(filter string) (*Filter, error) {
	if len(filter) > MaxFilterLength {
		return nil, &CompileError{1, 1, fmt.Sprintf("a filter has at most %d bytes", MaxFilterLength)}
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("match: the filter language cannot be set up: %w", err)
	}
	checked, issues := env.Compile(filter)
	if issues != nil && issues.Err() != nil {
		return nil, firstIssue(issues)
	}
	m := newMeter()
	if err := m.learn(checked); err != nil {
		return nil, err
	}
	// A dyn, such as a field of the data, may turn out to be true or false; anything else never does.
	if out := checked.OutputType(); out != cel.BoolType && out != cel.DynType {
		return nil, &CompileError{1, 1, fmt.Sprintf("a filter must be true or false, this one is a %s", out)}
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), m.matches(), cel.CostTracking(m), cel.CostLimit(maxCost))
	if err != nil {
		return nil, &CompileError{1, 1, err.Error()}
	}
	return &Filter{program}, nil
}

func firstIssue(issues *cel.Issues) error {
	for _, e := range issues.Errors() {
		// CEL counts lines from 1 and columns from 0; it has no place for what concerns the whole text.
		return &CompileError{max(e.Location.Line(), 1), max(e.Location.Column(), 0) + 1, e.Message}
	}
	return &CompileError{1, 1, issues.Err().Error()}
}

// Match says whether the event passes. When the filter cannot be evaluated it does not pass, and the error is the reason.
func (f *Filter) Match(ev *grapnel.Event) (bool, error) {
	return f.match(&view{event: ev})
}

func (f *Filter) match(v *view) (bool, error) {
	result, _, err := f.program.Eval(v)
	if err != nil {
		return false, fmt.Errorf("the filter cannot be evaluated: %s", strings.TrimPrefix(err.Error(), "operation cancelled: "))
	}
	passes, ok := result.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the filter is a %s, not true or false", result.Type().TypeName())
	}
	return passes, nil
}
