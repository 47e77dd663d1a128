package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// documentVersion is the version of the API, not of the server.
const documentVersion = "1.0.0"

const documentAbout = `Events go in, deliveries come out at endpoints.

Times are RFC 3339 in UTC with microseconds; durations are strings such as 1h30m or 30d. Every error is application/problem+json with a code,
and with the fields at fault in errors. Lists take limit and cursor and answer {"data":[…],"next":"cursor or null"}.

A POST may carry an Idempotency-Key: for 48 hours the same request with the same key gets the same answer, with
Idempotency-Replayed: true; another request with that key gets 422, one that comes while the first is worked on 409.

Every answer has X-Request-Id. What belongs to another tenant looks like what does not exist.

A server of several cells finds the one that a request is for. With a key that is bound to no tenant, Grapnel-Cell says which cell is to answer; lists for which no
tenant is named are of the first cell, home, if it says nothing.`

// document describes the routes as OpenAPI 3.1.
//
// huma makes schemas of Go types and writes the document. It does not route, decode or validate here: it reports a missing field at
// the object and not at the field, takes a field that is given twice, and encodes an answer after the handler, when ours may have to
// be stored in the transaction that it reports. decode reads the same tags instead.
func document(routes []route) *huma.OpenAPI {
	d := &describer{registry: huma.NewMapRegistry(schemaPrefix, schemaName), taken: map[string]bool{}}
	// Durations are written by their own method, which reflection does not see.
	d.registry.RegisterTypeAlias(reflect.TypeFor[policy.Duration](), reflect.TypeFor[span]())
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Servers: []*huma.Server{{URL: "/", Description: "the server that this document came from"}},
		Info:    &huma.Info{Title: "Grapnel", Version: documentVersion, Description: documentAbout},
		Components: &huma.Components{
			Schemas: d.registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"key": {Type: "http", Scheme: "bearer", Description: "an API key, grp_…; each operation names the scope that it needs"},
			},
			Responses: map[string]*huma.Response{},
		},
		Webhooks: map[string]*huma.PathItem{"delivery": {Post: delivery()}},
	}
	for i := range routes {
		rt := &routes[i]
		if !slices.ContainsFunc(doc.Tags, func(t *huma.Tag) bool { return t.Name == rt.tag }) {
			doc.Tags = append(doc.Tags, &huma.Tag{Name: rt.tag})
		}
		doc.AddOperation(d.operation(rt))
	}
	for _, k := range kinds {
		status := strconv.Itoa(k.status)
		r := doc.Components.Responses[problemResponse(status)]
		if r == nil {
			r = d.content("application/problem+json", Problem{})
			doc.Components.Responses[problemResponse(status)] = r
		} else {
			r.Description += "; "
		}
		r.Description += string(k.code) + ": " + strings.ToLower(k.title[:1]) + k.title[1:]
	}
	// What is added to an answer later must not make it invalid for those who check answers against this document.
	for name, s := range d.registry.Map() {
		if !d.taken[schemaPrefix+name] && s.AdditionalProperties == false {
			s.AdditionalProperties = nil
		}
	}
	return doc
}

// encodeDocument writes the document for people as well as programs.
func encodeDocument(doc *huma.OpenAPI) []byte {
	raw, err := json.Marshal(doc)
	if err != nil {
		panic("api: the document cannot be encoded: " + err.Error())
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		panic("api: the document is no JSON: " + err.Error())
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// schemaName drops what tells the types of this package from each other and means nothing outside.
func schemaName(t reflect.Type, hint string) string {
	return strings.ReplaceAll(huma.DefaultSchemaNamer(t, hint), "View", "")
}

func problemResponse(status string) string { return "Problem" + status }

// describer makes operations of routes.
type describer struct {
	registry huma.Registry
	taken    map[string]bool // references to schemas of what comes in
}

func (d *describer) operation(rt *route) *huma.Operation {
	op := &huma.Operation{
		Method: rt.method, Path: rt.path, OperationID: rt.name, Summary: rt.summary, Description: rt.about, Tags: []string{rt.tag},
		Responses: map[string]*huma.Response{}, Extensions: map[string]any{},
		Security: []map[string][]string{}, // empty: no key is needed
	}
	if rt.scope != "" {
		op.Security = []map[string][]string{{"key": {}}}
		op.Extensions["x-scope"] = string(rt.scope)
	}
	if also := rt.paths()[1:]; len(also) > 0 {
		op.Extensions["x-also-at"] = also
	}
	for rest := rt.path; strings.Contains(rest, "{"); {
		_, rest, _ = strings.Cut(rest, "{")
		name, _, _ := strings.Cut(rest, "}")
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	for _, p := range rt.query {
		op.Parameters = append(op.Parameters, p.describe())
	}
	if rt.method == http.MethodPost && rt.bare == nil && rt.scope != grapnel.ScopeRead {
		longest := longestIdempotent
		op.Parameters = append(op.Parameters, &huma.Param{Name: idempotencyHeader, In: "header",
			Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &longest}, Description: "makes repeating the request safe"})
	}
	if rt.body != nil {
		op.RequestBody = d.body(rt)
	}
	for status, v := range rt.gives {
		op.Responses[strconv.Itoa(status)] = d.response(status, v)
	}
	for _, status := range rt.refusals() {
		op.Responses[status] = &huma.Response{Ref: "#/components/responses/" + problemResponse(status)}
	}
	return op
}

// refusals are the statuses of the problems that a route can answer with.
func (rt *route) refusals() []string {
	all := []string{"400", "422", "500", "503"}
	if rt.scope != "" {
		all = append(all, "401", "403", "421", "429")
	}
	if rt.body != nil {
		all = append(all, "413", "415")
	}
	if strings.Contains(rt.path, "{") {
		all = append(all, "404")
	}
	if rt.bare != nil {
		all = append(all, "401", "408", "429", "431")
	}
	if rt.method != http.MethodGet {
		all = append(all, "409", "507")
	}
	return all
}

func (p *param) describe() *huma.Param {
	s := &huma.Schema{Type: huma.TypeString, Format: p.format}
	if p.format == "integer" {
		s = &huma.Schema{Type: huma.TypeInteger}
	}
	for _, v := range p.one {
		s.Enum = append(s.Enum, v)
	}
	if p.repeat {
		s = &huma.Schema{Type: huma.TypeArray, Items: s}
	}
	return &huma.Param{Name: p.name, In: "query", Description: p.doc, Required: p.required, Schema: s}
}

func (d *describer) body(rt *route) *huma.RequestBody {
	b := &huma.RequestBody{Required: !rt.body.optional, Content: map[string]*huma.MediaType{}}
	for _, media := range rt.body.types {
		switch {
		case media == typeNDJSON:
			b.Content[media] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: "one NewEvent per line"}}
		case slices.Contains(rt.body.types, typeMergePatch):
			b.Content[media] = &huma.MediaType{Schema: d.patch(rt)}
		default:
			b.Content[media] = &huma.MediaType{Schema: d.registry.Schema(reflect.TypeOf(rt.takes), true, "")}
		}
	}
	for _, content := range b.Content {
		d.take(content.Schema)
	}
	if len(rt.body.types) == 0 {
		b.Content["*/*"] = &huma.MediaType{Schema: &huma.Schema{Description: "any bytes"}}
	}
	return b
}

// patch is the schema of what a route takes with nothing required and everything nullable.
func (d *describer) patch(rt *route) *huma.Schema {
	name := strings.TrimSuffix(schemaName(reflect.TypeOf(rt.takes), ""), "Settings") + "Patch"
	return named(d.registry, strings.ReplaceAll(name, "PatchPatch", "Patch"), func() *huma.Schema {
		s := huma.SchemaFromType(d.registry, reflect.TypeOf(rt.takes))
		if s.Ref != "" {
			whole := *d.registry.SchemaFromRef(s.Ref)
			s = &whole
		}
		s.Required = nil
		properties := map[string]*huma.Schema{}
		for name, p := range s.Properties {
			q := *p
			if q.Nullable = q.Type != ""; !q.Nullable {
				q = huma.Schema{AnyOf: []*huma.Schema{p, {Type: "null"}}}
			}
			properties[name] = &q
		}
		s.Properties = properties
		return s
	})
}

// take notes which schemas describe what comes in.
func (d *describer) take(s *huma.Schema) {
	if s == nil {
		return
	}
	if s.Ref != "" && !d.taken[s.Ref] {
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

// response is an answer that is not a problem.
func (d *describer) response(status int, v any) *huma.Response {
	r := &huma.Response{}
	switch v.(type) {
	case nil:
	case plainText:
		r = &huma.Response{Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}}
	case webPage:
		r = &huma.Response{Content: map[string]*huma.MediaType{"text/html": {Schema: &huma.Schema{Type: huma.TypeString}}}}
	case exported:
		r = &huma.Response{Content: map[string]*huma.MediaType{
			typeNDJSON: {Schema: &huma.Schema{Type: huma.TypeString, Description: "one Delivery per line"}},
			"text/csv": {Schema: &huma.Schema{Type: huma.TypeString, Description: "one delivery per row, under a row of names"}},
		}}
	case streamed:
		r = &huma.Response{Content: map[string]*huma.MediaType{typeEvents: {Schema: &huma.Schema{Type: huma.TypeString, Description: "the data of each event is a Message"}}}}
	case handedOut:
		r = d.content(grapnel.JSONType, messageList{})
		content := r.Content[grapnel.JSONType]
		content.Schema = &huma.Schema{AnyOf: []*huma.Schema{content.Schema, {Description: "one message: its data, if they are JSON"}}}
		r.Content["*/*"] = &huma.MediaType{Schema: &huma.Schema{Description: "one message: its data as they were sent"}}
	default:
		r = d.content(grapnel.JSONType, v)
	}
	r.Description = http.StatusText(status)
	return r
}

func (d *describer) content(media string, v any) *huma.Response {
	return &huma.Response{Content: map[string]*huma.MediaType{media: {Schema: d.registry.Schema(reflect.TypeOf(v), true, "")}}}
}

// delivery describes what a receiver gets.
func delivery() *huma.Operation {
	op := &huma.Operation{
		OperationID: "delivery", Summary: "A delivery, as its receiver gets it",
		Description: "A POST with the event as JSON (format standard), as its data alone (raw), or as a CloudEvent in binary mode. Only an answer of " +
			"2xx is success; redirects are not followed. The same event can come more than once, with the same webhook-id.",
		RequestBody: &huma.RequestBody{Content: map[string]*huma.MediaType{grapnel.JSONType: {Schema: object(map[string]*huma.Schema{
			"id": {Type: huma.TypeString}, "type": {Type: huma.TypeString}, "timestamp": {Type: huma.TypeString, Format: "date-time"},
			"data":        {Description: "byte for byte as published"},
			"data_base64": {Type: huma.TypeString, ContentEncoding: "base64", Description: "instead of data, when that is not JSON"},
		}, "id", "type", "timestamp")}}},
		Responses: map[string]*huma.Response{"2XX": {Description: "the delivery is over"}, "default": {Description: "the policy decides what follows"}},
	}
	for _, h := range []struct{ name, doc string }{
		{"webhook-id", "the event's id, the same at every attempt and replay"},
		{"webhook-timestamp", "unix seconds of this attempt"},
		{"webhook-signature", "v1,<base64 HMAC-SHA256> or v1a,<base64 ed25519> over id.timestamp.body; one for each live secret, separated by spaces"},
		{"grapnel-attempt", "1 for the first"},
		{"grapnel-delivery", "the delivery's id"},
		{"grapnel-sequence", "its position in the line of its key"},
		{"grapnel-trigger", "schedule, manual, replay, probe or test"},
	} {
		op.Parameters = append(op.Parameters, &huma.Param{Name: h.name, In: "header", Description: h.doc, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	return op
}
