package api

import (
	_ "embed"
	"encoding/json"
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
)

// describeAPI is what the document is made of.
func describeAPI(routes []route, b *Bounds) *openapi.Description {
	what := &openapi.Description{Tags: tags, Problem: Problem{}, Forms: forms}
	shown := examples()
	for i := range routes {
		op := routes[i].operation(b)
		op.Example = shown[op.Name]
		what.Operations = append(what.Operations, op)
	}
	for _, k := range kinds {
		what.Problems = append(what.Problems, openapi.Problem{Code: string(k.code), Title: k.title, Hint: k.hint, Status: k.status,
			Later: k.later, Unlisted: k.code == codeMethod})
	}
	return what
}

// operation is the route as the document describes it.
func (rt *route) operation(b *Bounds) openapi.Operation {
	op := openapi.Operation{Method: rt.method, Path: rt.path, Also: rt.paths()[1:], Scope: rt.scope, Bare: rt.bare != nil, Name: rt.name,

		Tag: rt.tag, Summary: rt.summary, About: rt.about, Takes: rt.takes, Gives: rt.gives,
		Metered: rt.scope == grapnel.ScopePublish && rt.bare == nil}
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

// tags say what the routes of each kind are about, in the order in which a reader meets them.
var tags = []openapi.Tag{
	{Name: "Endpoints", About: "URLs that get deliveries over HTTP.", Head: "Sending"},
	{Name: "Events", About: "Publish and read events."},
	{Name: "Deliveries", About: "One event for one endpoint, with its attempts."},
	{Name: "Dead letters", About: "Failed deliveries."},
	{Name: replayTag, About: "Durable jobs that redeliver finished deliveries."},
	{Name: "Issues", About: "Failures that look alike, as one thing to work on.", Head: "Trouble"},
	{Name: "Alerts", About: "Rules that tell people, and the alerts they have made."},
	{Name: "Channels", About: "Slack, e-mail and other services that alerts go to."},
	{Name: "Contacts", About: "Addresses and chats of customers, which are told when their endpoints fail."},
	{Name: "Statistics", About: "Counts by hour and day."},
	{Name: sourceTag, About: "Addresses that receive webhooks.", Head: "Receiving"},
	{Name: "Queues", About: "Endpoints from which consumers lease messages."},
	{Name: "Event types", About: "The catalogue of event types, with the schemas of their data.", Head: "Design"},
	{Name: "Policies", About: "Schedules of attempts and the meaning of their outcomes."},
	{Name: "Keys", About: "API keys and their scopes.", Head: "Server"},
	{Name: tenantTag, About: "Tenants that have anything."},
	{Name: portalTag, About: "Links for a tenant's own people, to manage its endpoints."},
	{Name: erasureTag, About: "Durable jobs that erase the content of events."},
	{Name: "Audit", About: "Actions of operators and of the server."},
	{Name: promiseTag, About: "How the server keeps its promises, and what its status page says."},
	{Name: serviceTag, About: "Operating the server."},
}

// exampleText has a request and its answers for each operation. The answers are those of the
// handlers: TestGoldenExamples asks them, and writes the file anew with -update.
//
//go:embed examples.json
var exampleText []byte

func examples() (all map[string]openapi.Example) {
	if err := json.Unmarshal(exampleText, &all); err != nil {
		panic("api: the examples are no JSON: " + err.Error())
	}
	return all
}
