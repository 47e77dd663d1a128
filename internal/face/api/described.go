package api

import (
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
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
	if rt.method == http.MethodPost && rt.bare == nil && rt.open == nil && rt.scope != grapnel.ScopeRead {
		op.Headers = []openapi.Parameter{{Name: idempotencyHeader, Doc: "repeating the request with the same key does it once", Form: forms["idempotency"]}}
	}
	if rt.body != nil {
		op.Body = &openapi.Body{Types: rt.body.types, Optional: rt.body.optional}
	}
	return op
}

// tags say what the routes of each kind are about.
var tags = map[string]string{
	"Events":       "Publish and read events.",
	"Endpoints":    "URLs that get deliveries over HTTP.",
	"Deliveries":   "One event for one endpoint, with its attempts.",
	"Dead letters": "Failed deliveries.",
	replayTag:      "Durable jobs that redeliver finished deliveries.",
	"Channels":     "Slack, e-mail and other services that alerts go to.",
	"Queues":       "Endpoints from which consumers lease messages.",
	sourceTag:      "Addresses that receive webhooks.",
	"Statistics":   "Counts by hour and day.",
	"Alerts":       "Rules that tell people, and the alerts they have made.",
	"Event types":  "The catalogue of event types, with the schemas of their data.",
	"Issues":       "Failures that look alike, as one thing to work on.",
	"Promises":     "How the server keeps its promises, and what its status page says.",
	"Policies":     "Schedules of attempts and the meaning of their outcomes.",
	"Keys":         "API keys and their scopes.",
	tenantTag:      "Tenants that have anything.",
	portalTag:      "Links for a tenant's own people, to manage its endpoints.",
	"Audit":        "Actions of operators and of the server.",
	serviceTag:     "Operating the server.",
}
