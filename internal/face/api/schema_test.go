package api

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
)

// schemas is the published document, read back as a program outside would. It checks documents
// against the schemas in it, as far as those use JSON Schema.
type schemas struct{ doc map[string]any }

var published31 = sync.OnceValue(func() schemas {
	var s schemas
	if err := json.Unmarshal(openapi.Encode(openapi.Document(describeAPI(routes(), &ample))), &s.doc); err != nil {
		panic(err)
	}
	return s
})

// at follows a path of names, and references on the way.
func (s schemas) at(from any, names ...string) any {
	for {
		m, ok := from.(map[string]any)
		if !ok {
			return nil
		}
		if ref, ok := m["$ref"].(string); ok {
			from = s.at(s.doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			continue
		}
		if len(names) == 0 {
			return from
		}
		from, names = m[names[0]], names[1:]
		if len(names) == 0 {
			if _, object := from.(map[string]any); !object {
				return from
			}
		}
	}
}

var microseconds = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)

// patterns are the document's, compiled once: every answer in every test is checked against them.
var patterns sync.Map // *regexp.Regexp by its text

func compiled(text string) *regexp.Regexp {
	if p, ok := patterns.Load(text); ok {
		return p.(*regexp.Regexp)
	}
	p, _ := patterns.LoadOrStore(text, regexp.MustCompile(text))
	return p.(*regexp.Regexp)
}

// check returns the faults of v.
func (s schemas) check(schema, v any, where string) (wrong []string) {
	m, ok := s.at(schema).(map[string]any)
	if !ok {
		return []string{where + ": there is no schema"}
	}
	fail := func(format string, args ...any) { wrong = append(wrong, where+": "+fmt.Sprintf(format, args...)) }
	if some, ok := m["anyOf"].([]any); ok {
		if !slices.ContainsFunc(some, func(one any) bool { return len(s.check(one, v, where)) == 0 }) {
			fail("%v is none of the %d that are possible", v, len(some))
		}
	}
	if types := several(m["type"]); len(types) > 0 && !slices.ContainsFunc(types, func(t any) bool { return isType(v, t.(string)) }) {
		fail("%v is not %v", v, types)
		return wrong
	}
	if enum, ok := m["enum"].([]any); ok && !slices.Contains(enum, v) && v != nil {
		fail("%v is not one of %v", v, enum)
	}
	switch v := v.(type) {
	case string:
		if n, ok := m["minLength"].(float64); ok && utf8.RuneCountInString(v) < int(n) {
			fail("%q is too short", v)
		}
		if n, ok := m["maxLength"].(float64); ok && utf8.RuneCountInString(v) > int(n) {
			fail("%q is too long", v)
		}
		if p, ok := m["pattern"].(string); ok && !compiled(p).MatchString(v) {
			fail("%q does not match", v)
		}
		if m["format"] == "date-time" && !microseconds.MatchString(v) {
			fail("%q is not a time with microseconds", v)
		}
	case float64:
		if n, ok := m["minimum"].(float64); ok && v < n {
			fail("%v is too low", v)
		}
		if n, ok := m["maximum"].(float64); ok && v > n {
			fail("%v is too high", v)
		}
	case []any:
		for i, item := range v {
			wrong = append(wrong, s.check(m["items"], item, where+"/"+strconv.Itoa(i))...)
		}
	case map[string]any:
		properties, _ := m["properties"].(map[string]any)
		for _, name := range several(m["required"]) {
			if _, there := v[name.(string)]; !there {
				fail("there is no %s", name)
			}
		}
		for name, member := range v {
			if property, known := properties[name]; known {
				wrong = append(wrong, s.check(property, member, where+"/"+name)...)
			} else if more, given := m["additionalProperties"]; given && more == false {
				fail("%s is not documented", name)
			} else if given && more != true {
				wrong = append(wrong, s.check(more, member, where+"/"+name)...)
			} else if len(properties) > 0 && !given && where != "" {
				fail("%s is not documented", name) // our own answers have nothing that the document does not say
			}
		}
	}
	return wrong
}

func several(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

func isType(v any, name string) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && v == math.Trunc(v)
	case []any:
		return name == "array"
	}
	return name == "object" && reflect.TypeOf(v).Kind() == reflect.Map
}

func TestSchemaCheckFindsWhatIsWrong(t *testing.T) {
	s := published31()
	schema := s.at(s.doc, "components", "schemas", "Published")
	for text, good := range map[string]bool{
		`{"id":"x","accepted_at":"2026-01-02T03:04:05.678901Z","deliveries":1,"duplicate":false}`:            true,
		`{"id":"x","accepted_at":"2026-01-02T03:04:05.678901Z","deliveries":1}`:                              false,
		`{"id":"x","accepted_at":"2026-01-02T03:04:05Z","deliveries":1,"duplicate":false}`:                   false,
		`{"id":1,"accepted_at":"2026-01-02T03:04:05.678901Z","deliveries":1,"duplicate":false}`:              false,
		`{"id":"x","accepted_at":"2026-01-02T03:04:05.678901Z","deliveries":1.5,"duplicate":false}`:          false,
		`{"id":"x","accepted_at":"2026-01-02T03:04:05.678901Z","deliveries":1,"duplicate":null}`:             false,
		`{"id":"x","accepted_at":"2026-01-02T03:04:05.678901Z","deliveries":1,"duplicate":false,"more":"x"}`: false,
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if wrong := s.check(schema, v, "here"); (len(wrong) == 0) != good {
			t.Errorf("%s: %v", text, wrong)
		}
	}
}

// documented are the routes, read once for all answers. Nothing changes them.
var documented = sync.OnceValue(routes)

// checkAnswer holds every answer that a test gets against the document.
func (w *world) checkAnswer(r *http.Request, got reply) {
	w.t.Helper()
	mux := w.handler.(*multiplexer)
	_, pattern := mux.Handler(r)
	all := documented()
	for i := range all {
		for _, path := range all[i].paths() {
			if pattern == all[i].method+" "+path {
				w.checkDocumented(&all[i], got)
				return
			}
		}
	}
	if got.StatusCode != 404 && got.StatusCode != 405 {
		w.t.Errorf("%s %s: answered %d though no route takes it", r.Method, r.URL.Path, got.StatusCode)
	}
}

func (w *world) checkDocumented(rt *route, got reply) {
	w.t.Helper()
	s := published31()
	status := strconv.Itoa(got.StatusCode)
	response := s.at(s.doc, "paths", rt.path, strings.ToLower(rt.method), "responses", status)
	if response == nil {
		w.t.Errorf("%s %s: the status %s is not documented: %s", rt.method, rt.path, status, got.body)
		return
	}
	media, _, _ := strings.Cut(got.Header.Get("Content-Type"), ";")
	if media == "" || rt.path == "/metrics" {
		return
	}
	content := s.at(response, "content", media)
	if content == nil {
		content = s.at(response, "content", "*/*")
	}
	if content == nil {
		w.t.Errorf("%s %s: %s is not documented for %s", rt.method, rt.path, media, status)
		return
	}
	if !strings.HasSuffix(media, "json") || media == openapi.TypeNDJSON {
		return
	}
	var v any
	if err := json.Unmarshal(got.body, &v); err != nil {
		w.t.Errorf("%s %s: %v in %s", rt.method, rt.path, err, got.body)
		return
	}
	for _, wrong := range s.check(s.at(content, "schema"), v, rt.name) {
		w.t.Errorf("%s %s %s: %s", rt.method, rt.path, status, wrong)
	}
}

// The bodies that tests send with success are allowed by the document as well: it does not ask for
// more than the server.
func TestGoodBodiesFollowTheDocument(t *testing.T) {
	s := published31()
	all := routes()
	for i := range all {
		rt := &all[i]
		body := bodies()[rt.name]
		if body == "" || rt.name == "publish-raw" {
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		content := s.at(s.doc, "paths", rt.path, strings.ToLower(rt.method), "requestBody", "content", "application/json")
		for _, wrong := range s.check(s.at(content, "schema"), v, "") {
			t.Errorf("%s: %s", rt.name, wrong)
		}
	}
}
