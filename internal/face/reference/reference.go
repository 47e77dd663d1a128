package reference

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Reference is all pages.
type Reference struct {
	Menu       []Heading
	pages      map[string]*Page
	operations map[string]*Operation
}

// New makes the reference of an OpenAPI document.
func New(text []byte) (*Reference, error) {
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("reference: the document cannot be read: %w", err)
	}
	r := &Reference{pages: map[string]*Page{}, operations: map[string]*Operation{}}
	begin := Heading{Name: "Using the API"}
	for _, t := range texts() {
		begin.Pages = append(begin.Pages, r.add(t))
	}
	r.pages["problems"].Problems = doc.Problems
	webhooks := slices.Sorted(maps.Keys(doc.Webhooks))
	for _, name := range webhooks {
		page := r.pages["operational-events"]
		if name == "delivery" {
			page = r.pages["webhooks"]
		}
		page.Webhooks = append(page.Webhooks, webhook(name, doc.Webhooks[name]["post"]))
	}
	r.Menu = []Heading{begin}
	groups := grouped(&doc)
	for _, of := range doc.Tree {
		h := Heading{Name: of.Name}
		for _, tag := range of.Tags {
			h.Pages = append(h.Pages, r.add(&Page{Name: slug(tag), Title: tag, About: about(&doc, tag), Operations: groups[tag]}))
		}
		r.Menu = append(r.Menu, h)
	}
	for tag, all := range groups {
		for _, op := range all {
			op.Page, r.operations[op.ID] = slug(tag), op
		}
	}
	list := r.add(&Page{Name: "schemas", Title: "Schemas", About: "The types of requests and answers.", Schemas: schemas(&doc, groups)})
	for _, s := range list.Schemas {
		r.add(&Page{Name: "schemas/" + s.Name, Title: s.Name, About: s.About, Schema: s})
	}
	r.Menu = append(r.Menu, Heading{Name: "Types", Pages: []*Page{list}})
	return r, nil
}

func (r *Reference) add(p *Page) *Page {
	r.pages[p.Name] = p
	return p
}

// Page finds a page by its name.
func (r *Reference) Page(name string) (*Page, bool) {
	p, known := r.pages[name]
	return p, known
}

// Operation finds an operation by its id.
func (r *Reference) Operation(id string) (*Operation, bool) {
	op, known := r.operations[id]
	return op, known
}

func about(doc *document, tag string) string {
	for _, t := range doc.Tags {
		if t.Name == tag {
			return t.Description
		}
	}
	return ""
}

// grouped are the operations by tag. Those whose path has the tag's name come first, and of one
// path those that create something.
func grouped(doc *document) map[string][]*Operation {
	groups := map[string][]*Operation{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			for _, tag := range op.Tags {
				groups[tag] = append(groups[tag], described(doc, strings.ToUpper(method), path, &op))
			}
		}
	}
	order := []string{http.MethodPost, http.MethodGet, http.MethodPatch, http.MethodDelete}
	for tag, all := range groups {
		home := "/v1/" + slug(tag)
		rank := func(op *Operation) string {
			near := 1
			if op.Path == home || strings.HasPrefix(op.Path, home+"/") {
				near = 0
			}
			return fmt.Sprintf("%d%s\x00%d", near, strings.ReplaceAll(op.Path, "{", " "), slices.Index(order, op.Method))
		}
		slices.SortFunc(all, func(a, b *Operation) int { return strings.Compare(rank(a), rank(b)) })
	}
	return groups
}

// described is an operation as its page shows it.
func described(doc *document, method, path string, op *operation) *Operation {
	o := &Operation{ID: op.ID, Method: method, Path: path, Summary: op.Summary, About: op.Description, Scope: op.Scope, Also: op.Also,
		values: map[string]string{}}
	if o.About == o.Summary+"." {
		o.About = ""
	}
	for _, p := range op.Parameters {
		f := Field{Name: p.Name, In: p.In, Kind: kind(p.Schema), Limits: limits(p.Schema), About: p.Description, Required: p.Required}
		if many, is := p.Example.([]any); is && len(many) > 0 {
			p.Example = many[0]
		}
		if p.Example != nil {
			f.Example = fmt.Sprint(p.Example)
			o.values[f.Name] = f.Example
		}
		o.Fields = append(o.Fields, f)
	}
	if op.RequestBody != nil {
		o.takes(doc, op)
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		is := op.Responses[status]
		if is.Ref != "" {
			o.refuses(doc, status)
			continue
		}
		media, one := preferred(is.Content)
		o.Answers = append(o.Answers, Answer{Status: status, Kind: kind(one.Schema), Media: media, Text: readable(one.Example)})
		for _, name := range slices.Sorted(maps.Keys(is.Headers)) {
			if !slices.Contains(o.Rates, name) {
				o.Rates = append(o.Rates, name)
			}
		}
		o.Runs = o.Runs || method == http.MethodGet && media == "application/json" && op.Scope != "consume" && op.Scope != ""
	}
	return o
}

func (o *Operation) takes(doc *document, op *operation) {
	_, one := preferred(op.RequestBody.Content)
	o.Takes, o.Optional, o.Request = kind(one.Schema), !op.RequestBody.Required, readable(one.Example)
	o.Body = fields(doc.resolve(one.Schema), "", 1)
}

// Codes that only some operations answer with, of those with their status.
var (
	ofReceiving  = []string{"unverified", "request_timeout", "headers_too_large", "loop"}
	ofPublishing = []string{"too_many_types", "filters_too_costly", "schema_too_costly", "quota"}
	ofRepeating  = []string{"idempotency_in_flight", "idempotency_mismatch"}
)

// refuses adds the codes of a status.
func (o *Operation) refuses(doc *document, status string) {
	repeats := slices.ContainsFunc(o.Fields, func(f Field) bool { return f.Name == "Idempotency-Key" })
	r := Refusal{Status: status}
	for _, p := range doc.Problems {
		switch {
		case fmt.Sprint(p.Status) != status,
			slices.Contains(ofReceiving, p.Code) && o.Path != "/in/{source}",
			slices.Contains(ofPublishing, p.Code) && o.Method != http.MethodPost,
			slices.Contains(ofRepeating, p.Code) && !repeats:
		default:
			r.Codes = append(r.Codes, p.Code)
		}
	}
	o.Refusals = append(o.Refusals, r)
}

// preferred is JSON, or else the first content type.
func preferred(content map[string]media) (string, media) {
	if one, has := content["application/json"]; has {
		return "application/json", one
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		return name, content[name]
	}
	return "", media{}
}

// resolve follows a reference.
func (d *document) resolve(s *schema) *schema {
	if s != nil && s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, schemaPrefix)]
	}
	if s == nil {
		return &schema{}
	}
	return s
}

// webhook is a request that the server sends.
func webhook(name string, op operation) *Operation {
	o := described(&document{}, http.MethodPost, "", &op)
	o.ID = name
	return o
}

// schemas are all schemas, each with what uses it.
func schemas(doc *document, groups map[string][]*Operation) []*Schema {
	byName := map[string]*Schema{}
	for name, s := range doc.Components.Schemas {
		byName[name] = &Schema{Name: name, About: s.Description, Fields: fields(s, "", 0)}
		if len(s.Properties) == 0 {
			byName[name].Kind = kind(s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		doc.Components.Schemas[name].each(func(part string) {
			if s := byName[part]; s != nil && !slices.Contains(s.Within, name) {
				s.Within = append(s.Within, name)
			}
		})
	}
	for _, tag := range doc.Tags {
		for _, op := range groups[tag.Name] {
			op.uses(byName)
		}
	}
	all := slices.Collect(maps.Values(byName))
	slices.SortFunc(all, func(a, b *Schema) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// uses adds the operation to the schemas that it takes or gives. The first that takes one, or gives
// it, has the example of it.
func (o *Operation) uses(byName map[string]*Schema) {
	add := func(pieces []Piece, example string) {
		for _, p := range pieces {
			s := byName[p.Schema]
			if s == nil || slices.Contains(s.Operations, o) {
				continue
			}
			if s.Operations = append(s.Operations, o); s.Example == "" && len(pieces) == 1 {
				s.Example = example
			}
		}
	}
	add(o.Takes, o.Request)
	for _, a := range o.Answers {
		add(a.Kind, a.Text)
	}
}
