package match

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// Expression is a compiled expression over a request: its result is a text, such as the type or the
// key of the request's event. It is safe for concurrent use. It is bounded as filters are, and may
// cost a twentieth of a filter's limit.
type Expression struct{ program cel.Program }

// Request is what expressions see as the variable event: data, headers (by their names in lower
// case), type and key. It is decoded once, at the first use, and belongs to one goroutine.
type Request struct {
	Data    []byte
	Headers http.Header
	Type    string // the provider's own
	Key     string

	document
	digits document // the same data, for ids
	named  map[string]string
}

// headers are those by their names in lower case, the lines of one name joined by commas.
func (r *Request) headers() map[string]string {
	if r.named == nil {
		r.named = make(map[string]string, len(r.Headers))
		for name, values := range r.Headers {
			r.named[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	return r.named
}

// requestEnvironment is the language of expressions: that of filters, over a request.
var requestEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	return newEnvironment("grapnel.Request",
		field[*Request]{"type", types.StringType, func(r *Request) (any, bool, error) { return r.Type, r.Type != "", nil }},
		field[*Request]{"key", types.StringType, func(r *Request) (any, bool, error) { return r.Key, r.Key != "", nil }},
		field[*Request]{"data", types.DynType, func(r *Request) (any, bool, error) {
			data, err := r.of(r.Data, values)
			return data, err == nil, err
		}},
		field[*Request]{"headers", textsType, func(r *Request) (any, bool, error) { return r.headers(), len(r.Headers) > 0, nil }},
	)
})

// idEnvironment is the language of expressions for ids: that of the others, over the body alone. A
// header may be unsigned where the body is signed.
var idEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	return newEnvironment("grapnel.Body", field[*Request]{"data", types.DynType, func(r *Request) (any, bool, error) {
		data, err := r.digits.of(r.Data, digits)
		return data, err == nil, err
	}})
})

// CheckExpression says why an expression cannot be set. The error is a *CompileError.
func CheckExpression(expression string) error {
	_, err := compileExpression(requestEnvironment, expression, expressionLimit.whenSet())
	return err
}

// CheckID says why an expression cannot be set for ids. The error is a *CompileError.
func CheckID(expression string) error {
	_, err := compileExpression(idEnvironment, expression, expressionLimit.whenSet())
	return err
}

// CompileExpression prepares an expression for use. An error is a *CompileError.
func CompileExpression(expression string) (*Expression, error) {
	return compileExpression(requestEnvironment, expression, expressionLimit)
}

// CompileID prepares an expression for ids for use: it sees event.data alone, and a number that is
// no whole number of 64 bits as the text of its digits. An error is a *CompileError.
func CompileID(expression string) (*Expression, error) {
	return compileExpression(idEnvironment, expression, expressionLimit)
}

func compileExpression(language func() (*cel.Env, error), expression string, most limit) (*Expression, error) {
	program, out, err := compile(language, expression, "an expression", most)
	if err != nil {
		return nil, err
	}
	switch out {
	case cel.StringType, cel.IntType, cel.UintType, cel.DynType:
		return &Expression{program}, nil
	}
	return nil, &CompileError{1, 1, fmt.Sprintf("an expression must be a text or a whole number, this one is a %s", out)}
}

// Text evaluates the expression. A whole number becomes its digits.
func (e *Expression) Text(r *Request) (string, error) {
	result, _, err := e.program.Eval(world[*Request]{r})
	if err != nil {
		return "", fmt.Errorf("the expression cannot be evaluated: %s", reason(err))
	}
	switch v := result.(type) {
	case types.String:
		return string(v), nil
	case types.Int:
		return strconv.FormatInt(int64(v), 10), nil
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10), nil
	}
	return "", fmt.Errorf("the expression is a %s, not a text", result.Type().TypeName())
}
