package api

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/internal/tell/statuspage"
)

// serviceTag marks the routes that are for operating the server.
const serviceTag = "Service"

// metricsPath needs no key if the operator says so.
const metricsPath = "/metrics"

func serviceRoutes() []route {
	return []route{
		{method: "GET", path: "/livez", open: anybody, handle: (*api).livez,
			name: "livez", tag: serviceTag, summary: "Is the process alive?", gives: map[int]any{200: serviceView{}}},
		{method: "GET", path: "/readyz", open: anybody, handle: readyz,
			name: "readyz", tag: serviceTag, summary: "Does it accept events?",
			about: "503 if not: the disk is full, the database is unreachable, or the server starts or stops.",
			gives: map[int]any{200: serviceView{}}},
		{method: "GET", path: "/status", open: anybody, handle: status,
			name: "status", tag: serviceTag, summary: "The public status page", about: "As of the last half minute, from memory: shares and times, nothing of a tenant. JSON with Accept: application/json, and at /status.json.",
			gives: map[int]any{200: statusPages{}, 304: nil}},
		{method: "GET", path: "/status.json", open: anybody, handle: status,
			name: "status-json", tag: serviceTag, summary: "The status page for programs", gives: map[int]any{200: statuspage.Page{}, 304: nil}},
		{method: "GET", path: "/status.rss", open: anybody, handle: status,
			name: "status-rss", tag: serviceTag, summary: "Incidents and maintenance as a feed",
			gives: map[int]any{200: texts{"application/rss+xml": ""}, 304: nil}},
		{method: "GET", path: "/status.svg", open: anybody, handle: status,
			name: "status-badge", tag: serviceTag, summary: "The state as a small picture",
			gives: map[int]any{200: texts{"image/svg+xml": ""}, 304: nil}},
		{method: "GET", path: metricsPath, scope: grapnel.ScopeRead, handle: metrics,
			bound: grapnel.Errorf(codeForbidden, "Metrics cover all tenants; use an API key that is not bound to one."),
			name:  "metrics", tag: serviceTag, summary: "Prometheus metrics",
			about: "Needs a key with the scope read that is bound to no tenant, unless the server runs with --metrics-open.",
			gives: map[int]any{200: texts{"text/plain": ""}}},
		{method: "GET", path: "/openapi.json", open: anybody, handle: openAPI,
			name: "openapi", tag: serviceTag, summary: "This document", gives: map[int]any{200: anything{}}},
	}
}

// serviceView says that the server is there.
type serviceView struct {
	Status  string `json:"status" enum:"ok,unavailable"`
	Version string `json:"version"`
}

// Bodies that have no schema of their own.
type (
	anything struct{}
	rawBody  struct{}
)

func (a *api) livez(*call) (answer, error) {
	return jsonAnswer(http.StatusOK, serviceView{"ok", grapnel.Version}), nil
}

// Plainly says to the public whether events are accepted. Of the reason it tells the kind, by its
// code, and never its text.
func Plainly(why error) string {
	switch {
	case why == nil:
		return "New events are accepted and delivered."
	case grapnel.CodeOf(why) == grapnel.CodeStorageFull:
		return "New events are refused because the storage is full. Those accepted before are stored and delivered."
	default:
		return "New events are refused: the server starts or stops, or cannot reach its database. Those accepted before are stored."
	}
}

// readyz answers by itself instead of with an error: errors of 500 and above are logged, and this
// is asked all the time.
func readyz(a *api, c *call) (answer, error) {
	var why error
	if a.Ready != nil {
		why = a.Ready()
	}
	if why == nil {
		return a.livez(c)
	}
	p := c.problem(grapnel.Errorf(grapnel.CodeUnavailable, "%s", Plainly(why)))
	return answer{status: p.Status, body: encode(p), retryAfter: 1}, nil
}

// status is the page as it was drawn last: no request reads a store.
func status(a *api, _ *call) (answer, error) {
	if a.Status == nil {
		return answer{}, grapnel.Errorf(grapnel.CodeNotFound, "This server has no status page.")
	}
	return answer{instead: a.Status}, nil
}

func metrics(a *api, _ *call) (answer, error) {
	if a.Metrics == nil {
		return answer{status: http.StatusOK, contentType: "text/plain; charset=utf-8"}, nil
	}
	return answer{instead: a.Metrics}, nil
}

// openAPI names the server by the path, or the address, that clients have to put before the paths
// of the document.
func openAPI(a *api, c *call) (answer, error) {
	doc := a.document()
	if root := a.links.root(c.Request); root != "" {
		doc = bytes.Replace(doc, []byte(openapi.Server), []byte(`"url": `+strconv.Quote(root)), 1)
	}
	return answer{status: http.StatusOK, body: doc}, nil
}

// statusPages is an answer as JSON or HTML.
type statusPages struct{}

// Contents is JSON, or a page for browsers.
func (statusPages) Contents(schema func(any) *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{grapnel.JSONType: {Schema: schema(statuspage.Page{})}, "text/html": openapi.Text("")}
}
