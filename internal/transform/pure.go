package transform

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/itchyny/gojq"
)

var errPattern = errors.New("uses a regular expression that is too long")

// pure refuses constructs that the compiler puts into the code without a call: the environment,
// modules, and patterns with alternatives, each of which doubles the code that follows.
func pure(q *gojq.Query) error {
	if q.Meta != nil || len(q.Imports) > 0 {
		return errors.New("modules are not available here")
	}
	return impure(reflect.ValueOf(q))
}

func impure(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if f, is := v.Interface().(*gojq.Func); is && f != nil && (f.Name == "env" || f.Name == "$ENV") {
			return fmt.Errorf("%s is not available here", f.Name)
		}
		if !v.IsNil() {
			return impure(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := impure(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "Patterns" && v.Field(i).Len() > 1 {
				return errors.New("?// is not available here")
			}
			if err := impure(v.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
