package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/policy"
)

// The schemas of structs are made from their tags. Bodies of requests are described by the tags
// that strict.Decode checks; answers have names, types, values and texts, and no limits. A struct
// that is in both, such as an endpoint's settings, is described in both ways.

// use is what a schema describes.
type use int

const (
	answered use = iota // a part of an answer: all of its members are there
	given               // a part of a request: required fields, and forms of texts
	merged              // a part of a merge patch: all may be left out, and null takes away
)

// schema is the schema of a type. That of a struct is a reference.
func (d *describer) schema(t reflect.Type, u use) *huma.Schema {
	if t.Kind() == reflect.Pointer {
		s := d.schema(t.Elem(), u)
		s.Nullable = s.Ref == "" && s.Type != ""
		return s
	}
	if own, is := reflect.Zero(t).Interface().(huma.SchemaProvider); is {
		return own.Schema(d.registry)
	}
	switch t {
	case reflect.TypeFor[policy.Duration]():
		if u == answered {
			return &huma.Schema{Type: huma.TypeString, Examples: []any{"1h30m"}}
		}
		return &huma.Schema{Type: huma.TypeString}
	case reflect.TypeFor[time.Time]():
		return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return &huma.Schema{}
	}
	switch t.Kind() {
	case reflect.String:
		return &huma.Schema{Type: huma.TypeString}
	case reflect.Bool:
		return &huma.Schema{Type: huma.TypeBoolean}
	case reflect.Int, reflect.Int64:
		return &huma.Schema{Type: huma.TypeInteger, Format: "int64"}
	case reflect.Float64:
		return &huma.Schema{Type: huma.TypeNumber, Format: "double"}
	case reflect.Interface:
		return &huma.Schema{}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &huma.Schema{Type: huma.TypeString, ContentEncoding: "base64"}
		}
		return &huma.Schema{Type: huma.TypeArray, Items: d.schema(t.Elem(), u)}
	case reflect.Map:
		return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: d.schema(t.Elem(), u)}
	case reflect.Struct:
		name := schemaName(t, "")
		if u == merged {
			name = strings.TrimSuffix(strings.TrimPrefix(name, "New"), "Settings") + "Patch"
		}
		d.claim(name, t)
		return named(d.registry, name, func() *huma.Schema { return d.object(t, u) })
	}
	panic("openapi: no schema for " + t.String())
}

// claim gives a name to one type. Two types under one name would share the schema of the first, so
// that the answers with the second would not be what the document describes.
func (d *describer) claim(name string, t reflect.Type) {
	if has, ok := d.types[name]; ok && has != t {
		panic(fmt.Sprintf("openapi: %s and %s are both named %s", has, t, name))
	}
	d.types[name] = t
}

// object is the schema of a struct itself.
func (d *describer) object(t reflect.Type, u use) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}}
	if u != answered {
		s.AdditionalProperties = false
	}
	for _, f := range strict.Fields(t) {
		if u == merged && f.Fixed {
			continue
		}
		s.Properties[f.Name] = d.field(f, u)
		if u == answered && !f.Optional || u == given && f.Required {
			s.Required = append(s.Required, f.Name)
		}
	}
	if own, is := reflect.Zero(t).Interface().(huma.SchemaTransformer); is {
		s = own.TransformSchema(d.registry, s)
	}
	return s
}

// field is the schema of a struct's field.
func (d *describer) field(f strict.Field, u use) *huma.Schema {
	s := d.fieldType(f, u)
	if doc := f.Tag.Get("doc"); doc != "" {
		s.Description = doc
	}
	texts := s
	if s.Type == huma.TypeArray {
		texts = s.Items
	}
	if f.Tag.Get("enum") != "" {
		for _, value := range strings.Split(f.Tag.Get("enum"), ",") {
			texts.Enum = append(texts.Enum, value)
		}
	}
	if u == answered {
		if null, said := f.Tag.Lookup("nullable"); said {
			if s.Nullable = false; null == "true" {
				s = orNullSchema(s)
			}
		} else if f.Optional {
			s.Nullable = false // it is left out instead
		}
		return s
	}
	limit(s, texts, f.Tag)
	d.refine(s, f, u)
	s.Nullable = false
	if !f.Required {
		s = orNullSchema(s)
	}
	return s
}

func (d *describer) fieldType(f strict.Field, u use) *huma.Schema {
	switch t := f.Type; {
	case f.Tag.Get("form") == "policy":
		return PolicyOrName(d.registry, []func(huma.Registry) *huma.Schema{PolicySchema, PolicyIn, PolicyMerged}[u])
	case u == answered && f.Tag.Get("nullable") == "true" && t.Kind() == reflect.Pointer && isObject(t.Elem()):
		return d.object(t.Elem(), u) // a reference could not say that it may be null
	default:
		return d.schema(t, u)
	}
}

func isObject(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]()
}

// limit puts the bounds of a field into its schema, those of texts into that of a list's entries.
func limit(s, texts *huma.Schema, tag reflect.StructTag) {
	whole := func(name string, into **int) {
		if n, err := strconv.Atoi(tag.Get(name)); err == nil {
			*into = &n
		}
	}
	number := func(name string, into **float64) {
		if n, err := strconv.ParseFloat(tag.Get(name), 64); err == nil {
			*into = &n
		}
	}
	if s.Type == huma.TypeObject {
		texts, _ = s.AdditionalProperties.(*huma.Schema)
	}
	if texts != nil {
		whole("minLength", &texts.MinLength)
		whole("maxLength", &texts.MaxLength)
	}
	whole("minItems", &s.MinItems)
	whole("maxItems", &s.MaxItems)
	whole("maxProperties", &s.MaxProperties)
	number("minimum", &s.Minimum)
	number("exclusiveMinimum", &s.ExclusiveMinimum)
	number("maximum", &s.Maximum)
	s.UniqueItems = tag.Get("uniqueItems") == "true"
}

// refine adds the forms, and the bounds of strings, lists and maps that have none of their own.
func (d *describer) refine(s *huma.Schema, f strict.Field, u use) {
	switch {
	case s.Type == huma.TypeString:
		d.refineText(s, f.Tag.Get("form"))
	case s.Type == huma.TypeArray:
		if s.MaxItems == nil {
			s.MaxItems = new(strict.MostMembers)
		}
		if s.Items.Type == huma.TypeString {
			d.refineText(s.Items, f.Tag.Get("form"))
		}
	case s.Type == huma.TypeObject:
		if s.MaxProperties == nil {
			s.MaxProperties = new(strict.MostMembers)
		}
		names, looks := &huma.Schema{}, d.forms.Of(f.Tag.Get("names"))
		describeForm(&looks, names)
		s.Extensions = map[string]any{"propertyNames": names}
		values := s.AdditionalProperties.(*huma.Schema)
		d.refineText(values, f.Tag.Get("form"))
		if u == merged {
			orNullSchema(values) // null takes a member away
		}
	}
}

func (d *describer) refineText(s *huma.Schema, name string) {
	if s.Format == "date-time" && name == "" {
		return // a time as it is
	}
	looks := d.forms.Of(name)
	describeForm(&looks, s)
	if s.MaxLength == nil && len(s.Enum) == 0 && len(looks.Span) == 0 && looks.Format != "date-time" {
		s.MaxLength = new(strict.LongestString)
	}
	if len(s.Enum) > 0 {
		s.Pattern = "" // the values say more
	}
}

// body describes the bodies that an operation takes.
func (d *describer) body(o *Operation) *huma.RequestBody {
	b := &huma.RequestBody{Required: !o.Body.Optional, Content: map[string]*huma.MediaType{}}
	for _, media := range o.Body.Types {
		switch {
		case media == TypeNDJSON:
			b.Content[media] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: "one NewEvent per line"}}
		case media == TypeMergePatch:
			// Clients that are generated send one content type, and JSON is the one that all of
			// them know.
			b.Description = "a JSON merge patch; " + TypeMergePatch + " is taken as well"
		case slices.Contains(o.Body.Types, TypeMergePatch):
			b.Content[media] = &huma.MediaType{Schema: d.schema(reflect.TypeOf(o.Takes), merged)}
		default:
			b.Content[media] = &huma.MediaType{Schema: d.schema(reflect.TypeOf(o.Takes), given)}
		}
	}
	for _, content := range b.Content {
		d.take(content.Schema)
	}
	if len(o.Body.Types) == 0 {
		b.Content["application/octet-stream"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
		b.Content["*/*"] = &huma.MediaType{Schema: &huma.Schema{Description: "any bytes"}}
	}
	return b
}

// take notes which schemas describe bodies of requests.
func (d *describer) take(s *huma.Schema) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		if d.taken[s.Ref] {
			return
		}
		d.taken[s.Ref] = true
		s = d.registry.SchemaFromRef(s.Ref)
	}
	d.take(s.Items)
	for _, one := range s.AnyOf {
		d.take(one)
	}
	for _, property := range s.Properties {
		d.take(property)
	}
}

func (d *describer) operation(o *Operation) *huma.Operation {
	op := &huma.Operation{
		Method: o.Method, Path: o.Path, OperationID: o.Name, Summary: o.Summary, Description: cmp.Or(o.About, o.Summary+"."),
		Tags: []string{o.Tag}, Responses: map[string]*huma.Response{}, Extensions: map[string]any{},
		Security: []map[string][]string{}, // empty: no key is needed
	}
	if o.Scope != "" {
		op.Security = []map[string][]string{{"key": {}}}
		op.Extensions["x-scope"] = string(o.Scope)
	}
	if len(o.Also) > 0 {
		op.Extensions["x-also-at"] = o.Also
	}
	for rest := o.Path; strings.Contains(rest, "{"); {
		_, rest, _ = strings.Cut(rest, "{")
		name, _, _ := strings.Cut(rest, "}")
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
			Example: example(o.Example.Path, name, huma.TypeString)})
	}
	for _, p := range o.Query {
		said := p.describe("query")
		if said.Example = example(o.Example.Query, p.Name, said.Schema.Type); p.Repeat && said.Example != nil {
			said.Example = []any{said.Example}
		}
		op.Parameters = append(op.Parameters, said)
	}
	for _, p := range o.Headers {
		op.Parameters = append(op.Parameters, p.describe("header"))
	}
	if o.Body != nil {
		op.RequestBody = d.body(o)
		show(op.RequestBody.Content, o.Example.Request)
	}
	for status, v := range o.Gives {
		r := d.response(status, v)
		op.Responses[strconv.Itoa(status)] = r
		if o.Metered {
			r.Headers = map[string]*huma.Param{"RateLimit": header("the unused part of the tenant's rate, if it has one"),
				"RateLimit-Policy": header("the tenant's rate")}
		}
		show(r.Content, o.Example.Answers[strconv.Itoa(status)])
	}
	for _, status := range o.refusals() {
		op.Responses[status] = &huma.Response{Ref: "#/components/responses/" + problemResponse(status)}
	}
	return op
}

// show puts an example into the content that it is of: a JSON string is one of text.
func show(content map[string]*huma.MediaType, example json.RawMessage) {
	if len(example) == 0 || len(content) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(content))
	at := slices.IndexFunc(names, func(media string) bool { return (media == grapnel.JSONType) == (example[0] != '"') })
	content[names[max(at, 0)]].Example = example
}

// example is a value of an example, as one of a type; nil: there is none.
func example(of map[string]string, name, kind string) any {
	value, there := of[name]
	switch {
	case !there:
		return nil
	case kind == huma.TypeInteger || kind == huma.TypeNumber || kind == huma.TypeBoolean:
		return json.RawMessage(value)
	}
	return value
}

// response is an answer that is not a problem.
func (d *describer) response(status int, v any) *huma.Response {
	r := &huma.Response{}
	switch v := v.(type) {
	case nil:
	case Contents:
		r.Content = v.Contents(func(v any) *huma.Schema { return d.schema(reflect.TypeOf(v), answered) })
	default:
		r = d.content(grapnel.JSONType, v)
	}
	r.Description = http.StatusText(status)
	return r
}

func (d *describer) content(media string, v any) *huma.Response {
	return &huma.Response{Content: map[string]*huma.MediaType{media: {Schema: d.schema(reflect.TypeOf(v), answered)}}}
}
