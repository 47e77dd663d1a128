package api

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel/policy"
)

// decode reads a JSON object into a struct, strictly. The struct's tags are those from which the OpenAPI document is made, so what is
// documented is what is checked:
//
//	json:"name"  required:"true"  enum:"a,b"  minLength maxLength minItems maxItems minimum maximum
//
// Fields are strings, numbers, bools, lists of strings, maps of strings, pointers to structs of those, and json.RawMessage for what
// another room parses. A member that is null is as good as absent.
func decode[T any](raw []byte, f *faults) T {
	var out T
	decodeObject(value{Result: gjson.ParseBytes(raw), faults: f}, reflect.ValueOf(&out).Elem())
	return out
}

// longestString bounds strings that say nothing of their own.
const longestString = 4096

func decodeObject(v value, into reflect.Value) {
	base := "/"
	if v.name != "" {
		base = v.pointer() + "/"
	}
	if !v.IsObject() {
		v.faults.add(strings.TrimSuffix(base, "/"), "must be an object")
		return
	}
	fields := jsonFields(into.Type())
	given := map[string]bool{}
	members(v.Result, base, v.faults, func(m value) bool {
		f, known := fields[m.name]
		if known && !m.absent() {
			given[m.name] = true
			decodeField(m, f, into.FieldByIndex(f.Index))
		}
		return known
	})
	for _, f := range reflect.VisibleFields(into.Type()) {
		if name := jsonName(f); f.Tag.Get("required") == "true" && !given[name] {
			v.faults.add(base+name, "is required")
		}
	}
}

// jsonFields are a struct's fields by their names in JSON, those of embedded structs included.
func jsonFields(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		if name := jsonName(f); name != "" {
			fields[name] = f
		}
	}
	return fields
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func decodeField(v value, f reflect.StructField, into reflect.Value) {
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		decodeField(v, f, into.Elem())
	case reflect.Struct:
		decodeObject(v, into)
	case reflect.String:
		into.SetString(decodeText(v, f))
	case reflect.Int:
		n, whole := policy.Whole(v.Raw)
		if v.Type != gjson.Number || !whole {
			v.wrong("must be a whole number")
			return
		}
		checkRange(v, f, float64(n))
		into.SetInt(int64(n))
	case reflect.Float64:
		n, err := strconv.ParseFloat(v.Raw, 64)
		if v.Type != gjson.Number || err != nil {
			v.wrong("must be a number")
			return
		}
		checkRange(v, f, n)
		into.SetFloat(n)
	case reflect.Bool:
		if !v.IsBool() {
			v.wrong("must be true or false")
		}
		into.SetBool(v.Bool())
	case reflect.Slice:
		if into.Type().Elem().Kind() == reflect.Uint8 {
			into.SetBytes([]byte(v.Raw)) // another room reads it
			return
		}
		into.Set(reflect.ValueOf(decodeList(v, f)).Convert(into.Type()))
	case reflect.Map:
		into.Set(reflect.ValueOf(v.texts(limitOf(f, "maxProperties", mostMembers), longestString)))
	default:
		panic("api: no way to decode " + f.Name + " as " + into.Type().String())
	}
}

func decodeText(v value, f reflect.StructField) string {
	text, ok := v.text()
	if !ok {
		return ""
	}
	length := utf8.RuneCountInString(text)
	least, most := limitOf(f, "minLength", 0), limitOf(f, "maxLength", longestString)
	switch {
	case length < least:
		v.wrong("must have at least %d characters", least)
	case length > most:
		v.wrong("must have at most %d characters", most)
	case strings.ContainsRune(text, 0):
		v.wrong("must not contain the character NUL")
	}
	if enum := f.Tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), text) {
		v.wrong("must be one of %s", strings.ReplaceAll(enum, ",", ", "))
	}
	return text
}

func decodeList(v value, f reflect.StructField) []string {
	if !v.IsArray() {
		v.wrong("must be a list of strings")
		return nil
	}
	out := []string{}
	most := limitOf(f, "maxItems", mostMembers)
	v.ForEach(func(_, result gjson.Result) bool {
		if len(out) == most {
			v.wrong("must have at most %d entries", most)
			return false
		}
		e := value{Result: result, base: v.pointer() + "/", name: strconv.Itoa(len(out)), faults: v.faults}
		out = append(out, decodeText(e, f))
		return !v.faults.full()
	})
	if least := limitOf(f, "minItems", 0); len(out) < least {
		v.wrong("must have at least %d entries", least)
	}
	return out
}

func checkRange(v value, f reflect.StructField, n float64) {
	if least, err := strconv.ParseFloat(f.Tag.Get("minimum"), 64); err == nil && n < least {
		v.wrong("must be at least %v", least)
	}
	if above, err := strconv.ParseFloat(f.Tag.Get("exclusiveMinimum"), 64); err == nil && n <= above {
		v.wrong("must be more than %v", above)
	}
	if most, err := strconv.ParseFloat(f.Tag.Get("maximum"), 64); err == nil && n > most {
		v.wrong("must be at most %v", most)
	}
}

func limitOf(f reflect.StructField, tag string, otherwise int) int {
	if n, err := strconv.Atoi(f.Tag.Get(tag)); err == nil {
		return n
	}
	return otherwise
}
