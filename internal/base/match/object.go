package match

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// eventVariable is the one variable of a filter or an expression.
const eventVariable = "event"

// textsType is the type of texts by name.
var textsType = types.NewMapType(types.StringType, types.StringType)

// object is the type of the variable event, over values V: their fields, beside CEL's own types.
type object[V any] struct {
	*types.Registry
	name   string // in error messages
	fields []field[V]
}

// field reads one field of a value. One call tells both whether it is set and its value.
type field[V any] struct {
	name string
	is   *types.Type
	read func(V) (value any, set bool, err error)
}

// newEnvironment is a language in which the variable event has these fields.
func newEnvironment[V any](name string, fields ...field[V]) (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	o := &object[V]{registry, name, fields}
	return cel.NewCustomEnv(
		cel.CustomTypeAdapter(o),
		cel.CustomTypeProvider(o),
		cel.StdLib(),
		cel.Variable(eventVariable, cel.ObjectType(name)),
		cel.ParserExpressionSizeLimit(MaxFilterLength),
		cel.ParserRecursionLimit(maxDepth),
		cel.ExpressionNodeLimit(maxNodes),
	)
}

// NativeToValue converts one value. The whole event is none, and CEL's own error would quote it.
func (o *object[V]) NativeToValue(value any) ref.Val {
	if _, whole := value.(V); whole {
		return types.NewErr("event is not a value; name one of its fields")
	}
	return o.Registry.NativeToValue(value)
}

// FindStructType finds the type of event.
func (o *object[V]) FindStructType(name string) (*types.Type, bool) {
	if name == o.name {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return o.Registry.FindStructType(name)
}

// FindStructFieldNames lists the fields of event.
func (o *object[V]) FindStructFieldNames(name string) ([]string, bool) {
	if name != o.name {
		return o.Registry.FindStructFieldNames(name)
	}
	names := make([]string, len(o.fields))
	for i := range o.fields {
		names[i] = o.fields[i].name
	}
	return names, true
}

// FindStructFieldType says how a field of event is read.
func (o *object[V]) FindStructFieldType(name, member string) (*types.FieldType, bool) {
	if name != o.name {
		return o.Registry.FindStructFieldType(name, member)
	}
	i := slices.IndexFunc(o.fields, func(f field[V]) bool { return f.name == member })
	if i < 0 {
		return nil, false
	}
	f := &o.fields[i]
	return &types.FieldType{
		Type: f.is,
		IsSet: func(target any) bool {
			v, ok := target.(V)
			if !ok {
				return false
			}
			_, set, _ := f.read(v)
			return set
		},
		GetFrom: func(target any) (any, error) {
			v, ok := target.(V)
			if !ok {
				return nil, fmt.Errorf("not a %s", o.name)
			}
			value, _, err := f.read(v)
			return value, err
		},
	}, true
}

// world is a value as the whole world of a filter or an expression.
type world[V any] struct{ event V }

// ResolveName finds the variable event.
func (w world[V]) ResolveName(name string) (any, bool) { return w.event, name == eventVariable }

// Parent says that there is no enclosing scope.
func (w world[V]) Parent() cel.Activation { return nil }

// Limits of a filter. They bound the cost of compiling; filterLimit bounds the cost of one
// evaluation.
const (
	MaxFilterLength  = 4 << 10 // bytes
	maxNodes         = 2_000
	maxDepth         = 50
	maxRegexProgram  = 1_000
	maxRegexPrograms = 5_000 // of all patterns of a filter together
)
