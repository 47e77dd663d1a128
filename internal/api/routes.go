package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// route is one thing that can be asked for. The multiplexer, the OpenAPI document and the tests of keys and tenants are all made from the
// same list of them.
type route struct {
	method string
	path   string
	also   []string                 // other paths where the same is found
	scope  grapnel.Scope            // what the key must be allowed
	open   func(*http.Request) bool // who needs no key; nil: nobody
	query  []param
	body   *intake
	handle func(*api, *call) (answer, error)
	bare   func(*api, http.ResponseWriter, *call) // instead of handle: gets the request as it came, before anything is checked or read

	name    string // the operation's id
	tag     string
	summary string
	about   string
	takes   any         // a value of the body's type, for the document
	gives   map[int]any // a value of the answer's type, by status; nil: no body
}

// routes lists everything. The order is that of the manual.
func routes() []route {
	return slices.Concat(eventRoutes(), endpointRoutes(), leverRoutes(), laneRoutes(), deliveryRoutes(), deadLetterRoutes(), exportRoutes(),
		replayRoutes(), queueRoutes(), leaseRoutes(), sourceRoutes(), inboxRoutes(), statsRoutes(), policyRoutes(), keyRoutes(),
		tenantRoutes(), auditRoutes(), clusterRoutes(), serviceRoutes())
}

// otherHomes are where endpoints are found as well, for programs written against other names.
var otherHomes = []string{"/v1/webhook-endpoints", "/v1/admin/webhook-endpoints"}

// paths are all paths of a route.
func (rt *route) paths() []string {
	all := append([]string{rt.path}, rt.also...)
	if rest, ok := strings.CutPrefix(rt.path, "/v1/endpoints"); ok {
		for _, home := range otherHomes {
			all = append(all, home+rest)
		}
	}
	return all
}

// mux makes the multiplexer. What no route takes ends at a last one, which knows the difference between a path that does not exist
// and a method that a path does not have.
func (a *api) mux() *http.ServeMux {
	mux := http.NewServeMux()
	taken, refused := map[string]bool{}, map[string]bool{} // patterns
	for i := range a.routes {
		rt := &a.routes[i]
		for _, path := range rt.paths() {
			taken[rt.method+" "+path] = true
			mux.HandleFunc(rt.method+" "+path, a.enter(rt))
		}
	}
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete}
	none := a.enter(&route{path: "/", open: anybody, handle: func(_ *api, c *call) (answer, error) {
		for _, method := range methods {
			try := c.Request.Clone(c.Context())
			try.Method = method
			if _, pattern := mux.Handler(try); taken[pattern] {
				c.allow = append(c.allow, method)
			}
		}
		if len(c.allow) > 0 {
			return answer{}, grapnel.Errorf(codeMethod, "%s is not possible here; %s is.", c.Method, strings.Join(c.allow, ", "))
		}
		return answer{}, grapnel.Errorf(grapnel.CodeNotFound, "There is nothing at %s.", c.URL.Path)
	}})
	mux.HandleFunc("/", none)
	// A path without variables has the methods of its own routes, and not those of a route such as
	// /v1/events/{id} that it matches as well.
	for pattern := range taken {
		_, path, _ := strings.Cut(pattern, " ")
		for _, method := range methods {
			own := taken[method+" "+path] || method == http.MethodHead && taken[http.MethodGet+" "+path]
			if strings.Contains(path, "{") || own || refused[method+" "+path] {
				continue
			}
			refused[method+" "+path] = true
			mux.HandleFunc(method+" "+path, none)
		}
	}
	return mux
}
