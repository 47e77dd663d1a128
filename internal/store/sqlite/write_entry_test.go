package sqlite

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// leftOut are fields for which something else stands in an entry, or that have no meaning there.
var leftOut = map[string]bool{"Change.Attempt": true, "Change.Operational": true, "Change.Epoch": true, "Change.Lone": true, "Change.Answer": true,
	"Once.Answer":       true,
	"Standing.Standing": true, "Answer.Fingerprint": true, "AuditEntry.Seq": true,
	"Event.Data": true, "Event.Metadata": true, "Event.Intake": true, "Event.Seq": true, "Event.Damaged": true, "Event.ErasedAt": true,
	"Event.Erased": true, "Change.Tenant": true,
	"appending.done": true, "recording.done": true, "claiming.done": true, "extending.done": true,
	"makingDue.done": true, "documenting.done": true}

// TestEntriesAreComplete flushes every field that an entry has with values, writes the entry and
// reads it back.
func TestEntriesAreComplete(t *testing.T) {
	for kind := 1; anew(kind) != nil; kind++ {
		r := rand.New(rand.NewPCG(uint64(kind), 2))
		for range 50 {
			e := anew(kind)
			fillIn(r, reflect.ValueOf(e).Elem(), leftOut)
			f := codec.Into(nil)
			if !writeEntry(f, e) {
				t.Fatal("it is no entry")
			}
			from := codec.From(f.Bytes())
			var got int
			codec.Number(from, &got)
			back := anew(got)
			back.flow(from)
			if err := from.End(); err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprintf("%T", e), reflect.ValueOf(e).Elem(), reflect.ValueOf(back).Elem(), leftOut)
		}
	}
}

// open is a field as one that can be set, also one that is not exported.
func open(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
}

// fillIn gives every field a value that is not its zero.
func fillIn(r *rand.Rand, v reflect.Value, left map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<40)-1<<39, r.Int64N(1e9)).UTC()))
			return
		}
		for i := range v.NumField() {
			if !left[v.Type().Name()+"."+v.Type().Field(i).Name] {
				fillIn(r, open(v.Field(i)), left)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(r, v.Elem(), left)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fillIn(r, v.Index(i), left)
		}
	case reflect.Array:
		for i := range v.Len() {
			fillIn(r, v.Index(i), left)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("text ", r.Uint64()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64() - r.Int64())
	case reflect.Uint8:
		v.SetUint(1 + uint64(r.IntN(255)))
	default:
		panic("a field of kind " + v.Kind().String())
	}
}

// same compares a written entry with the one that was read, field by field.
func same(t *testing.T, at string, want, got reflect.Value, left map[string]bool) {
	t.Helper()
	switch want.Kind() {
	case reflect.Struct:
		if want.Type() == reflect.TypeFor[time.Time]() {
			if !want.Interface().(time.Time).Equal(got.Interface().(time.Time)) {
				t.Errorf("%s is %v, want %v", at, got, want)
			}
			return
		}
		for i := range want.NumField() {
			if f := want.Type().Field(i); !left[want.Type().Name()+"."+f.Name] {
				same(t, at+"."+f.Name, open(want.Field(i)), open(got.Field(i)), left)
			}
		}
	case reflect.Pointer:
		if got.IsNil() {
			t.Errorf("%s is missing", at)
			return
		}
		same(t, at, want.Elem(), got.Elem(), left)
	case reflect.Slice:
		if want.Len() != got.Len() {
			t.Errorf("%s has %d values, want %d", at, got.Len(), want.Len())
			return
		}
		for i := range want.Len() {
			same(t, fmt.Sprint(at, "[", i, "]"), want.Index(i), got.Index(i), left)
		}
	default:
		if !reflect.DeepEqual(want.Interface(), got.Interface()) {
			t.Errorf("%s is %v, want %v", at, got, want)
		}
	}
}
