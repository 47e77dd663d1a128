package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// fill gives every field of a value something that is not zero.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 1, 31, 12, 0, 0, 123456000, time.UTC)))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(`{"a":"1"}`)))
		return
	case Raw:
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("a <b> & \"é\"")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(90 * time.Second))
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Interface:
		v.Set(reflect.ValueOf("standard"))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("a"), value)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

// TestEveryTypeIsReadAsItWasWritten: with all fields set and with none, a value that was read is
// written as before.
func TestEveryTypeIsReadAsItWasWritten(t *testing.T) {
	for _, of := range []any{
		Audit{}, Cluster{}, Delivery{}, Endpoint{}, Event{}, Intake{}, Item{}, Key{}, Lane{}, Lease{}, Meta{}, PeekedMeta{},
		Plan{}, Policy{}, Published{}, Purge{},
		Queue{}, Replay{}, Source{}, Stats{}, Tenant{}, NewEndpoint{}, NewEvent{}, NewKey{}, NewQueue{}, NewReplay{}, NewSource{},
	} {
		for _, full := range []bool{true, false} {
			in := reflect.New(reflect.TypeOf(of))
			if full {
				fill(in.Elem())
			}
			for _, write := range []func(any) ([]byte, error){Encode, Request, json.Marshal} {
				raw, err := write(in.Interface())
				if err != nil {
					t.Fatalf("%T: %v", of, err)
				}
				out := reflect.New(reflect.TypeOf(of))
				if err := json.Unmarshal(raw, out.Interface()); err != nil {
					t.Fatalf("%T: %v in %s", of, err, raw)
				}
				again, err := write(out.Interface())
				if d := cmp.Diff(string(raw), string(again)); d != "" || err != nil {
					t.Errorf("%T, full %t: %v %s", of, full, err, d)
				}
			}
		}
	}
}

// TestAnswersHaveAFixedOrder: settings stand in answers where they stand in the type, and fields of
// the answer alone where their tags say.
func TestAnswersHaveAFixedOrder(t *testing.T) {
	raw, err := Encode(Endpoint{NewEndpoint: NewEndpoint{Secret: "whsec_x"}, Policy: json.RawMessage(`"standard"`)})
	if err != nil {
		t.Fatal(err)
	}
	at := -1
	for _, name := range []string{"id", "tenant", "url", "policy", "ordering", "transform", "preset_shape", "signature_headers",
		"secret", "secrets", "status",
		"disabled_reason", "health", "revision"} {
		next := strings.Index(string(raw), `"`+name+`":`)
		if next <= at {
			t.Errorf("%s does not stand where it should in %s", name, raw)
		}
		at = next
	}
}

// TestRequestsHaveWhatIsSet: the server chooses everything else. Required members are always
// written, so that the server reports their faults.
func TestRequestsHaveWhatIsSet(t *testing.T) {
	for want, in := range map[string]any{
		`{}`:                                  NewEndpoint{}, // a url or a target is required
		`{"name":""}`:                         NewQueue{},
		`{"target":{"kind":"","name":"a.b"}}`: NewEndpoint{Target: &Target{Name: "a.b"}},
		`{"url":"https://a.example","policy":{"timeout":"3s"},"rate_limit":{"per_second":2.5},"status":"paused"}`: NewEndpoint{URL: "https://a.example",
			Policy: json.RawMessage(`{"timeout":"3s"}`), RateLimit: &grapnel.RateLimit{PerSecond: 2.5}, Status: grapnel.EndpointPaused},
		`{"name":"orders","lease":"1m0s"}`: NewQueue{Name: "orders", Lease: policy.Duration(time.Minute)},
		`{"name":"s","outbox":{},"dedupe":{"by":[]}}`: NewSource{Name: "s", Outbox: &OutboxSettings{},
			Dedupe: &DedupeSettings{By: []grapnel.DedupeBy{}}},
		`{"type":"a","metadata":{"k":"v"},"data":{ "n": 1 }}`: NewEvent{Type: "a", Metadata: map[string]string{"k": "v"},
			Data: json.RawMessage(`{ "n": 1 }`)},
	} {
		if raw, err := Request(in); err != nil || string(raw) != want {
			t.Errorf("Request wrote %s, %v; want %s", raw, err, want)
		}
	}
}
