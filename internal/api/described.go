package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/openapi"
	"github.com/grapnelhq/grapnel/wire"
)

// describeAPI is what the document and the manual are made of.
func describeAPI(routes []route, b *Bounds) *openapi.Description {
	what := &openapi.Description{Tags: tags, Problem: Problem{}, Forms: forms}
	for i := range routes {
		what.Operations = append(what.Operations, routes[i].operation(b))
	}
	for _, k := range kinds {
		what.Problems = append(what.Problems, openapi.Problem{Code: string(k.code), Title: k.title, Hint: k.hint, Status: k.status,
			Unlisted: k.code == codeMethod})
	}
	return what
}

// operation is the route as the document describes it.
func (rt *route) operation(b *Bounds) openapi.Operation {
	op := openapi.Operation{Method: rt.method, Path: rt.path, Also: rt.paths()[1:], Scope: rt.scope, Bare: rt.bare != nil, Name: rt.name,
		Tag: rt.tag, Summary: rt.summary, About: rt.about, Takes: rt.takes, Gives: rt.gives}
	for _, p := range rt.query {
		op.Query = append(op.Query, openapi.Parameter{Name: p.name, Doc: p.doc, Form: p.looks(b), Required: p.required, Repeat: p.repeat})
	}
	if rt.method == http.MethodPost && rt.bare == nil && rt.scope != grapnel.ScopeRead {
		op.Headers = []openapi.Parameter{{Name: idempotencyHeader, Doc: "makes repeating the request safe", Form: forms["idempotency"]}}
	}
	if rt.body != nil {
		op.Body = &openapi.Body{Types: rt.body.types, Optional: rt.body.optional}
	}
	return op
}

// tags say what the routes of each kind are about.
var tags = map[string]string{
	"Events":       "Publish events, and read those that were published.",
	"Endpoints":    "Where events are delivered by HTTP.",
	"Deliveries":   "One event for one endpoint, with its attempts.",
	"Dead letters": "Deliveries that failed.",
	"Replays":      "Durable jobs that deliver again.",
	"Queues":       "Where consumers lease events instead of being sent them.",
	sourceTag:      "Where webhooks of providers come in.",
	"Statistics":   "Counts by hour and day.",
	"Policies":     "How attempts are spaced and what their outcomes mean.",
	"Keys":         "API keys and their scopes.",
	"Tenants":      "In which cell each tenant is.",
	"Audit":        "Who did what.",
	serviceTag:     "Operating the server.",
}

// htmlAnswer answers with a page that may use its own style and nothing else.
func htmlAnswer(page []byte) answer {
	sum := sha256.Sum256([]byte(openapi.Style()))
	return answer{
		status: http.StatusOK, body: page, contentType: "text/html; charset=utf-8",
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
	}
}

// Answers that are not simply the JSON of a type.
type (
	plainText   struct{}
	webPage     struct{}
	statusPages struct{} // as JSON or HTML
	exported    struct{} // a Delivery a line, or a row
	streamed    struct{} // server-sent events, each a Message
	handedOut   struct{} // one message as it is, or a MessageList
)

func text(doc string) *huma.MediaType {
	return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: doc}}
}

// Contents is text.
func (plainText) Contents(func(any) *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"text/plain": text("")}
}

// Contents is a page.
func (webPage) Contents(func(any) *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"text/html": text("")}
}

// Contents is JSON, or a page for browsers.
func (statusPages) Contents(schema func(any) *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{grapnel.JSONType: {Schema: schema(statusView{})}, "text/html": text("")}
}

// Contents is one of two forms.
func (exported) Contents(func(any) *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{openapi.TypeNDJSON: text("one Delivery per line"),
		"text/csv": text("one delivery per row, under a row of names")}
}

// Contents is a stream.
func (streamed) Contents(func(any) *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{typeEvents: text("the data of each event is a Message")}
}

// Contents is a list of messages, or the data of one.
func (handedOut) Contents(schema func(any) *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{
		grapnel.JSONType: {Schema: &huma.Schema{AnyOf: []*huma.Schema{schema(messageList{}),
			{Description: "one message: its data, if they are JSON"}}}},
		"*/*": {Schema: &huma.Schema{Description: "one message: its data as they were sent"}},
	}
}

// The bodies that package policy reads.
type (
	newPolicy   struct{} // creates a policy
	policyPatch struct{} // changes a policy
	newScenario struct{} // asks for a simulation
)

// Schema is that of a policy that has to have a name.
func (newPolicy) Schema(r huma.Registry) *huma.Schema {
	return openapi.NewPolicySchema(r, forms["id"], forms["tenant"])
}

// Schema is that of a policy of which all may be left out.
func (policyPatch) Schema(r huma.Registry) *huma.Schema {
	return openapi.PolicyPatchSchema(r, forms["id"])
}

// Schema is that of an outage and its load.
func (newScenario) Schema(r huma.Registry) *huma.Schema { return openapi.ScenarioSchema(r) }

// Schema is that of a policy with its name.
func (policyView) Schema(r huma.Registry) *huma.Schema {
	return openapi.NamedPolicy(r, reflect.TypeFor[wire.Policy]())
}
