package openapi

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// The manual is the OpenAPI document as one page for people. It needs no script and nothing from
// another host.

//go:embed manual.html
var manualSource string

//go:embed manual.css
var manualStyle string

var manualPage = template.Must(template.New("manual").Parse(manualSource))

// Style is what pages look like.
func Style() string { return manualStyle }

// manualView is what the page shows.
type manualView struct {
	Style    template.CSS
	About    []string
	Sections []manualSection
	Schemas  []manualSchema
	Problems []Problem
}

type manualSection struct {
	Name       string
	Operations []manualOperation
}

type manualOperation struct {
	ID, Method, Path, Summary, About, Scope string
	Also                                    []string
	Fields                                  []manualField // of path, query and headers
	Takes                                   string        // a schema, or words
	Gives                                   []manualAnswer
}

type manualAnswer struct{ Status, Schema string }

type manualSchema struct {
	Name   string
	Fields []manualField
}

type manualField struct {
	Name, Kind, About string
	Required          bool
}

// Manual writes the document as a page for people.
func Manual(doc *huma.OpenAPI, what *Description) []byte {
	v := manualView{Style: template.CSS(manualStyle), About: strings.Split(doc.Info.Description, "\n\n"), Problems: what.Problems}
	for _, tag := range doc.Tags {
		s := manualSection{Name: tag.Name}
		for i := range what.Operations {
			if op := &what.Operations[i]; op.Tag == tag.Name {
				s.Operations = append(s.Operations, describe(doc, op))
			}
		}
		v.Sections = append(v.Sections, s)
	}
	schemas := doc.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		v.Schemas = append(v.Schemas, manualSchema{name, fields(schemas[name])})
	}
	var b bytes.Buffer
	if err := manualPage.Execute(&b, v); err != nil {
		panic("openapi: the manual cannot be written: " + err.Error())
	}
	return b.Bytes()
}

func describe(doc *huma.OpenAPI, o *Operation) manualOperation {
	op := operationOf(doc.Paths[o.Path], o.Method)
	m := manualOperation{ID: o.Name, Method: o.Method, Path: o.Path, Summary: o.Summary, About: o.About, Scope: string(o.Scope), Also: o.Also}
	for _, p := range op.Parameters {
		m.Fields = append(m.Fields, manualField{p.Name, p.In + ", " + kindName(p.Schema), p.Description, p.Required})
	}
	if op.RequestBody != nil {
		for _, media := range slices.Sorted(maps.Keys(op.RequestBody.Content)) {
			if name := kindName(op.RequestBody.Content[media].Schema); !strings.Contains(m.Takes, name) {
				m.Takes += strings.Repeat(", or ", min(1, len(m.Takes))) + name
			}
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[status]
		for _, media := range slices.Sorted(maps.Keys(r.Content)) {
			m.Gives = append(m.Gives, manualAnswer{status, kindName(r.Content[media].Schema)})
		}
		if r.Ref == "" && len(r.Content) == 0 {
			m.Gives = append(m.Gives, manualAnswer{status, "nothing"})
		}
	}
	return m
}

func operationOf(item *huma.PathItem, method string) *huma.Operation {
	return map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
	}[method]
}

func fields(s *huma.Schema) []manualField {
	var all []manualField
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		all = append(all, manualField{name, kindName(p), p.Description, slices.Contains(s.Required, name)})
	}
	return all
}

// kindName says in few words what a schema allows.
func kindName(s *huma.Schema) string {
	var name string
	switch {
	case s == nil:
		return ""
	case s.Ref != "":
		return strings.TrimPrefix(s.Ref, schemaPrefix)
	case len(s.AnyOf) > 0:
		var kinds []string
		for _, one := range s.AnyOf {
			kinds = append(kinds, kindName(one))
		}
		return strings.Join(kinds, " or ")
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprint(v))
		}
		name = strings.Join(values, ", ")
	case s.Type == huma.TypeArray:
		name = "list of " + kindName(s.Items)
	case s.Format == "date-time":
		name = "time"
	case s.Type == huma.TypeObject && len(s.Properties) > 0:
		name = "{" + strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ") + "}"
	case s.Type == "":
		name = "any JSON"
	default:
		name = s.Type
	}
	if s.Nullable {
		name += " or null"
	}
	return name
}
