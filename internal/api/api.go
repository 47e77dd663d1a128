// Package api is the HTTP face: it takes events in, lets operators look and act, and describes itself.
//
// A request goes through the same stages whatever it asks for (see through in call.go): whose key is it, may the key do that, is the
// query known, is the body small and well-formed enough, was it asked before under the same idempotency key; then the route's own
// handler. All routes are data (routes.go). The multiplexer, the OpenAPI document, the list of allowed methods and the tests
// that try every route with every wrong key are made from the same table.
//
// What holds here:
//
//   - Nothing changes unless the whole request is good. Every error is an RFC 9457 problem that names the field at fault.
//   - What another tenant has looks exactly like what does not exist.
//   - A 2xx for an event is written after the engine has said that the event and all its deliveries are durable.
//   - The bytes of an event's data are kept as they came: they are found and bounded in the body, never decoded.
//   - An internal error is logged once, with the request's id, and shows nothing of itself to the caller.
//   - A key or secret is shown in the answer that made it and nowhere else; stored answers are sealed with the caller's key.
//
// What it does not promise: that a request whose answer was lost did not happen. Callers repeat it with the same
// Idempotency-Key or the same event id.
package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/openapi"
	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/egress"
	"github.com/grapnelhq/grapnel/internal/replay"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Options say what the API stands on. Engine, History and Idempotency are needed; every other zero value has a meaning.
type Options struct {
	Bounds      Bounds      // inside this room; zero: their defaults
	Engine      Engine      // the engine
	History     History     // what happened
	Idempotency Idempotency // answers given before

	Ingest       Ingest                        // takes in what is sent to sources; nil: nothing does
	Outboxes     Outboxes                      // how the relays of producers' outboxes are doing; nil: nobody knows
	Queues       Queues                        // hands out to consumers; nil: nothing does
	Replays      replay.Desk                   // delivers again; nil: nothing does
	Clock        func() time.Time              // nil: time.Now
	Random       io.Reader                     // for ids, keys and secrets; safe for concurrent use; nil: crypto/rand
	MaxEvent     int64                         // bytes of one event's data; 0: DefaultMaxEvent
	PublicURL    *url.URL                      // what links in answers begin with; nil: as the request says, and paths for sources
	Proxies      []netip.Prefix                // whose X-Forwarded-Proto, -Host and -Prefix are believed
	HTTPSOnly    bool                          // refuse endpoints with http:// URLs; for the CheckURL that stands in for none
	CheckURL     func(string) error            // may an endpoint have this URL; nil: as egress says with nothing allowed
	CheckHeaders func(map[string]string) error // may an endpoint send these headers; nil: as egress says
	Keep         store.Keep                    // how long what is over is kept, to say when a dead letter will be gone; zero: for ever
	Log          *slog.Logger                  // nil: nothing is logged
	Metrics      http.Handler                  // serves /metrics; nil: there are none
	MetricsOpen  bool                          // /metrics needs no key
	Ready        func() error                  // why /readyz should say no; nil: always ready

	Gate *Gate // shared by the APIs of all cells; nil: one of its own

	// Cluster says who shares the store; nil: nobody is known to.
	Cluster func(context.Context) (grapnel.Cluster, error)

	Cell    string             // the one that this is the face of; empty: grapnel.DefaultCell
	Away    func(string) error // the error for a tenant that is in another cell; "": for what is of none; nil: all are here
	Tenants Tenants            // where tenants are, and their moves; nil: nobody knows
}

// DefaultMaxEvent is the largest data of an event unless Options say otherwise.
const DefaultMaxEvent = 256 << 10

// api is what all handlers share. Nothing in it changes after New but the claims and streams.
type api struct {
	Options
	routes      []route
	links       links
	claims      claims
	streams     streams
	cursors     *cursors
	simulations chan struct{} // one for each that runs
	document    func() []byte // the OpenAPI document, made when it is first asked for
	manual      func() []byte // the same, for people
}

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
	if o.CheckHeaders == nil {
		o.CheckHeaders = egress.CheckHeaders
	}
	o.MaxEvent = cmp.Or(o.MaxEvent, DefaultMaxEvent)
	o.Cell = cmp.Or(o.Cell, grapnel.DefaultCell)
	if o.Away == nil {
		o.Away = func(string) error { return nil }
	}
	o.History = present{o.History, o.Away}
	o.Bounds = bounds.Fill(o.Bounds)
	if o.Gate == nil {
		o.Gate = NewGate(o.Bounds)
	}
	a := &api{Options: o, links: newLinks(o.PublicURL, o.Proxies), routes: routes(), claims: claims{held: map[string]struct{}{}}, cursors: newCursors(o.Engine.IDs()),
		simulations: make(chan struct{}, o.Bounds.Simulations)}
	for i := range a.routes {
		if o.MetricsOpen && a.routes[i].path == metricsPath {
			a.routes[i].open = anybody
		}
	}
	what := sync.OnceValue(func() *openapi.Description { return describeAPI(a.routes, &a.Bounds) })
	doc := sync.OnceValue(func() *huma.OpenAPI { return openapi.Document(what()) })
	a.document = sync.OnceValue(func() []byte { return openapi.Encode(doc()) })
	a.manual = sync.OnceValue(func() []byte { return openapi.Manual(doc(), what()) })
	return a.mux()
}

// newID makes an id; it is the only place where the API draws randomness for one.
func (a *api) newID(prefix string, now time.Time) string { return grapnel.NewID(prefix, now, a.Random) }
