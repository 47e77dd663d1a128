package strict

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel/policy"
)

// Decode reads a JSON object into a struct, strictly. The struct's tags are those from which the
// OpenAPI document is made, so what is documented is what is checked:
//
//	json:"name"  required:"true"  enum:"a,b"  minLength maxLength minItems maxItems uniqueItems minimum maximum
//	form:"tenant"  names:"header-name"     forms of a text, of a list's or a map's texts, and of a map's names
//
// Fields are strings, numbers, bools, lists of strings, maps of strings, pointers to structs of
// those, and json.RawMessage for what another package parses. A member that is null is as good as
// absent.
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
	fields := JsonFields(into.Type())
	given := map[string]bool{}
	Members(v.Result, base, v.Faults, func(m Value) bool {
		f, there := fields[m.Name]
		if there && !m.Absent() {
			given[m.Name] = true
			decodeField(m, known, f, into.FieldByIndex(f.Index))
		}
		return there
	})
	for _, f := range reflect.VisibleFields(into.Type()) {
		if name := jsonName(f); f.Tag.Get("required") == "true" && !given[name] {
			v.Faults.Add(base+name, "is required")
		}
	}
}

// JsonFields are a struct's fields by their names in JSON, those of embedded structs included.
func JsonFields(t reflect.Type) map[string]reflect.StructField {
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

func decodeField(v Value, known Forms, f reflect.StructField, into reflect.Value) {
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		decodeField(v, known, f, into.Elem())
	case reflect.Struct:
		DecodeObject(v, known, into)
	case reflect.String:
		into.SetString(DecodeText(v, known, f))
	case reflect.Int:
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
		into.Set(reflect.ValueOf(decodeList(v, known, f)).Convert(into.Type()))
	case reflect.Map:
		into.Set(reflect.ValueOf(v.Texts(limitOf(f, "maxProperties", MostMembers), LongestString)))
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
	looks := known[f.Tag.Get("form")]
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

func decodeList(v Value, known Forms, f reflect.StructField) []string {
	if !v.IsArray() {
		v.Wrong("must be a list of strings")
		return nil
	}
	out := []string{}
	most := limitOf(f, "maxItems", MostMembers)
	v.ForEach(func(_, result gjson.Result) bool {
		if len(out) == most {
			v.Wrong("must have at most %d entries", most)
			return false
		}
		e := Value{Result: result, Base: v.Pointer() + "/", Name: strconv.Itoa(len(out)), Faults: v.Faults}
		text := DecodeText(e, known, f)
		if f.Tag.Get("uniqueItems") == "true" && slices.Contains(out, text) {
			e.Wrong("is there twice")
		}
		out = append(out, text)
		return !v.Faults.Full()
	})
	if least := limitOf(f, "minItems", 0); len(out) < least {
		v.Wrong("must have at least %d entries", least)
	}
	return out
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
