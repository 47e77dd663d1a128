package match

import (
	"errors"
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

	decoded bool
	data    any
	err     error
	named   map[string]string
}

// decode reads the data at the first use.
func (r *Request) decode() (any, error) {
	if !r.decoded {
		r.decoded = true
		r.data, r.err = decode(r.Data)
	}
	return r.data, r.err
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

// requestType is the type's name in error messages.
const requestType = "grapnel.Request"

// requestEnvironment is the language of expressions: that of filters, over a request.
var requestEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	return newEnvironment(adapter{registry}, &requestProvider{registry}, requestType)
})

// CheckExpression says why an expression cannot be set. The error is a *CompileError.
func CheckExpression(expression string) error {
	_, err := compileExpression(expression, expressionLimit.whenSet())
	return err
}

// CompileExpression prepares an expression for use. An error is a *CompileError.
func CompileExpression(expression string) (*Expression, error) {
	return compileExpression(expression, expressionLimit)
}

func compileExpression(expression string, most limit) (*Expression, error) {
	program, out, err := compile(requestEnvironment, expression, "an expression", most)
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
	result, _, err := e.program.Eval(&requestView{request: r})
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

// requestView is a request as an expression sees it.
type requestView struct{ request *Request }

// ResolveName makes a view the whole world of an expression.
func (v *requestView) ResolveName(name string) (any, bool) { return v, name == eventVariable }

// Parent says that there is no enclosing scope.
func (v *requestView) Parent() cel.Activation { return nil }

// requestProvider adds the type of a request to CEL's own types.
type requestProvider struct{ *types.Registry }

// FindStructType finds the type of a request.
func (p *requestProvider) FindStructType(name string) (*types.Type, bool) {
	if name == requestType {
		return types.NewTypeTypeWithParam(types.NewObjectType(requestType)), true
	}
	return p.Registry.FindStructType(name)
}

// FindStructFieldNames lists the fields of a request.
func (p *requestProvider) FindStructFieldNames(name string) ([]string, bool) {
	if name == requestType {
		return []string{"type", "key", "data", "headers"}, true
	}
	return p.Registry.FindStructFieldNames(name)
}

// FindStructFieldType says how a field of a request is read.
func (p *requestProvider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != requestType {
		return p.Registry.FindStructFieldType(name, field)
	}
	switch field {
	case "type":
		return requestField(types.StringType, func(v *requestView) (any, bool, error) { return v.request.Type, v.request.Type != "", nil }), true
	case "key":
		return requestField(types.StringType, func(v *requestView) (any, bool, error) { return v.request.Key, v.request.Key != "", nil }), true
	case "headers":
		return requestField(types.NewMapType(types.StringType, types.StringType),
			func(v *requestView) (any, bool, error) { return v.request.headers(), len(v.request.Headers) > 0, nil }), true
	case "data":
		return requestField(types.DynType, func(v *requestView) (any, bool, error) {
			data, err := v.request.decode()
			return data, err == nil, err
		}), true
	}
	return nil, false
}

var errNotRequest = errors.New("not a request")

// requestField reads one field. One call tells both whether it is set and its value.
func requestField(t *types.Type, read func(*requestView) (value any, set bool, err error)) *types.FieldType {
	return &types.FieldType{
		Type: t,
		IsSet: func(target any) bool {
			v, ok := target.(*requestView)
			if !ok {
				return false
			}
			_, set, _ := read(v)
			return set
		},
		GetFrom: func(target any) (any, error) {
			v, ok := target.(*requestView)
			if !ok {
				return nil, errNotRequest
			}
			value, _, err := read(v)
			return value, err
		},
	}
}
