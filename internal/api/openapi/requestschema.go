package openapi

import (
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel/internal/api/strict"
)

// The schemas of what comes in. huma reads the tags that it knows; refine adds what strict.Decode
// checks besides: forms, the bounds of strings and lists that have none of their own, and that null
// is as good as nothing for what is not required.

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
			b.Content[media] = &huma.MediaType{Schema: d.patch(reflect.TypeOf(o.Takes))}
		default:
			b.Content[media] = &huma.MediaType{Schema: d.registry.Schema(reflect.TypeOf(o.Takes), true, "")}
			d.refine(reflect.TypeOf(o.Takes))
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

// patch is the schema of a merge patch of a struct: all may be left out, and null takes away what
// may be absent.
func (d *describer) patch(t reflect.Type) *huma.Schema {
	if _, own := reflect.Zero(t).Interface().(huma.SchemaProvider); own {
		return d.registry.Schema(t, true, "")
	}
	name := strings.TrimSuffix(schemaName(t, ""), "Settings") + "Patch"
	return named(d.registry, name, func() *huma.Schema {
		s := huma.SchemaFromType(d.registry, t)
		for name, f := range strict.JsonFields(t) {
			p := s.Properties[name]
			switch {
			case f.Type.Implements(reflect.TypeFor[patched]()):
				p.AnyOf = reflect.Zero(f.Type).Interface().(patched).PatchSchema(d.registry).AnyOf
			case f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct:
				p.Ref = d.patch(f.Type.Elem()).Ref
			}
		}
		d.refineFields(s, t)
		for name, f := range strict.JsonFields(t) {
			if f.Type.Kind() == reflect.Map { // null takes a member away
				orNullSchema(s.Properties[name].AdditionalProperties.(*huma.Schema))
			}
		}
		s.Required = nil
		return s
	})
}

// refine completes the schema of a struct that strict.Decode reads.
func (d *describer) refine(t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	ref := schemaPrefix + schemaName(t, "")
	if s := d.registry.SchemaFromRef(ref); s != nil && !d.refined[ref] && s.Type == huma.TypeObject {
		d.refined[ref] = true
		for _, f := range strict.JsonFields(t) {
			d.refine(f.Type)
		}
		d.refineFields(s, t)
	}
}

func (d *describer) refineFields(s *huma.Schema, t reflect.Type) {
	for name, f := range strict.JsonFields(t) {
		p := s.Properties[name]
		d.refineField(p, f)
		p.Nullable = false
		if f.Tag.Get("required") != "true" {
			p = orNullSchema(p)
		}
		s.Properties[name] = p
	}
}

// refineField says of a field what strict.Decode checks and huma does not know.
func (d *describer) refineField(s *huma.Schema, f reflect.StructField) {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.String:
		d.refineText(s, f.Tag.Get("form"))
	case t.Kind() == reflect.Slice && s.Type == huma.TypeArray:
		if s.MaxItems == nil {
			most := strict.MostMembers
			s.MaxItems = &most
		}
		if t.Elem().Kind() == reflect.String {
			d.refineText(s.Items, f.Tag.Get("form"))
		}
	case t.Kind() == reflect.Map:
		if s.MaxProperties == nil {
			most := strict.MostMembers
			s.MaxProperties = &most
		}
		names := &huma.Schema{}
		looks := d.forms[f.Tag.Get("names")]
		describeForm(&looks, names)
		s.Extensions = map[string]any{"propertyNames": names}
		d.refineText(s.AdditionalProperties.(*huma.Schema), f.Tag.Get("form"))
	}
}

func (d *describer) refineText(s *huma.Schema, name string) {
	looks := d.forms[name]
	describeForm(&looks, s)
	if s.MaxLength == nil && len(s.Enum) == 0 && len(looks.Span) == 0 && looks.Format != "date-time" {
		most := strict.LongestString
		s.MaxLength = &most
	}
	if len(s.Enum) > 0 {
		s.Pattern = "" // the values say more
	}
}

// take notes which schemas describe what comes in.
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
