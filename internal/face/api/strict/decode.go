package strict

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel/policy"
)

// Decode reads a JSON object into a struct, strictly. The struct's tags are those from which the
// OpenAPI document is made, so the document and the check are the same:
//
//	json:"name"  required:"true"  enum:"a,b"  minLength maxLength minItems maxItems uniqueItems minimum maximum
//	exclusiveMinimum  maxProperties
//	form:"tenant"  names:"header-name"     forms of a text, of a list's or a map's texts, and of a map's names
//	default:"key"                          the value of a member that is absent
//
// Fields are strings, numbers, bools, times, durations, lists of strings, maps of strings, structs
// of those and pointers to them, and json.RawMessage or any for what another package parses. A
// member that is null is as good as absent.
func Decode[T any](raw []byte, known Forms, f *Faults) T {
	var out T
	DecodeObject(Value{Result: gjson.ParseBytes(raw), Faults: f}, known, reflect.ValueOf(&out).Elem())
	return out
}

// LongestString bounds strings that say nothing of their own.
const LongestString = 4096

// DecodeObject reads one object of a document into a struct, as Decode does.
func DecodeObject(v Value, known Forms, into reflect.Value) {
	base := "/"
	if v.Name != "" {
		base = v.Pointer() + "/"
	}
	if !v.IsObject() {
		v.Faults.Add(strings.TrimSuffix(base, "/"), "must be an object")
		return
	}
	fields := Fields(into.Type())
	given := map[string]bool{}
	Members(v.Result, base, v.Faults, func(m Value) bool {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == m.Name })
		if i >= 0 && !m.Absent() {
			given[m.Name] = true
			decodeField(m, known, fields[i].StructField, into.FieldByIndex(fields[i].Index))
		}
		return i >= 0
	})
	for _, f := range fields {
		if f.Required && !given[f.Name] {
			v.Faults.Add(base+f.Name, "is required")
		}
	}
	Defaults(into.Addr().Interface())
}

// Field is a field of a struct that is a member of its JSON.
type Field struct {
	reflect.StructField
	Name     string // in JSON
	Required bool
	Fixed    bool // no update changes it
	Optional bool // answers may leave it out
}

// ofTypes are the fields of the types that were asked about: finding them takes longer than the
// rest of a short answer.
var ofTypes sync.Map // reflect.Type: []Field

// Fields are a struct's fields that have names in JSON, those of embedded structs included. The
// slice is shared: callers only read it.
func Fields(t reflect.Type) []Field {
	fields, have := ofTypes.Load(t)
	if !have {
		fields, _ = ofTypes.LoadOrStore(t, fieldsOf(t))
	}
	return fields.([]Field)
}

func fieldsOf(t reflect.Type) (fields []Field) {
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		pointed := len(f.Index) > 1 && t.FieldByIndex(f.Index[:len(f.Index)-1]).Type.Kind() == reflect.Pointer
		fields = append(fields, Field{StructField: f, Name: name, Required: f.Tag.Get("required") == "true",
			Fixed: f.Tag.Get("fixed") == "true", Optional: options != "" || pointed})
	}
	return fields
}

// FieldNamed is the field of a struct that has this name in JSON; the struct has one.
func FieldNamed(t reflect.Type, name string) reflect.StructField {
	for _, f := range Fields(t) {
		if f.Name == name {
			return f.StructField
		}
	}
	panic("strict: " + t.Name() + " has no " + name)
}

// Defaults sets the fields of a struct that are zero and have a default.
func Defaults(into any) {
	v := reflect.ValueOf(into).Elem()
	for _, f := range Fields(v.Type()) {
		text, has := f.Tag.Lookup("default")
		if at := v.FieldByIndex(f.Index); has && at.IsZero() {
			setText(at, text)
		}
	}
}

// setText sets a field to the value that a tag has.
func setText(into reflect.Value, text string) {
	switch {
	case into.Kind() == reflect.String:
		into.SetString(text)
		return
	case into.Type() == reflect.TypeFor[policy.Duration]():
		if d, err := policy.ParseDuration(text); err == nil {
			into.SetInt(int64(d))
			return
		}
	case into.Kind() == reflect.Int:
		if n, err := strconv.Atoi(text); err == nil {
			into.SetInt(int64(n))
			return
		}
	}
	panic("strict: the default " + text + " is no " + into.Type().String())
}

func decodeField(v Value, known Forms, f reflect.StructField, into reflect.Value) {
	switch into.Type() {
	case reflect.TypeFor[policy.Duration]():
		d, _ := policy.ParseDuration(DecodeText(v, known, f)) // zero if it does not have its form
		into.SetInt(int64(d))
		return
	case reflect.TypeFor[time.Time]():
		at, _ := ParseTime(DecodeText(v, known, f))
		into.Set(reflect.ValueOf(at))
		return
	}
	switch into.Kind() {
	case reflect.Interface:
		into.Set(reflect.ValueOf(json.RawMessage(v.Raw))) // another package reads it
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		decodeField(v, known, f, into.Elem())
	case reflect.Struct:
		DecodeObject(v, known, into)
	case reflect.String:
		into.SetString(DecodeText(v, known, f))
	case reflect.Int, reflect.Int64:
		n, whole := policy.Whole(v.Raw)
		if v.Type != gjson.Number || !whole {
			v.Wrong("must be a whole number")
			return
		}
		checkRange(v, f, float64(n))
		into.SetInt(int64(n))
	case reflect.Float64:
		n, err := strconv.ParseFloat(v.Raw, 64)
		if v.Type != gjson.Number || err != nil {
			v.Wrong("must be a number")
			return
		}
		checkRange(v, f, n)
		into.SetFloat(n)
	case reflect.Bool:
		if !v.IsBool() {
			v.Wrong("must be true or false")
		}
		into.SetBool(v.Bool())
	case reflect.Slice:
		if into.Type().Elem().Kind() == reflect.Uint8 {
			into.SetBytes([]byte(v.Raw)) // another package reads it
			return
		}
		decodeList(v, known, f, into)
	case reflect.Map:
		into.Set(reflect.ValueOf(decodeMap(v, known, f)))
	default:
		panic("strict: no way to decode " + f.Name + " as " + into.Type().String())
	}
}

// DecodeText reads a text by the tags of its field.
func DecodeText(v Value, known Forms, f reflect.StructField) string {
	text, ok := v.Text()
	if !ok {
		return ""
	}
	length := utf8.RuneCountInString(text)
	least, most := limitOf(f, "minLength", 0), limitOf(f, "maxLength", LongestString)
	looks := known.Of(f.Tag.Get("form"))
	switch {
	case length < least:
		v.Wrong("must have at least %d characters", least)
	case length > most:
		v.Wrong("must have at most %d characters", most)
	case strings.ContainsRune(text, 0):
		v.Wrong("must not contain the character NUL")
	case !looks.Fits(text):
		v.Wrong("%s", looks.Must)
	}
	if enum := f.Tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), text) {
		v.Wrong("must be one of %s", strings.ReplaceAll(enum, ",", ", "))
	}
	return text
}

func decodeList(v Value, known Forms, f reflect.StructField, into reflect.Value) {
	if !v.IsArray() {
		v.Wrong("must be a list of strings")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), 0, 0))
	most, seen := limitOf(f, "maxItems", MostMembers), []string{}
	v.ForEach(func(_, result gjson.Result) bool {
		if len(seen) == most {
			v.Wrong("must have at most %d entries", most)
			return false
		}
		e := Value{Result: result, Base: v.Pointer() + "/", Name: strconv.Itoa(len(seen)), Faults: v.Faults}
		text := DecodeText(e, known, f)
		if f.Tag.Get("uniqueItems") == "true" && slices.Contains(seen, text) {
			e.Wrong("is given twice")
		}
		seen = append(seen, text)
		into.Set(reflect.Append(into, reflect.ValueOf(text).Convert(into.Type().Elem())))
		return !v.Faults.Full()
	})
	if least := limitOf(f, "minItems", 0); len(seen) < least {
		v.Wrong("must have at least %d entries", least)
	}
}

// decodeMap reads an object of texts. maxLength bounds the bytes of each.
func decodeMap(v Value, known Forms, f reflect.StructField) map[string]string {
	texts := v.Texts(limitOf(f, "maxProperties", MostMembers), limitOf(f, "maxLength", LongestString))
	names, values := known.Of(f.Tag.Get("names")), known.Of(f.Tag.Get("form"))
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		m := Value{Base: v.Pointer() + "/", Name: name, Faults: v.Faults}
		if !names.Fits(name) {
			m.Wrong("has a name that %s", names.Must)
		} else if !values.Fits(texts[name]) {
			m.Wrong("%s", values.Must)
		}
	}
	return texts
}

func checkRange(v Value, f reflect.StructField, n float64) {
	if least, err := strconv.ParseFloat(f.Tag.Get("minimum"), 64); err == nil && n < least {
		v.Wrong("must be at least %v", least)
	}
	if above, err := strconv.ParseFloat(f.Tag.Get("exclusiveMinimum"), 64); err == nil && n <= above {
		v.Wrong("must be more than %v", above)
	}
	if most, err := strconv.ParseFloat(f.Tag.Get("maximum"), 64); err == nil && n > most {
		v.Wrong("must be at most %v", most)
	}
}

func limitOf(f reflect.StructField, tag string, otherwise int) int {
	if n, err := strconv.Atoi(f.Tag.Get(tag)); err == nil {
		return n
	}
	return otherwise
}

// Check panics if a field of a struct, or of one inside it, names an unknown form. The API
// calls it at its start for every type of body, so a typing error in a tag stops the program.
func (f Forms) Check(t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for _, field := range Fields(t) {
		if field.Type.Kind() == reflect.Interface {
			continue // another package reads it
		}
		for _, tag := range []string{field.Tag.Get("form"), field.Tag.Get("names")} {
			if _, known := f[tag]; !known && !strings.HasPrefix(tag, "^") {
				panic(fmt.Sprintf("form %q of %s.%s is unknown", tag, t, field.StructField.Name))
			}
		}
		f.Check(field.Type)
	}
}
