package memory

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// copyEvent copies explicitly, because the hot path calls it all the time. It leaves out the
// Intake.
func copyEvent(e *grapnel.Event) grapnel.Event {
	c := *e
	c.Data = slices.Clone(e.Data)
	c.Metadata = maps.Clone(e.Metadata)
	c.OccurredAt, c.AcceptedAt = micro(e.OccurredAt), micro(e.AcceptedAt)
	c.Intake = nil
	return c
}

func copyAttempt(a grapnel.Attempt) grapnel.Attempt {
	a.ScheduledFor, a.StartedAt, a.NextAttemptAt = micro(a.ScheduledFor), micro(a.StartedAt), micro(a.NextAttemptAt)
	a.RequestHeaders = slices.Clone(a.RequestHeaders)
	a.ResponseHeaders = maps.Clone(a.ResponseHeaders)
	a.ResponseBody = slices.Clone(a.ResponseBody)
	return a
}

// deepCopy copies everything else: it follows exported fields and cuts every time to microseconds.
// Unexported fields are shared.
func deepCopy[T any](v T) T {
	c := reflect.New(reflect.TypeFor[T]()).Elem()
	copyInto(c, reflect.ValueOf(v))
	return c.Interface().(T)
}

func copyInto(to, from reflect.Value) {
	if at, ok := from.Interface().(time.Time); ok {
		to.Set(reflect.ValueOf(micro(at)))
		return
	}
	to.Set(from)
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			if from.Type().Field(i).IsExported() {
				copyInto(to.Field(i), from.Field(i))
			}
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyInto(to.Elem(), from.Elem())
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			if reflect.Copy(to, from); from.Type().Elem().Kind() == reflect.Uint8 {
				return // a body
			}
			for i := range from.Len() {
				copyInto(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for key, value := range from.Seq2() {
				c := reflect.New(value.Type()).Elem()
				copyInto(c, value)
				to.SetMapIndex(key, c)
			}
		}
	}
}
