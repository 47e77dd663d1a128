// Package wire has the JSON of the API as Go types: what the server writes is what clients read.
//
// The server (internal/api) fills these types, and its OpenAPI document is made from their tags: doc
// and enum describe a field, nullable:"true" says that the zero value is null. Package client has
// the same types under its own names. So a field that is added here is in answers, in the document
// and in the client at once.
//
// What holds here: a value that was written by Encode and read by encoding/json is the same value,
// with times in UTC and cut to microseconds. A list is never null.
//
// What it does not promise: that all types of the API are here. Those that are not are held together
// by a test of package client.
package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// Raw keeps the server's own JSON of an object, so that a program can show all of it: fields that
// its version does not know, and numbers with the digits they came with.
type Raw struct{ text json.RawMessage }

// JSON is the object as the server sent it; nil for one that did not come from a server.
func (r Raw) JSON() json.RawMessage { return r.text }

// Keep keeps the object's JSON.
func (r *Raw) Keep(text []byte) { r.text = text }

// TimeLayout is how times are written: RFC 3339 in UTC with microseconds.
const TimeLayout = "2006-01-02T15:04:05.000000Z"

// Encode writes a struct of this package as the API does.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := write(&b, reflect.ValueOf(v))
	return b.Bytes(), err
}

func write(b *bytes.Buffer, v reflect.Value) error {
	switch at, isTime := v.Interface().(time.Time); {
	case isTime:
		b.WriteString(`"` + at.UTC().Format(TimeLayout) + `"`)
		return nil
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		return json.Compact(b, v.Bytes())
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return write(b, v.Elem())
	case v.Kind() == reflect.Struct:
		return writeObject(b, v)
	case v.Kind() == reflect.Slice:
		return writeList(b, v)
	}
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v.Interface()); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the encoder ends with a line break
	return nil
}

func writeList(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := write(b, v.Index(i)); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func writeObject(b *bytes.Buffer, v reflect.Value) error {
	comma := "{"
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || options == "omitempty" && v.Field(i).IsZero() {
			continue // Raw has no name
		}
		b.WriteString(comma + `"` + name + `":`)
		comma = ","
		if f.Tag.Get("nullable") == "true" && v.Field(i).IsZero() {
			b.WriteString("null")
			continue
		}
		if err := write(b, v.Field(i)); err != nil {
			return err
		}
	}
	if comma == "{" {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return nil
}
