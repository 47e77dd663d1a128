package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/transform"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/sign"
	"github.com/grapnelhq/grapnel/wire"
)

func previewRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/events/preview", scope: grapnel.ScopeManage, handle: preview,
			name: "preview-event", tag: "Events", summary: "Show who would get an event, without publishing it",
			about: "The body is that of publishing, and is refused as publishing would refuse it. The answer says of each endpoint of the tenant " +
				"whether it would get the event, and why or why not. With ?endpoint it has the request as that endpoint would get it, " +
				"signed with its secrets. Nothing is stored and nothing is sent. Only a few previews run at once; others get 503.",
			query: []param{{name: "endpoint", doc: "the endpoint whose request is shown"}},
			body:  &intake{types: []string{grapnel.JSONType}, limit: perEvent, deep: true},
			takes: wire.NewEvent{}, gives: map[int]any{200: wire.Preview{}}},
	}
}

// preview says what publishing would do. It compiles and runs the filters of the tenant anew, so
// few previews run at once, and each looks at a bounded number of endpoints.
func preview(a *api, c *call) (answer, error) {
	var f strict.Faults
	d := readDraft(c.body, strict.Document(c.body), "/", &f)
	if err := a.tooMuchData(d.data); err != nil {
		return answer{}, err
	}
	in := a.event(c, &d, "/", &f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	if err := a.checked(c, []store.Incoming{in}, d.id.given, "/", &f); err != nil {
		return answer{}, err
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	ev := in.Event
	ev.AcceptedAt = c.now
	if ev.OccurredAt.IsZero() {
		ev.OccurredAt = c.now
	}
	scope := store.Of(ev.Tenant)
	var named grapnel.Endpoint
	if id := c.query.text("endpoint"); id != "" {
		var ok bool
		if named, ok = a.Engine.Endpoint(scope, id); !ok || !named.Receives() {
			return answer{}, grapnel.Invalid("?endpoint", "endpoint not found")
		}
	}
	release, err := slot(a.simulations, "Other previews and simulations are running.")
	if err != nil {
		return answer{}, err
	}
	defer release()
	all := slices.DeleteFunc(slices.Clone(a.Engine.Endpoints(scope)), func(ep grapnel.Endpoint) bool { return ep.Channel != nil })
	out := wire.Preview{More: len(all) > a.Bounds.PreviewEndpoints, Endpoints: []wire.PreviewEndpoint{}}
	all = all[:min(len(all), a.Bounds.PreviewEndpoints)]
	if named.ID != "" && !slices.ContainsFunc(all, func(ep grapnel.Endpoint) bool { return ep.ID == named.ID }) {
		all = append(all, named)
	}
	router, _ := match.NewRouter(all) // Explain says which filters do not compile
	verdicts := map[string]match.Verdict{}
	for _, v := range router.Explain(ev) {
		verdicts[v.Endpoint.ID] = v
	}
	for i := range all {
		ep := &all[i]
		one := wire.PreviewEndpoint{ID: ep.ID, Name: ep.Description}
		if ep.Queue != nil {
			one.Name = ep.Queue.Name
		}
		v, subscribes := verdicts[ep.ID]
		one.Wanted, one.Reason = v.Wanted, previewReason(ep, v, subscribes)
		out.Endpoints = append(out.Endpoints, one)
	}
	if named.ID != "" {
		out.Request, err = previewRequest(&named, ev, c, a.Transform)
	}
	return result(out, err)
}

// previewReason says why an endpoint would get an event, or why not.
func previewReason(ep *grapnel.Endpoint, v match.Verdict, subscribes bool) string {
	switch {
	case !subscribes:
		return "It wants " + strings.Join(ep.EventTypes, ", ") + "."
	case !v.Wanted:
		return strings.ToUpper(v.Reason[:1]) + v.Reason[1:] + "."
	case ep.Status == grapnel.EndpointDisabled:
		return "It wants the event. It is disabled, so its policy holds the delivery or drops it."
	case ep.Status == grapnel.EndpointPaused:
		return "It wants the event. It is paused, so the delivery is held."
	case ep.Filter != "":
		return "Its event types and its filter match."
	case len(ep.EventTypes) == 0:
		return "It wants every type."
	}
	return "Its event types match."
}

// previewRequest is the request that an endpoint would get for an event.
func previewRequest(ep *grapnel.Endpoint, ev *grapnel.Event, c *call, b transform.Bounds) (*wire.PreviewRequest, error) {
	header, body, err := egress.Preview(ep, ev, "Grapnel/"+grapnel.Version, c.now, b)
	if err != nil {
		return nil, grapnel.Invalid("?endpoint", "the endpoint would get no request: %s", err)
	}
	rq := &wire.PreviewRequest{Method: http.MethodPost, URL: c.address(ep.URL), Headers: map[string]string{},
		Body: strings.ToValidUTF8(string(body), "\ufffd")}
	for name := range header {
		rq.Headers[strings.ToLower(name)] = header.Get(name)
	}
	rq.Signed = header.Get(sign.HeaderID) + "." + header.Get(sign.HeaderTimestamp) + "." + rq.Body
	return rq, nil
}
