package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// These tests read the tags of settings, as the server does, and try every limit that they find.
// A field that is added to wire.NewEndpoint or wire.NewQueue is tested here without a line of its
// own, unless no value can be made up for it.

// settable is a kind of object, and a value for each setting whose form the tests do not know.
type settable struct {
	path   string
	of     reflect.Type
	least  map[string]any // what a request needs
	values map[string]any
	shown  map[string]any // a value as answers show it, if they hide a part of it
	either []string       // settings of which an object has exactly one
}

func settables() []settable {
	return []settable{
		{"/v1/endpoints", reflect.TypeFor[wire.NewEndpoint](), map[string]any{"url": "https://a.example"}, map[string]any{
			"url": "https://b.example", "event_types": []any{"a.*"}, "filter": `event.key == "k"`, "source": "", "policy": "paylera",
			"rate_limit": map[string]any{"per_second": 2.0, "burst": 5.0}, "headers": map[string]any{"X-A": "1"}, "transform": ".data",
			"oauth2": client("s3cret"), "tls": map[string]any{"ca": authority}, "proxy": "http://me:s3cret@proxy.example:3128",
			"target": targetOf("s3cret"),
		}, map[string]any{"oauth2": client("[redacted]"), "proxy": "http://me:[redacted]@proxy.example:3128", "target": targetOf("[redacted]")},
			[]string{"url", "target"}},
		{"/v1/queues", reflect.TypeFor[wire.NewQueue](), map[string]any{"name": "orders"}, map[string]any{
			"name": "other", "event_types": []any{"a.*"}, "filter": `event.key == "k"`, "source": "", "policy": "paylera", "lease": "5s",
		}, nil, nil},
	}
}

// client is one of a token server.
func client(secret string) map[string]any {
	return map[string]any{"token_url": "https://t.example/token", "client_id": "me", "client_secret": secret}
}

// targetOf is a broker.
func targetOf(password string) map[string]any {
	return map[string]any{"kind": "rabbitmq", "address": "amqps://b.example:5671/shop", "name": "events", "username": "me", "password": password,
		"options": map[string]any{"routing_key": "{event.type}"}}
}

// others are the settings that an object lacks if it has this one.
func (s *settable) others(name string) map[string]any {
	without := map[string]any{}
	for _, one := range s.either {
		if one != name && slices.Contains(s.either, name) {
			without[one] = nil
		}
	}
	return without
}

// good is a value of a setting that is not its default.
func (s *settable) good(t *testing.T, f strict.Field) any {
	t.Helper()
	if v, known := s.values[f.Name]; known {
		return v
	}
	if enum := strings.Split(f.Tag.Get("enum"), ","); len(enum) > 1 {
		return enum[1]
	}
	if f.Tag.Get("form") == "" {
		switch f.Type.Kind() {
		case reflect.String:
			return "x"
		case reflect.Bool:
			return true
		case reflect.Int:
			return limitOf(f, "minimum", 1)
		case reflect.Map:
			return map[string]any{"x": "y"}
		case reflect.Slice:
			return []any{"x"}
		}
	}
	t.Fatalf("%s: no value can be made up for %s: add one to settables", s.path, f.Name)
	return nil
}

func limitOf(f strict.Field, tag string, otherwise float64) float64 {
	if n, err := strconv.ParseFloat(f.Tag.Get(tag), 64); err == nil {
		return n
	}
	return otherwise
}

func body(t *testing.T, fields ...map[string]any) string {
	t.Helper()
	all := map[string]any{}
	for _, some := range fields {
		for name, v := range some {
			all[name] = v
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestEverySettingIsSetShownAndReset: a setting is given at once or by a patch, every later answer
// has it, and null puts it back to the default, which is also what a request without it gets.
func TestEverySettingIsSetShownAndReset(t *testing.T) {
	w := newWorld(t)
	w.queues()
	source := w.must(201, "POST", "/v1/sources", `{"name":"s","verify":{"scheme":"none"}}`)["id"]
	for _, s := range settables() {
		s.values["source"] = source
		plain := w.must(201, "POST", s.path, body(t, s.least))
		at := s.path + "/" + plain["id"].(string)
		for i, f := range strict.Fields(s.of) {
			if f.Fixed {
				w.must(422, "PATCH", at, body(t, map[string]any{f.Name: "x"}))
				continue
			}
			value := s.good(t, f)
			set := map[string]any{f.Name: value}
			if cmp.Equal(value, plain[f.Name]) {
				t.Errorf("%s: %v is the default of %s: the test needs another value", s.path, value, f.Name)
			}
			other := map[string]any{}
			if _, named := s.least["name"]; named {
				other["name"] = fmt.Sprint("other", i)
			}
			made := w.must(201, "POST", s.path, body(t, s.least, s.others(f.Name), other, set))
			w.must(204, "DELETE", s.path+"/"+made["id"].(string), "") // its name is needed again
			patched := w.must(200, "PATCH", at, body(t, set))
			got := w.must(200, "GET", at, "")
			if is, hidden := s.shown[f.Name]; hidden {
				value = is
			}
			for verb, answer := range map[string]map[string]any{"POST": made, "PATCH": patched, "GET": got} {
				if d := cmp.Diff(value, answer[f.Name]); d != "" {
					t.Errorf("%s %s shows another %s: %s", verb, s.path, f.Name, d)
				}
			}
			null := body(t, map[string]any{f.Name: nil})
			if either := slices.Contains(s.either, f.Name); f.Required || either {
				w.must(422, "PATCH", at, null)
				null = body(t, s.least, map[string]any{f.Name: nil})
			}
			if _, needed := s.least[f.Name]; needed {
				continue
			}
			if d := cmp.Diff(plain[f.Name], w.must(200, "PATCH", at, null)[f.Name]); d != "" {
				t.Errorf("%s: null leaves another %s than the default: %s", s.path, f.Name, d)
			}
		}
	}
}

// TestEveryLimitOfASettingIsHeld: a value just beyond a limit, or of another type, is refused with
// the field's name.
func TestEveryLimitOfASettingIsHeld(t *testing.T) {
	w := newWorld(t)
	w.queues()
	for _, s := range settables() {
		before, tried := w.dump(), 0
		for _, f := range strict.Fields(s.of) {
			for _, value := range beyond(f) {
				tried++
				r := w.ask(admin, "POST", s.path, body(t, s.least, map[string]any{f.Name: value}))
				if r.StatusCode != 422 || !strings.Contains(string(r.body), `"pointer":"/`+f.Name) {
					t.Errorf("%s: %s %.60q: answered %d %s", s.path, f.Name, fmt.Sprint(value), r.StatusCode, r.body)
				}
			}
		}
		if d := cmp.Diff(before, w.dump()); d != "" {
			t.Errorf("%s: something has changed: %s", s.path, d)
		}
		if tried < 40 {
			t.Errorf("%s: only %d values were tried", s.path, tried)
		}
	}
}

// beyond are values that a setting must not have.
func beyond(f strict.Field) (values []any) {
	texts := strings.Repeat("x", int(limitOf(f, "maxLength", strict.LongestString))+1)
	switch f.Type.Kind() {
	case reflect.String:
		values = append(values, 1, true, []any{}, map[string]any{}, "\x00")
		if f.Tag.Get("enum") == "" {
			values = append(values, texts)
		} else {
			values = append(values, "nosuch", "")
		}
	case reflect.Bool:
		values = append(values, 1, "true")
	case reflect.Int:
		values = append(values, "1", 1.5)
		if f.Tag.Get("minimum") != "" {
			values = append(values, limitOf(f, "minimum", 0)-1)
		}
		if f.Tag.Get("maximum") != "" {
			values = append(values, limitOf(f, "maximum", 0)+1)
		}
	case reflect.Slice:
		many := make([]any, int(limitOf(f, "maxItems", strict.MostMembers))+1)
		for i := range many {
			many[i] = fmt.Sprint("x", i)
		}
		values = append(values, "x", map[string]any{}, []any{1}, []any{texts}, many)
	case reflect.Map:
		many := map[string]any{}
		for i := range int(limitOf(f, "maxProperties", strict.MostMembers)) + 1 {
			many[fmt.Sprint("x", i)] = "y"
		}
		values = append(values, "x", []any{}, map[string]any{"x": 1}, map[string]any{"x": texts}, map[string]any{"": "y"},
			map[string]any{"x\n": "y"}, many)
	case reflect.Pointer, reflect.Interface:
		values = append(values, 1, []any{}, map[string]any{"nosuch": 1})
	}
	if f.Type.Kind() == reflect.Int64 { // a duration
		values = append(values, 1, "x", "-1s", "1000000h")
	}
	return values
}

// TestDefaultsInTagsAreTheConstants: tags cannot name constants.
func TestDefaultsInTagsAreTheConstants(t *testing.T) {
	var ep wire.NewEndpoint
	var q wire.NewQueue
	strict.Defaults(&ep)
	strict.Defaults(&q)
	if ep.MaxConcurrency != grapnel.DefaultMaxConcurrency || time.Duration(q.Lease) != grapnel.DefaultLease ||
		q.MaxLeased != grapnel.DefaultMaxLeased {
		t.Errorf("the defaults are %+v and %+v", ep, q)
	}
	for _, f := range strict.Fields(reflect.TypeFor[wire.NewEndpoint]()) {
		if f.Name == "max_concurrency" && limitOf(f, "maximum", 0) != grapnel.MaxEndpointConcurrency {
			t.Errorf("the limit of %s is %s", f.Name, f.Tag.Get("maximum"))
		}
		if r := reflect.TypeFor[grapnel.RateLimit](); f.Type.Kind() == reflect.Pointer &&
			r.Field(0).Tag.Get("minimum") != fmt.Sprint(grapnel.MinPerSecond) {
			t.Errorf("the least rate is %s", r.Field(0).Tag.Get("minimum"))
		}
	}
}

// TestAPairKnowsEveryField: a field that is in one type only, has another type, or is named in
// vain, is found when the program starts.
func TestAPairKnowsEveryField(t *testing.T) {
	type domain struct {
		Name string
		At   time.Time
		Wait time.Duration
		Size int
	}
	panics := func(do func()) (text string) {
		defer func() { text = fmt.Sprint(recover()) }()
		do()
		return ""
	}
	type other struct {
		Name string `json:"name"`
		More string `json:"more"`
	}
	type typed struct {
		Size string `json:"size"`
	}
	for want, do := range map[string]func(){
		"other.More is not in": func() { pairOf[domain, other]() },
		"typed.Size is not in": func() { pairOf[domain, typed]() },
		"has no field Nme":     func() { pairOf[domain, other]("More", "Nme") },
	} {
		if got := panics(do); !strings.Contains(got, want) {
			t.Errorf("it panicked with %q, want %q", got, want)
		}
	}
	type same struct {
		Name string          `json:"name"`
		At   *time.Time      `json:"at"`
		Wait policy.Duration `json:"wait"`
	}
	p := pairOf[domain, same]()
	d, w := domain{Name: "a", Wait: time.Second, Size: 3}, same{}
	p.show(&d, &w)
	if want := (same{Name: "a", Wait: policy.Duration(time.Second)}); w != want {
		t.Errorf("shown as %+v", w)
	}
	d.At = time.Unix(1, 0)
	if p.show(&d, &w); w.At == nil || !w.At.Equal(d.At) {
		t.Errorf("shown as %+v", w)
	}
	back := domain{Size: 4}
	if p.set(&w, &back); back != (domain{Name: "a", At: d.At, Wait: time.Second, Size: 4}) {
		t.Errorf("set as %+v", back)
	}
	if p.set(&same{}, &back); back != (domain{Size: 4}) {
		t.Errorf("set to nothing as %+v", back)
	}
}
