package openapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
)

// documentVersion is the version of the API, not of the server.
const documentVersion = "1.0.0"

const documentAbout = `Events go in, deliveries come out at endpoints.

Times are RFC 3339 in UTC with microseconds; durations are strings such as 1h30m or 30d. Every error is application/problem+json with a code,
and with the fields at fault in errors. Lists take limit and cursor and answer {"data":[…],"next":"cursor or null"}.

A POST may carry an Idempotency-Key: for 48 hours the same request with the same key gets the same answer, with
Idempotency-Replayed: true; another request with that key gets 422, one that comes while the first is worked on 409.

Every answer has X-Request-Id. What belongs to another tenant looks like what does not exist.`

// Server is the server in an encoded document: its own root.
const Server = `"url": "/"`

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
		Webhooks: map[string]*huma.PathItem{"delivery": {Post: delivery()}},
	}
	for i := range what.Operations {
		op := &what.Operations[i]
		if !slices.ContainsFunc(doc.Tags, func(t *huma.Tag) bool { return t.Name == op.Tag }) {
			doc.Tags = append(doc.Tags, &huma.Tag{Name: op.Tag, Description: what.Tags[op.Tag]})
		}
		doc.AddOperation(d.operation(op))
	}
	for _, k := range what.Problems {
		status := strconv.Itoa(k.Status)
		if k.Unlisted {
			continue
		}
		r := doc.Components.Responses[problemResponse(status)]
		if r == nil {
			r = d.content("application/problem+json", what.Problem)
			doc.Components.Responses[problemResponse(status)] = r
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

// Encode writes the document for people as well as programs.
func Encode(doc *huma.OpenAPI) []byte {
	raw, err := json.Marshal(doc)
	if err != nil {
		panic("openapi: the document cannot be encoded: " + err.Error())
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		panic("openapi: the document is no JSON: " + err.Error())
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// schemaName is the type's name. It drops "View", which means nothing outside of the server. Types
// of the status page begin with Status, because the API has an incident and a promise of its own.
func schemaName(t reflect.Type, hint string) string {
	name := strings.ReplaceAll(huma.DefaultSchemaNamer(t, hint), "View", "")
	if path.Base(t.PkgPath()) == "statuspage" {
		name = "Status" + name
	}
	return name
}

func problemResponse(status string) string { return "Problem" + status }

// describer makes the document.
type describer struct {
	registry huma.Registry
	taken    map[string]bool         // references to schemas of bodies of requests
	types    map[string]reflect.Type // by the name of their schema
	forms    strict.Forms
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
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	for _, p := range o.Query {
		op.Parameters = append(op.Parameters, p.describe("query"))
	}
	for _, p := range o.Headers {
		op.Parameters = append(op.Parameters, p.describe("header"))
	}
	if o.Body != nil {
		op.RequestBody = d.body(o)
	}
	for status, v := range o.Gives {
		op.Responses[strconv.Itoa(status)] = d.response(status, v)
	}
	for _, status := range o.refusals() {
		op.Responses[status] = &huma.Response{Ref: "#/components/responses/" + problemResponse(status)}
	}
	return op
}

// refusals are the statuses of the problems that an operation can answer with.
func (o *Operation) refusals() []string {
	all := []string{"400", "422", "500", "503"}
	if o.Scope != "" {
		all = append(all, "401", "403", "429")
	}
	if o.Body != nil {
		all = append(all, "413", "415")
	}
	if strings.Contains(o.Path, "{") {
		all = append(all, "404", "410")
	}
	if o.Bare {
		all = append(all, "401", "408", "429", "431")
	}
	if o.Method != http.MethodGet {
		all = append(all, "409", "507")
	}
	return all
}

func (p *Parameter) describe(in string) *huma.Param {
	s := &huma.Schema{Type: huma.TypeString}
	describeForm(&p.Form, s)
	if s.Type == huma.TypeString && len(s.Enum) == 0 && s.MinLength == nil {
		least := 1
		s.MinLength = &least
	}
	if p.Repeat {
		s = &huma.Schema{Type: huma.TypeArray, Items: s}
	}
	return &huma.Param{Name: p.Name, In: in, Description: p.Doc, Required: p.Required, Schema: s}
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

// delivery describes what a receiver gets.
func delivery() *huma.Operation {
	op := &huma.Operation{
		OperationID: "delivery", Security: []map[string][]string{}, Summary: "A delivery as the receiver gets it",
		Description: "A POST with the event as JSON (format standard), as its data alone (raw), or as a CloudEvent in binary mode. " +
			"Only an answer of 2xx is success; redirects are not followed. The same event can come more than once, with the same webhook-id.",
		RequestBody: &huma.RequestBody{Content: map[string]*huma.MediaType{grapnel.JSONType: {Schema: Object(map[string]*huma.Schema{
			"id": {Type: huma.TypeString}, "type": {Type: huma.TypeString}, "timestamp": {Type: huma.TypeString, Format: "date-time"},
			"data":        {Description: "byte for byte as published"},
			"data_base64": {Type: huma.TypeString, ContentEncoding: "base64", Description: "instead of data, if that is not JSON"},
		}, "id", "type", "timestamp")}}},
		Responses: map[string]*huma.Response{"2XX": {Description: "the delivery is finished"},
			"default": {Description: "the policy decides what follows"}},
	}
	for _, h := range []struct{ name, doc string }{
		{"webhook-id", "the event's id, the same at every attempt and replay"},
		{"webhook-timestamp", "unix seconds of this attempt"},
		{"webhook-signature", "v1,<base64 HMAC-SHA256> or v1a,<base64 ed25519> over id.timestamp.body; " +
			"one for each live secret, separated by spaces"},
		{"grapnel-attempt", "1 for the first"},
		{"grapnel-delivery", "the delivery's id"},
		{"grapnel-hops", "through how many servers like this one it has come"},
		{"grapnel-sequence", "position in its lane"},
		{"grapnel-trigger", "schedule, manual, replay, probe or test"},
	} {
		op.Parameters = append(op.Parameters, &huma.Param{Name: h.name, In: "header", Description: h.doc,
			Schema: &huma.Schema{Type: huma.TypeString}})
	}
	return op
}
