package match

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/grapnelhq/grapnel"
)

// The one variable of a filter, and its type's name in error messages.
const (
	eventVariable = "event"
	eventType     = "grapnel.Event"
)

// view is an event as a filter sees it. All filters that see one event share a view and with it the
// decoded data. It belongs to one goroutine.
type view struct {
	event   *grapnel.Event
	decoded bool
	data    any
	err     error
	cost    int64             // of the filters that have run
	said    map[*Filter]error // result of each filter; nil: the event passes
}

// passes returns nil if the filter lets the event through, else the reason. Endpoints with the same
// filter share its answer.
func (v *view) passes(f *Filter) error {
	err, ran := v.said[f]
	if ran {
		return err
	}
	ok, err := f.match(v)
	if err == nil && !ok {
		err = errFilteredOut
	}
	if v.said == nil {
		v.said = map[*Filter]error{}
	}
	v.said[f] = err
	return err
}

// ResolveName makes a view the whole world of a filter.
func (v *view) ResolveName(name string) (any, bool) { return v, name == eventVariable }

// Parent says that there is no enclosing scope.
func (v *view) Parent() cel.Activation { return nil }

// decode reads the data at the first use.
func (v *view) decode() (any, error) {
	if !v.decoded {
		v.decoded = true
		v.data, v.err = decode(v.event.Data)
	}
	return v.data, v.err
}

var errNotJSON = errors.New("the event's data is not JSON")

// decode converts JSON to CEL's values. Whole numbers stay whole: as floats, two ids beyond 2^53
// that differ in their last digit would be equal.
func decode(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, errNotJSON
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errNotJSON
	}
	return numbers(value), nil
}

func numbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return u
		}
		f, _ := v.Float64() // beyond the range of floats: ±Inf, which compares as it should
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return value
}

// adapter converts values to CEL's. The whole event is none, and CEL's own error would quote it.
type adapter struct{ *types.Registry }

// NativeToValue converts one value.
func (a adapter) NativeToValue(value any) ref.Val {
	switch value.(type) {
	case *view, *requestView:
		return types.NewErr("event is not a value; name one of its fields")
	}
	return a.Registry.NativeToValue(value)
}

// provider adds the type of event to CEL's own types.
type provider struct{ *types.Registry }

// FindStructType finds the type of event.
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if name == eventType {
		return types.NewTypeTypeWithParam(types.NewObjectType(eventType)), true
	}
	return p.Registry.FindStructType(name)
}

// FindStructFieldNames lists the fields of an event.
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if name == eventType {
		return []string{"type", "key", "data", "metadata", "source"}, true
	}
	return p.Registry.FindStructFieldNames(name)
}

// FindStructFieldType says how a field of event is read.
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != eventType {
		return p.Registry.FindStructFieldType(name, field)
	}
	switch field {
	case "type":
		return fieldOf(types.StringType, func(v *view) bool { return true },
			func(v *view) (any, error) { return v.event.Type, nil }), true
	case "key":
		return fieldOf(types.StringType, func(v *view) bool { return v.event.Key != "" },
			func(v *view) (any, error) { return v.event.Key, nil }), true
	case "data":
		return fieldOf(types.DynType, func(v *view) bool { _, err := v.decode(); return err == nil },
			(*view).decode), true
	case "source":
		return fieldOf(types.StringType, func(v *view) bool { return v.event.Source != "" },
			func(v *view) (any, error) { return v.event.Source, nil }), true
	case "metadata":
		return fieldOf(types.NewMapType(types.StringType, types.StringType), func(v *view) bool { return len(v.event.Metadata) > 0 },
			func(v *view) (any, error) { return v.event.Metadata, nil }), true
	}
	return nil, false
}

var errNotEvent = errors.New("not an event")

func fieldOf(t *types.Type, isSet func(*view) bool, get func(*view) (any, error)) *types.FieldType {
	return &types.FieldType{
		Type: t,
		IsSet: func(target any) bool {
			v, ok := target.(*view)
			return ok && isSet(v)
		},
		GetFrom: func(target any) (any, error) {
			v, ok := target.(*view)
			if !ok {
				return nil, errNotEvent
			}
			return get(v)
		},
	}
}
