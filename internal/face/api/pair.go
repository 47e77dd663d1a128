package api

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/internal/face/api/strict"
)

// pair copies the fields that a type of package grapnel, D, and a type of package wire, W, have
// under the same name. So a plain field that both have needs no code here.
type pair[D, W any] struct{ twins []twin }

// twin is one such field.
type twin struct {
	domain, wire []int
	pointed      bool // a time in D, and a pointer to it in W, which is nil for the zero time
}

// pairOf finds the fields. It panics, when the program starts, unless every field of W is in D with
// a type that can be copied, or is named in own: those the caller copies itself.
func pairOf[D, W any](own ...string) (p pair[D, W]) {
	domain, wire := reflect.TypeFor[D](), reflect.TypeFor[W]()
	for _, w := range strict.Fields(wire) {
		if slices.Contains(own, w.StructField.Name) {
			continue
		}
		d, there := domain.FieldByName(w.StructField.Name)
		same := there && d.Type.Kind() == w.Type.Kind() && d.Type.ConvertibleTo(w.Type)
		pointed := there && d.Type == reflect.TypeFor[time.Time]() && w.Type == reflect.TypeFor[*time.Time]()
		if !same && !pointed {
			panic(fmt.Sprintf("api: %s.%s is not in %s, or has another type: copy it by hand and name it here", wire, w.StructField.Name, domain))
		}
		p.twins = append(p.twins, twin{d.Index, w.Index, pointed})
	}
	for _, name := range own {
		if _, there := wire.FieldByName(name); !there {
			panic(fmt.Sprintf("api: %s has no field %s", wire, name))
		}
	}
	return p
}

// show copies from the domain to the wire.
func (p pair[D, W]) show(d *D, w *W) {
	from, to := reflect.ValueOf(d).Elem(), reflect.ValueOf(w).Elem()
	for _, t := range p.twins {
		value, into := from.FieldByIndex(t.domain), to.FieldByIndex(t.wire)
		if t.pointed {
			value = reflect.ValueOf(timeOf(*value.Addr().Interface().(*time.Time)))
		}
		move(value, into)
	}
}

// set copies from the wire to the domain. Fields that a request leaves out are set to zero.
func (p pair[D, W]) set(w *W, d *D) {
	from, to := reflect.ValueOf(w).Elem(), reflect.ValueOf(d).Elem()
	for _, t := range p.twins {
		value, into := from.FieldByIndex(t.wire), to.FieldByIndex(t.domain)
		switch {
		case !t.pointed:
			move(value, into)
		case value.IsNil():
			into.SetZero()
		default:
			into.Set(value.Elem())
		}
	}
}

func move(value, into reflect.Value) {
	if value.Type() != into.Type() {
		value = value.Convert(into.Type())
	}
	into.Set(value)
}
