// Package bounds gives every size and time limit inside the program a name, a default and a tiny
// form.
//
// A package declares its bounds as one struct, Bounds, in its Options: one int, int64 or
// time.Duration field per bound, with the default in a tag.
//
//	type Bounds struct {
//		Page   int           `bound:"512"`              // changes in one commit
//		Names  int           `bound:"65536" least:"2"`  // names in memory
//		Cache  int64         `bound:"32MiB" tiny:"4KiB"`
//		Pause  time.Duration `bound:"10s" tiny:"50ms"`
//	}
//
// A constant of 65,536 hides every fault beyond it, because no test is that large. A bound in a
// struct can be made tiny, and then each short test crosses it many times. Fill puts defaults where
// a field is zero; Tiny gives each count a size from its least (1 unless the tag says more) to 8,
// and each other field the value of its tag "tiny", if it has one.
package bounds

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// most is the largest count that Tiny gives.
const most = 8

// Fill returns the bounds with the default in each field that is zero, in structs inside it too.
func Fill[B any](b B) B {
	each(reflect.ValueOf(&b).Elem(), "", func(f field) {
		if f.value.IsZero() {
			f.set(f.tag("bound"))
		}
	})
	return b
}

// Tiny returns bounds as small as they may be, or a little more; the seed says by how much.
func Tiny[B any](seed uint64) B {
	var b B
	tiny(reflect.ValueOf(&b).Elem(), seed)
	return b
}

func tiny(b reflect.Value, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a seed has to give the same sizes again
	each(b, "", func(f field) {
		n := rnd.Int64N(most) // drawn for each field, so that a new tag changes no other field
		switch {
		case f.tag("tiny") != "":
			f.set(f.tag("tiny"))
		case f.value.Type() != duration:
			f.value.SetInt(max(f.least(), 1+n%max(most-f.least()+1, 1)+f.least()-1))
		}
	})
}

// Parse sets bounds by their names, in lower case: "postgres.names=8,engine.page=1". The word
// "tiny:7" sets all of them as Tiny does with seed 7; later parts override it.
func Parse[B any](text string, into *B) error {
	if text == "" {
		return nil
	}
	for _, part := range strings.Split(text, ",") {
		if seed, found := strings.CutPrefix(part, "tiny:"); found {
			n, err := strconv.ParseUint(seed, 10, 64)
			if err != nil {
				return fmt.Errorf("%q: tiny: takes a number, the seed", part)
			}
			tiny(reflect.ValueOf(into).Elem(), n)
			continue
		}
		name, value, found := strings.Cut(part, "=")
		if !found {
			return fmt.Errorf("%q: takes NAME=VALUE, or tiny:SEED", part)
		}
		if err := setByName(reflect.ValueOf(into).Elem(), name, value); err != nil {
			return err
		}
	}
	return nil
}

func setByName(b reflect.Value, name, value string) error {
	known, err := false, error(nil)
	each(b, "", func(f field) {
		if f.name != strings.ToLower(name) {
			return
		}
		known = true
		n, bad := parse(value, f.value.Type())
		switch {
		case bad != nil:
			err = fmt.Errorf("%s: %w", name, bad)
		case n < f.least():
			err = fmt.Errorf("%s: %s is below its least, %d", name, value, f.least())
		default:
			f.value.SetInt(n)
		}
	})
	if !known {
		return fmt.Errorf("%s: unknown bound", name)
	}
	return err
}

// List returns the name of every bound with its value, in the order of the fields.
func List[B any](b B) []string {
	var list []string
	each(reflect.ValueOf(&b).Elem(), "", func(f field) {
		list = append(list, fmt.Sprintf("%s=%v", f.name, f.value.Interface()))
	})
	return list
}

var duration = reflect.TypeFor[time.Duration]()

// field is one bound of a struct.
type field struct {
	name  string
	tags  reflect.StructTag
	value reflect.Value
}

func (f field) tag(name string) string { return f.tags.Get(name) }

func (f field) set(text string) {
	n, err := parse(text, f.value.Type())
	if err != nil {
		panic(fmt.Sprintf("bounds: %s: %v", f.name, err)) // a tag of the program's own
	}
	f.value.SetInt(n)
}

func (f field) least() int64 {
	text := f.tag("least")
	if text == "" {
		return 1
	}
	n, err := parse(text, f.value.Type())
	if err != nil {
		panic(fmt.Sprintf("bounds: %s: %v", f.name, err))
	}
	return n
}

// each visits the bounds of a struct, and of structs inside it under their names.
func each(b reflect.Value, under string, visit func(field)) {
	for i := range b.NumField() {
		is := b.Type().Field(i)
		name := under + strings.ToLower(is.Name)
		if is.Type.Kind() == reflect.Struct {
			each(b.Field(i), name+".", visit)
			continue
		}
		visit(field{name, is.Tag, b.Field(i)})
	}
}

var units = []struct {
	name string
	size int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

// parse reads a count, a size such as 32MiB, or a duration.
func parse(text string, kind reflect.Type) (int64, error) {
	if kind == duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration such as 250ms", text)
		}
		return int64(d), nil
	}
	for _, u := range units {
		if digits, found := strings.CutSuffix(text, u.name); found {
			n, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				break
			}
			return n * u.size, nil
		}
	}
	return 0, fmt.Errorf("%q is not a number such as 512 or 32MiB", text)
}
