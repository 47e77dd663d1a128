package match

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

func (e *CompileError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Detail)
}

// environment is the language of filters: CEL's standard library and the variable event. It is read
// only.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return newEnvironment("grapnel.Event",
		field[*view]{"type", types.StringType, func(v *view) (any, bool, error) { return v.event.Type, true, nil }},
		field[*view]{"key", types.StringType, func(v *view) (any, bool, error) { return v.event.Key, v.event.Key != "", nil }},
		field[*view]{"data", types.DynType, func(v *view) (any, bool, error) {
			data, err := v.decode()
			return data, err == nil, err
		}},
		field[*view]{"metadata", textsType, func(v *view) (any, bool, error) { return v.event.Metadata, len(v.event.Metadata) > 0, nil }},
		field[*view]{"source", types.StringType, func(v *view) (any, bool, error) { return v.event.Source, v.event.Source != "", nil }},
	)
})

// Check says why a filter cannot be set. The error is a *CompileError.
func Check(filter string) error {
	_, err := compileFilter(filter, filterLimit.whenSet())
	return err
}

// Compile prepares a filter for use. An error is a *CompileError.
func Compile(filter string) (*Filter, error) { return compileFilter(filter, filterLimit) }

func compileFilter(filter string, most limit) (*Filter, error) {
	program, out, err := compile(environment, filter, "a filter", most)
	if err != nil {
		return nil, err
	}
	// A dyn, such as a field of the data, may be true or false at run time; other types never are.
	if out != cel.BoolType && out != cel.DynType {
		return nil, &CompileError{1, 1, fmt.Sprintf("a filter must be true or false, this one is a %s", out)}
	}
	return &Filter{program}, nil
}

// compile makes a program of a text, bounded in the cost of compiling and running, and returns its
// result's type.
func compile(environment func() (*cel.Env, error), text, what string, most limit) (cel.Program, *cel.Type, error) {
	if len(text) > MaxFilterLength {
		return nil, nil, &CompileError{1, 1, fmt.Sprintf("%s has at most %d bytes", what, MaxFilterLength)}
	}
	env, err := environment()
	if err != nil {
		return nil, nil, fmt.Errorf("match: the language of %s cannot be set up: %w", what, err)
	}
	checked, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		return nil, nil, firstIssue(issues)
	}
	m := newMeter(most)
	if err := m.learn(checked); err != nil {
		return nil, nil, err
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), m.matches(), m.comparisons(),
		cel.CostTracking(m), cel.CostLimit(uint64(most.cost)))
	if err != nil {
		return nil, nil, &CompileError{1, 1, err.Error()}
	}
	return program, checked.OutputType(), nil
}

func firstIssue(issues *cel.Issues) error {
	for _, e := range issues.Errors() {
		// CEL counts lines from 1 and columns from 0, and reports faults of the whole text without
		// a position.
		return &CompileError{max(e.Location.Line(), 1), max(e.Location.Column(), 0) + 1, e.Message}
	}
	return &CompileError{1, 1, issues.Err().Error()}
}

// Match says whether the event passes. If the filter cannot be evaluated the event does not pass,
// and the error is the reason.
func (f *Filter) Match(ev *grapnel.Event) (bool, error) {
	return f.match(&view{event: ev})
}

func (f *Filter) match(v *view) (bool, error) {
	result, did, err := f.program.Eval(world[*view]{v})
	if cost := did.ActualCost(); cost != nil {
		v.cost += int64(min(*cost, math.MaxInt64/2))
	}
	if err != nil {
		return false, fmt.Errorf("the filter cannot be evaluated: %s", reason(err))
	}
	passes, ok := result.(types.Bool) // Value would copy a list's elements
	if !ok {
		return false, fmt.Errorf("the filter is a %s, not true or false", result.Type().TypeName())
	}
	return bool(passes), nil
}

// maxReason is the most bytes that are quoted of CEL's errors, which quote the data.
const maxReason = 200

func reason(err error) string {
	return say.Cut(strings.TrimPrefix(err.Error(), "operation cancelled: "), maxReason)
}
