package openapi

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Document describes the operations as OpenAPI 3.1.
//
// huma writes the document. It does not route, decode or validate here, nor make schemas: it
// reports a missing field at the object and not at the field, takes a field that is given twice,
// and encodes an answer after the handler, when ours may have to be stored in the transaction that
// it reports. Package strict reads the same tags instead.
func Document(what *Description) *huma.OpenAPI {
	d := &describer{registry: huma.NewMapRegistry(schemaPrefix, schemaName), forms: what.Forms,
		taken: map[string]bool{}, types: map[string]reflect.Type{}}
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Servers: []*huma.Server{{URL: "/", Description: "the server that this document came from"}},
		Info: &huma.Info{
			Title: "Grapnel", Version: documentVersion, Description: documentAbout,
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			Contact: &huma.Contact{Name: "Grapnel", URL: "https://github.com/grapnelhq/grapnel"},
		},
		Components: &huma.Components{
			Schemas: d.registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"key": {Type: "http", Scheme: "bearer", Description: "an API key, grp_…; each operation names the scope that it needs"},
			},
			Responses: map[string]*huma.Response{},
		},
		Webhooks: d.webhooks(),
	}
	for i := range what.Operations {
		doc.AddOperation(d.operation(&what.Operations[i]))
	}
	doc.Extensions = map[string]any{"x-tagGroups": tagGroups(doc, what.Tags), "x-problems": what.Problems}
	for _, k := range what.Problems {
		status := strconv.Itoa(k.Status)
		if k.Unlisted {
			continue
		}
		r := doc.Components.Responses[problemResponse(status)]
		if r == nil {
			r = d.content("application/problem+json", what.Problem)
			doc.Components.Responses[problemResponse(status)] = r
			if k.Later {
				r.Headers = map[string]*huma.Param{"Retry-After": header("seconds after which to repeat the request")}
			}
		} else {
			r.Description += "; "
		}
		r.Description += k.Code + ": " + strings.ToLower(k.Title[:1]) + k.Title[1:]
	}
	// A field that is added to an answer later must not make it invalid for callers that check answers
	// against this document.
	for name, s := range d.registry.Map() {
		if !d.taken[schemaPrefix+name] && s.AdditionalProperties == false {
			s.AdditionalProperties = nil
		}
	}
	return doc
}

// tagGroups adds the tags to the document, and returns them in groups.
func tagGroups(doc *huma.OpenAPI, tags []Tag) (groups []map[string]any) {
	for _, t := range tags {
		doc.Tags = append(doc.Tags, &huma.Tag{Name: t.Name, Description: t.About})
		if t.Head != "" {
			groups = append(groups, map[string]any{"name": t.Head, "tags": []string(nil)})
		}
		last := groups[len(groups)-1]
		last["tags"] = append(last["tags"].([]string), t.Name)
	}
	return groups
}

// NamedPolicy is the schema of a policy with its name. head is the type of the fields that are no
// rules.
func NamedPolicy(r huma.Registry, head reflect.Type) *huma.Schema {
	return named(r, "NamedPolicy", func() *huma.Schema {
		s := (&describer{registry: r}).object(head, answered)
		for name, property := range policyProperties() {
			if name != "name" && name != "preset" {
				s.Properties[name] = property
			}
		}
		return s
	})
}
