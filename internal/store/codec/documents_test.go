package codec

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// fill sets every exported field that v reaches to a value that is not zero, so that a field which
// is added elsewhere and not stored fails the test. Policies come from their own package, because
// not every value is valid.
func fill(t *testing.T, v any) {
	t.Helper()
	n := int64(0)
	fillValue(t, reflect.ValueOf(v).Elem(), &n)
}

func fillValue(t *testing.T, v reflect.Value, n *int64) {
	t.Helper()
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(Moment(1_700_000_000_000_000 + *n)))
		return
	case policy.Policy:
		p, known := policy.Preset("parseo")
		if !known {
			t.Fatal("there is no preset parseo")
		}
		v.Set(reflect.ValueOf(p))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillValue(t, v.Field(i), n)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillValue(t, v.Index(0), n)
		fillValue(t, v.Index(1), n)
	case reflect.Array:
		for i := range v.Len() {
			fillValue(t, v.Index(i), n)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillValue(t, key, n)
		fillValue(t, value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("text" + strings.Repeat("'", int(*n%3)))
	case reflect.Int, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint8:
		v.SetUint(uint64(*n % 251))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 8)
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("cannot fill a %s", v.Type())
	}
}

func TestEveryFieldOfDocumentsIsKept(t *testing.T) {
	roundTrip(t, EncodeEndpoint, DecodeEndpoint, func(ep *grapnel.Endpoint) int64 { return ep.Revision })
	roundTrip(t, EncodeSource, DecodeSource, func(src *grapnel.Source) int64 { return src.Revision })
	roundTrip(t, EncodePolicy, DecodePolicy, func(p *grapnel.NamedPolicy) int64 { return p.Revision })
	roundTrip(t, EncodeEventType, DecodeEventType, func(e *grapnel.EventType) int64 { return e.Revision })
	roundTrip(t, EncodeKey, DecodeKey, func(*grapnel.Key) int64 { return 0 })
	roundTrip(t, EncodeAccess, DecodeAccess, func(*grapnel.AccessRecord) int64 { return 0 })
	roundTrip(t, EncodeStanding, DecodeStanding, func(*policy.Standing) int64 { return 0 })
}

// TestEndingsAreStoredExactly: an ending cut to microseconds would spare the session that began
// within its microsecond.
func TestEndingsAreStoredExactly(t *testing.T) {
	went := grapnel.EndedRecord("acme", "person/jane", grapnel.EndedSessions{Before: time.Unix(1_700_000_000, 123_456_789).UTC()})
	body, err := EncodeAccess(went)
	if err != nil {
		t.Fatal(err)
	}
	came, err := DecodeAccess(0, body)
	if diff := cmp.Diff(went, came); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// A replay's counts are stored separately from its document.
func TestEveryFieldOfAReplayButItsCountsIsKept(t *testing.T) {
	var went grapnel.Replay
	fill(t, &went)
	body, err := EncodeReplay(went)
	if err != nil {
		t.Fatal(err)
	}
	came, err := DecodeReplay(went.Revision, body)
	if err != nil {
		t.Fatal(err)
	}
	went.UpTo, went.Cursor, went.Started, went.Done, went.Delivered, went.Failed, went.Row = 0, 0, 0, 0, 0, 0, 0
	if diff := cmp.Diff(went, came); diff != "" {
		t.Errorf("(-went +came):\n%s", diff)
	}
}

func TestTimesOfStandingsAreCut(t *testing.T) {
	var given policy.Standing
	fill(t, &given)
	want, v := given, reflect.ValueOf(&given).Elem()
	times := 0
	for i := range v.NumField() {
		if at, is := v.Field(i).Interface().(time.Time); is {
			v.Field(i).Set(reflect.ValueOf(at.Add(999).In(time.FixedZone("elsewhere", -3600))))
			times++
		}
	}
	body, err := EncodeStanding(given)
	if err != nil {
		t.Fatal(err)
	}
	came, err := DecodeStanding(0, body)
	if err != nil {
		t.Fatal(err)
	}
	if came != want || times < 4 {
		t.Errorf("of %d times, came %+v\nwant %+v", times, came, want)
	}
}

func roundTrip[T any](t *testing.T, encode func(T) ([]byte, error), decode func(int64, []byte) (T, error), revision func(*T) int64) {
	t.Helper()
	var went, empty T
	fill(t, &went)
	body, err := encode(went)
	if err != nil {
		t.Fatal(err)
	}
	came, err := decode(revision(&went), body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(went, came); diff != "" {
		t.Errorf("%T (-went +came):\n%s", went, diff)
	}
	if cmp.Equal(went, empty) {
		t.Errorf("%T: nothing was filled", went)
	}
}
