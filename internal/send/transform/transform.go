// Package transform makes the body of a delivery out of its event with a jq expression.
//
// The expression sees the event as the standard format writes it and gives one JSON value, which
// is the body. It is a tenant's text and runs inside the server, so:
//
//   - It is a function of the event alone. There is no clock, no environment, no input, no module
//     and no file: an expression that names one of these does not compile. So each attempt gets
//     the same body.
//   - Functions are those of a list (functions.go), regular expressions stand in the expression,
//     and no function calls itself. An expression with anything else does not compile.
//   - Work is counted, not timed. The library asks its context, a meter, before each
//     instruction, and an evaluation ends when Bounds.Work is used up. The work inside of one
//     instruction is charged by a guard: a function that the expression gets in front of each
//     operator and function whose work grows with the values that it sees (rewrite.go,
//     guards.go). That bounds the memory of values too, because a call is charged for what it
//     makes. A guard changes no result.
//   - Numbers that an expression does not calculate with keep their digits.
//
// It does not preserve the order of an object's members, which come out sorted, or the space
// between them. An event that is too costly for an expression is so each time, because the count
// does not depend on the machine. Only Bounds.Time does, which ends work that the count misses;
// such an evaluation is tried once more before it fails.
package transform

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/itchyny/gojq"
)

// MaxLength is the most bytes that an expression has.
const MaxLength = 4 << 10

// Transform is a compiled expression. Any number of goroutines may use it.
type Transform struct {
	code   *gojq.Code
	bounds Bounds
	now    func() time.Time
}

// Compile prepares an expression for use, or returns its fault.
func Compile(text string, b Bounds, now func() time.Time) (*Transform, error) {
	code, _, err := prepare(text)
	if err != nil {
		return nil, err
	}
	return &Transform{code, b, now}, nil
}

// Check returns the fault of an expression that is to be saved; nil: none. It finds more than
// Compile, because saved expressions may have an unknown format in a part that no event reaches.
func Check(text string) error {
	_, format, err := prepare(text)
	return cmp.Or(err, format)
}

// Apply returns the body of an event, whose standard form is the envelope.
func (t *Transform) Apply(envelope []byte) ([]byte, error) {
	input := json.NewDecoder(bytes.NewReader(envelope))
	input.UseNumber()
	var event any
	if err := input.Decode(&event); err != nil {
		return nil, fmt.Errorf("the event is not JSON: %w", err)
	}
	if longestNumber(envelope) > maxDigits { // maybe a text; the walk finds a number
		if m := newMeter(t.bounds, t.now); m.size(event) > 0 && m.ended != nil {
			return nil, m.ended
		}
	}
	body, err := t.try(event)
	if errors.Is(err, errTime) { // the machine may have stalled
		body, err = t.try(event)
	}
	return body, err
}

// try evaluates once.
func (t *Transform) try(event any) (body []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			body, err = nil, errors.New("the expression cannot be evaluated")
		}
	}()
	return t.run(newMeter(t.bounds, t.now), event)
}

// prepare returns the code of an expression, and the fault of a format that it names.
func prepare(text string) (code *gojq.Code, format, err error) {
	if len(text) > MaxLength {
		return nil, nil, fmt.Errorf("has %d bytes; at most %d are allowed", len(text), MaxLength)
	}
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, nil, badSyntax(text, err)
	}
	if query.Meta != nil || len(query.Imports) > 0 {
		return nil, nil, errors.New("modules are not available here")
	}
	if _, err := gojq.Compile(query); err != nil { // it speaks of the text as it was written
		return nil, nil, fmt.Errorf("does not compile: %w", err)
	}
	if strings.Contains(strings.ReplaceAll(text, "$__loc__", ""), reserved) {
		return nil, nil, errors.New("variables whose names begin with " + reserved + " are not available here")
	}
	var r rewriter
	if r.rewrite(query); r.err != nil {
		return nil, nil, r.err
	}
	if code, err = gojq.Compile(query, append(guards(r.patterns), gojq.WithVariables([]string{meterName}))...); err != nil {
		return nil, nil, fmt.Errorf("does not compile: %w", err)
	}
	return code, r.format, nil
}

// badSyntax says where in a text the parser gave up, in characters from 1.
func badSyntax(text string, err error) error {
	var at *gojq.ParseError
	if !errors.As(err, &at) {
		return fmt.Errorf("is no jq expression: %w", err)
	}
	before := text[:max(0, min(at.Offset-len(at.Token), len(text)))]
	line := strings.Count(before, "\n") + 1
	column := len([]rune(before[strings.LastIndexByte(before, '\n')+1:])) + 1
	return fmt.Errorf("line %d, column %d: %w", line, column, err)
}

// run returns the one result as JSON of at most Bounds.Output bytes.
func (t *Transform) run(m *meter, event any) ([]byte, error) {
	most := t.bounds.Output
	results := t.code.RunWithContext(m, event, m)
	result, found := results.Next()
	if err, failed := result.(error); failed {
		return nil, m.reason(err)
	}
	if !found {
		return nil, m.reason(errNothing)
	}
	switch another, more := results.Next(); {
	case m.ended != nil:
		return nil, m.ended
	case more:
		if err, failed := another.(error); failed {
			return nil, m.reason(err)
		}
		return nil, errSeveral
	}
	// A value may contain another one many times, so its size in memory does not bound its size as
	// text.
	if size := m.size(result); m.ended != nil || size > nodeSize*int64(most) {
		return nil, cmp.Or(m.ended, errOutput(most))
	}
	body, err := gojq.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("the result is no JSON: %w", err)
	}
	if len(body) > most {
		return nil, errOutput(most)
	}
	return body, nil
}

// Faults of an expression's results.
var (
	errNothing = errors.New("no result; the expression must give one")
	errSeveral = errors.New("more than one result; the expression must give one")
)

func errOutput(most int) error { return fmt.Errorf("its result has more than %d bytes", most) }
