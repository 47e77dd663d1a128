package transform

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

var errPattern = errors.New("uses a regular expression that is too long")

// pure refuses constructs that the compiler puts into the code without a call: the environment,
// modules, and patterns with alternatives, each of which doubles the code that follows.
func pure(q *gojq.Query) error {
	if q.Meta != nil || len(q.Imports) > 0 {
		return errors.New("modules are not available here")
	}
	return visit(reflect.ValueOf(q), impure)
}

func impure(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if f, is := v.Interface().(*gojq.Func); is && f != nil && (f.Name == "env" || f.Name == "$ENV") {
			return fmt.Errorf("%s is not available here", f.Name)
		}
	case reflect.Struct:
		if p := v.FieldByName("Patterns"); p.IsValid() && p.Len() > 1 {
			return errors.New("?// is not available here")
		}
	}
	return nil
}

// formats are the strings that gojq knows behind an @. It looks one up when it runs.
var formats = []string{"@text", "@json", "@html", "@uri", "@urid", "@csv", "@tsv", "@sh", "@base64", "@base64d"}

func unknownFormat(v reflect.Value) error {
	if t, is := v.Interface().(gojq.Term); is && t.Format != "" && !slices.Contains(formats, t.Format) {
		return fmt.Errorf("%s is no format; use one of %s", t.Format, strings.Join(formats, ", "))
	}
	return nil
}

// visit returns the first fault that it finds in a part of a query.
func visit(v reflect.Value, fault func(reflect.Value) error) error {
	if err := fault(v); err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return visit(v.Elem(), fault)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := visit(v.Index(i), fault); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := visit(v.Field(i), fault); err != nil {
				return err
			}
		}
	}
	return nil
}
