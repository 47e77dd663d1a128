package api

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/allowance"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/store"
)

// New makes the handler of the whole API.
func New(o Options) http.Handler {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.CheckURL == nil {
		o.CheckURL = func(url string) error { return egress.CheckURL(url, egress.URLRules{HTTPSOnly: o.HTTPSOnly}) }
	}
	if o.CheckChannel == nil {
		o.CheckChannel = func(t *channels.Target) error { return egress.CheckChannel(t, egress.URLRules{HTTPSOnly: o.HTTPSOnly}) }
	}
	if o.CheckBroker == nil {
		o.CheckBroker = func(t *grapnel.Target) (brokers.Place, []*brokers.Fault) {
			return egress.CheckBroker(t, egress.URLRules{HTTPSOnly: o.HTTPSOnly})
		}
	}
	if o.CheckTarget == nil {
		o.CheckTarget = func(t *grapnel.Target) (brokers.Place, []*brokers.Fault) {
			return egress.CheckTarget(t, egress.URLRules{HTTPSOnly: o.HTTPSOnly})
		}
	}
	if o.CheckHeaders == nil {
		o.CheckHeaders = egress.CheckHeaders
	}
	if o.Keep == nil {
		o.Keep = func() store.Keep { return store.Keep{} }
	}
	o.MaxEvent, o.MaxAhead = cmp.Or(o.MaxEvent, DefaultMaxEvent), cmp.Or(o.MaxAhead, DefaultMaxAhead)
	history := limitedHistory{o.History}
	o.History, o.Engine = history, limitedEngine{o.Engine, history}
	if o.Replays != nil {
		o.Replays = limitedReplays{o.Replays}
	}
	o.Bounds = bounds.Fill(o.Bounds)
	if o.Gate == nil {
		o.Gate = NewGate(o.Bounds)
	}
	a := &api{Options: o, links: newLinks(o.PublicURL, o.Proxies), routes: routes(), cursors: newCursors(o.Engine.IDs()),
		linked:      allowance.New(time.Duration(o.Bounds.LinkBurst)*o.Bounds.LinkPause, mostInDebt),
		simulations: make(chan struct{}, o.Bounds.Simulations), explanations: make(chan struct{}, o.Bounds.Explanations)}
	for i := range a.routes {
		switch rt := &a.routes[i]; {
		case o.MetricsOpen && rt.path == metricsPath:
			rt.open = anybody
		case rt.tag == replayTag && o.Replays == nil:
			rt.handle = func(*api, *call) (answer, error) {
				return answer{}, grapnel.Errorf(grapnel.CodeUnavailable, "This server has no %s.", strings.ToLower(rt.tag))
			}
		}
	}
	checkForms(a.routes)
	a.document = sync.OnceValue(func() []byte { return openapi.Encode(openapi.Document(describeAPI(a.routes, &a.Bounds))) })
	return a.mux()
}

// checkForms panics if a body or a parameter of a route names an unknown form: it would take any
// text.
func checkForms(routes []route) {
	for i := range routes {
		rt := &routes[i]
		if rt.takes != nil {
			forms.Check(reflect.TypeOf(rt.takes))
		}
		for _, p := range rt.query {
			if _, known := forms[p.form]; !known {
				panic(fmt.Sprintf("form %q of ?%s at %s %s is unknown", p.form, p.name, rt.method, rt.path))
			}
		}
	}
}

// routes lists everything. The order within a tag is that of the reference.
func routes() []route {
	return slices.Concat(
		eventRoutes(), duplicateRoutes(), previewRoutes(), endpointRoutes(), rotationRoutes(), jwksRoutes(), testRoutes(), pauseRoutes(), consentRoutes(), laneRoutes(),
		deliveryRoutes(), feedRoutes(), retryAllRoutes(), meaningRoutes(), signatureRoutes(), deadLetterRoutes(), exportRoutes(), replayRoutes(),
		channelRoutes(), contactRoutes(), queueRoutes(), leaseRoutes(), streamRoutes(), messageRoutes(), settlementRoutes(),
		sourceRoutes(), sourceRotationRoutes(), ingestRoutes(), inboxRoutes(),
		statsRoutes(), overviewRoutes(), policyRoutes(), eventTypeRoutes(), typeVersionRoutes(), simulationRoutes(),
		causeRoutes(), issueRoutes(), alertRoutes(), keyRoutes(), masterKeyRoutes(), endingRoutes(), tenantRoutes(), erasureRoutes(), portalRoutes(), auditRoutes(),
		clusterRoutes(), settingsRoutes(), promiseRoutes(), incidentRoutes(), serviceRoutes(),
	)
}

// mux makes the multiplexer. What no route takes ends at a last one, which knows the difference
// between a path that does not exist and a method that a path does not have.
func (a *api) mux() *multiplexer {
	mux := &multiplexer{ServeMux: http.NewServeMux(), posts: map[string]http.Handler{}}
	taken, refused := map[string]bool{}, map[string]bool{} // patterns
	for i := range a.routes {
		rt := &a.routes[i]
		for _, path := range rt.paths() {
			taken[rt.method+" "+path] = true
			enter := a.enter(rt)
			mux.HandleFunc(rt.method+" "+path, enter)
			if rt.method == http.MethodPost && !strings.Contains(path, "{") {
				mux.posts[path] = enter
			}
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
			return answer{}, grapnel.Errorf(codeMethod, "%s is not allowed here; use %s.", c.Method, strings.Join(c.allow, ", "))
		}
		return answer{}, grapnel.Errorf(grapnel.CodeNotFound, "Nothing is at %s.", c.URL.Path)
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

// multiplexer finds the route of a POST to a path without variables by the path alone. Publishers
// make most requests, and the search of http.ServeMux allocates memory for each.
type multiplexer struct {
	*http.ServeMux
	posts map[string]http.Handler // by path
}

func (m *multiplexer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if post := m.posts[r.URL.Path]; post != nil && r.Method == http.MethodPost {
		post.ServeHTTP(w, r)
		return
	}
	m.ServeMux.ServeHTTP(w, r)
}
