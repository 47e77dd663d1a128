package api

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// hiddenFields are the fields of a delivery that change nothing in what the API shows of it, each
// with the reason.
var hiddenFields = map[string]string{
	"EventSeq":        "a number of the store; event_id stands for it",
	"ReplayOf":        "the handler reads the delivery, and passes its id",
	"Waiting.Blocked": "its state and reason say it, while it is not final",
	"Waiting.Head":    "its state says it, while it is not final",
	"Waiting.Due":     "next_attempt_at is the same time",
	"Waiting.Anchor":  "plans are computed from it, while it is not final",
	"NextAttemptAt":   "shown while it is not final",
}

// TestEveryFieldOfADeliveryIsShown: with another value in a field of a delivery, of its marks or of
// an attempt the API shows something else.
func TestEveryFieldOfADeliveryIsShown(t *testing.T) {
	ids := grapnel.NewIDs(grapnel.IDKey{1})
	show := func(d *grapnel.Delivery) string {
		s := situation{delivery: d, now: time.Unix(9, 0), ids: ids, payloads: true}
		v := viewDelivery(s, nil)
		v.Marks, v.Attempts = viewMarks(&d.Mark, ids), viewAttempts(d, ids, true)
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	made := func() *grapnel.Delivery {
		d := &grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonRejected, Attempts: []grapnel.Attempt{{}}}
		d.Last.Class, d.Mark.ReplayedAs, d.Attempts[0].Peer.Address = "timeout", 1, "192.0.2.1:1"
		return d
	}
	plain := show(made())
	used := map[string]bool{}
	var walk func(at string, of reflect.Type, reach func(*grapnel.Delivery) reflect.Value)
	walk = func(at string, of reflect.Type, reach func(*grapnel.Delivery) reflect.Value) {
		switch {
		case of.Kind() == reflect.Struct && of != reflect.TypeFor[time.Time]():
			for i := range of.NumField() {
				walk(at+"."+of.Field(i).Name, of.Field(i).Type, func(d *grapnel.Delivery) reflect.Value { return reach(d).Field(i) })
			}
			return
		case of == reflect.TypeFor[[]grapnel.Attempt]():
			walk(at, of.Elem(), func(d *grapnel.Delivery) reflect.Value { return reach(d).Index(0) })
			return
		}
		d, name := made(), at[1:]
		another(t, name, reach(d))
		why := hiddenFields[name]
		if used[name] = true; show(d) == plain && why == "" {
			t.Errorf("the API shows nothing of %s: add it to package wire, or to hiddenFields with the reason", name)
		} else if show(d) != plain && why != "" {
			t.Errorf("the API shows %s: take it out of hiddenFields", name)
		}
	}
	walk("", reflect.TypeFor[grapnel.Delivery](), func(d *grapnel.Delivery) reflect.Value { return reflect.ValueOf(d).Elem() })
	for name := range hiddenFields {
		if !used[name] {
			t.Errorf("hiddenFields names %s, which a delivery does not have", name)
		}
	}
}

// another sets v to a value that it does not have.
func another(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = time.Unix(7, 0)
		return
	case *[]grapnel.Header:
		*at = []grapnel.Header{{Name: "X-A", Value: "1"}}
		return
	case *map[string]string:
		*at = map[string]string{"a": "b"}
		return
	case *[]byte:
		*at = []byte("x")
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 7e6)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	default:
		t.Fatalf("no other value is known for %s of type %s", name, v.Type())
	}
}
