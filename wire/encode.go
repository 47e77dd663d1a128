package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// TimeLayout is how times are written: RFC 3339 in UTC with microseconds.
const TimeLayout = "2006-01-02T15:04:05.000000Z"

// Encode writes a struct of this package as an answer of the API: every member, in the order of the
// fields, those of embedded structs at the place of the embedded struct.
func Encode(v any) ([]byte, error) { return encode(v, false) }

// Request writes a struct of this package as the body of a request: members that are zero are left
// out unless they are required. So the server chooses the values of those that were not set.
func Request(v any) ([]byte, error) { return encode(v, true) }

func encode(v any, request bool) ([]byte, error) {
	of := reflect.ValueOf(v)
	if of.Kind() != reflect.Pointer {
		// A value that has an address gives its parts without copies of them.
		of = reflect.New(of.Type())
		of.Elem().Set(reflect.ValueOf(v))
	}
	buffer := buffers.Get().(*[]byte)
	e := encoder{request: request, out: (*buffer)[:0]}
	err := e.value(of.Elem(), shapeOf(of.Type().Elem()))
	out := slices.Clone(e.out)
	if cap(e.out) <= largestBuffer {
		*buffer = e.out
		buffers.Put(buffer)
	}
	return out, err
}

// buffers are used again, so that a long list does not grow one from nothing each time.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const largestBuffer = 256 << 10

// encoder writes one value.
type encoder struct {
	out     []byte
	request bool
}

func (e *encoder) value(v reflect.Value, s *shape) error {
	if s.pointer {
		if v.IsNil() {
			e.out = append(e.out, "null"...)
			return nil
		}
		v = v.Elem()
	}
	switch s.way {
	case asTime:
		if e.request {
			return e.foreign(v) // a time keeps its digits
		}
		at := v.Addr().Interface().(*time.Time)
		e.out = at.UTC().AppendFormat(append(e.out, '"'), TimeLayout+`"`)
	case asDuration:
		e.out = append(append(append(e.out, '"'), time.Duration(v.Int()).String()...), '"')
	case asRaw:
		return e.raw(v.Bytes())
	case asText:
		return e.text(v)
	case asNumber:
		e.out = strconv.AppendInt(e.out, v.Int(), 10)
	case asList:
		return e.list(v, s.of)
	case asMap:
		if v.Len() > 0 {
			return e.foreign(v)
		}
		e.out = append(e.out, "{}"...)
	case asObject:
		return e.object(v, s.members)
	default:
		return e.foreign(v)
	}
	return nil
}

// text writes a string. Most are plain, and take nothing but quotes.
func (e *encoder) text(v reflect.Value) error {
	s := v.String()
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return e.foreign(v)
		}
	}
	e.out = append(append(append(e.out, '"'), s...), '"')
	return nil
}

// foreign leaves a value to encoding/json.
func (e *encoder) foreign(v reflect.Value) error {
	var b bytes.Buffer
	texts := json.NewEncoder(&b)
	texts.SetEscapeHTML(false)
	if err := texts.Encode(v.Interface()); err != nil {
		return err
	}
	e.out = append(e.out, b.Bytes()[:b.Len()-1]...) // the encoder ends with a line break
	return nil
}

// raw writes JSON without spaces. In a request it stays as it is: receivers verify an event's
// bytes.
func (e *encoder) raw(text []byte) error {
	switch {
	case len(text) == 0:
		e.out = append(e.out, "null"...)
	case e.request:
		e.out = append(e.out, text...)
	default:
		var b bytes.Buffer
		if err := json.Compact(&b, text); err != nil {
			return err
		}
		e.out = append(e.out, b.Bytes()...)
	}
	return nil
}

func (e *encoder) list(v reflect.Value, of *shape) error {
	e.out = append(e.out, '[')
	for i := range v.Len() {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.value(v.Index(i), of); err != nil {
			return err
		}
	}
	e.out = append(e.out, ']')
	return nil
}

func (e *encoder) object(v reflect.Value, members []member) error {
	e.out = append(e.out, '{')
	first := true
	for i := range members {
		m := &members[i]
		f, err := v.FieldByIndexErr(m.index)
		if err != nil {
			continue // of an embedded struct that is not there
		}
		zero := (e.request || m.nullable || m.omitzero) && f.IsZero()
		if zero && (m.omitzero || e.request && !m.required) || m.omitempty && isEmpty(f) {
			continue
		}
		if !first {
			e.out = append(e.out, ',')
		}
		first = false
		e.out = append(append(append(e.out, '"'), m.name...), '"', ':')
		if zero && m.nullable && !e.request {
			e.out = append(e.out, "null"...)
		} else if err := e.value(f, m.shape); err != nil {
			return err
		}
	}
	e.out = append(e.out, '}')
	return nil
}

// isEmpty is what encoding/json takes for empty.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// shape is how values of a type are written. It is found once for each type, none of which has a
// part of its own type.
type shape struct {
	way     way
	pointer bool     // to such a value
	of      *shape   // the entries of a list
	members []member // of an object
}

type way int

const (
	asForeign way = iota // by encoding/json: by a method of its own, or numbers with a fraction and the like
	asTime
	asDuration
	asRaw
	asText
	asNumber
	asList
	asMap
	asObject
)

// member is how a field of a struct is written.
type member struct {
	name                                    string
	index                                   []int
	shape                                   *shape
	required, nullable, omitempty, omitzero bool
}

var shapes sync.Map // *shape, by type

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s, of := new(shape), t
	if t.Kind() == reflect.Pointer {
		of, s.pointer = t.Elem(), true
	}
	switch {
	case of == reflect.TypeFor[time.Time]():
		s.way = asTime
	case of == reflect.TypeFor[policy.Duration]():
		s.way = asDuration
	case of == reflect.TypeFor[json.RawMessage]():
		s.way = asRaw
	case of.PkgPath() != reflect.TypeFor[Raw]().PkgPath() && of.Implements(reflect.TypeFor[json.Marshaler]()):
	case of.Kind() == reflect.String:
		s.way = asText
	case of.Kind() == reflect.Int || of.Kind() == reflect.Int64:
		s.way = asNumber
	case of.Kind() == reflect.Slice && of.Elem().Kind() != reflect.Uint8:
		s.way, s.of = asList, shapeOf(of.Elem())
	case of.Kind() == reflect.Map:
		s.way = asMap
	case of.Kind() == reflect.Struct:
		s.way, s.members = asObject, arrange(of)
	}
	shapes.Store(t, s)
	return s
}

// arrange puts a struct's members into the order in which they are written.
func arrange(t reflect.Type) (all []member) {
	var late []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		switch m := memberOf(f); {
		case !f.IsExported() || m.name == "" || m.name == "-": // Raw has no name
		case f.Tag.Get("before") != "":
			late = append(late, f)
		default:
			all = append(all, m)
		}
	}
	for _, f := range late {
		i := slices.IndexFunc(all, func(m member) bool { return m.name == f.Tag.Get("before") })
		if i < 0 {
			panic("wire: " + t.Name() + "." + f.Name + " has no place: there is no member " + f.Tag.Get("before"))
		}
		all = slices.Insert(all, i, memberOf(f))
	}
	return all
}

func memberOf(f reflect.StructField) member {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return member{name: name, index: f.Index, shape: shapeOf(f.Type), required: f.Tag.Get("required") == "true", nullable: f.Tag.Get("nullable") == "true",
		omitempty: options == "omitempty", omitzero: options == "omitzero"}
}
