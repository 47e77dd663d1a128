package openapi

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/policy"
)

// describeForm puts the form into a schema.
func describeForm(f *strict.Form, s *huma.Schema) {
	if f.Number {
		s.Type, s.Minimum, s.Maximum = huma.TypeInteger, new(float64(f.Least)), new(float64(f.Most))
		return
	}
	if f.Pattern != nil {
		s.Pattern = f.Pattern.String()
	}
	if f.Least > 0 {
		s.MinLength = new(f.Least)
	}
	if f.Most > 0 {
		s.MaxLength = new(f.Most)
	}
	if f.Format != "" {
		s.Format = f.Format
	}
	if f.Example != "" {
		s.Examples = []any{f.Example}
	}
	for _, one := range f.One {
		s.Enum = append(s.Enum, one)
	}
	if len(f.Span) > 0 {
		s.Extensions = map[string]any{"x-minimum": policy.Duration(f.Span[0]).String(), "x-maximum": policy.Duration(f.Span[1]).String()}
	}
}
