package match

import "cel.dev/cel-go/cel"

// Filter is a compiled filter. Any number of goroutines may use it.
type Filter struct{ program cel.Program }

// CompileError is the fault of a filter and its position, counted from 1.
type CompileError struct {
	Line, Column int
	Detail       string
}
