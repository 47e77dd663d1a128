// Package api is the HTTP face: it takes events in, lets operators look and act, and describes
// itself.
//
// A request goes through the same stages whatever it asks for (see through in call.go): whose key
// is it, may the key do that, is the query known, is the body small and well-formed enough, was it
// asked before under the same idempotency key; then the route's own handler. All routes are data
// (routes.go). The multiplexer, the OpenAPI document, the list of allowed methods and the tests
// that try every route with every wrong key are made from the same table.
//
// What holds here:
//
//   - Nothing changes unless the whole request is good. Every error is an RFC 9457 problem that
//     names the field at fault.
//   - What another tenant has looks exactly like what does not exist.
//   - A 2xx for an event is written after the engine has said that the event and all its deliveries
//     are durable.
//   - The bytes of an event's data are kept as they came: they are found and bounded in the body,
//     never decoded.
//   - An internal error is logged once, with the request's id, and shows nothing of itself to the
//     caller.
//   - A key or secret is shown in the answer that made it and nowhere else; stored answers are
//     sealed with the caller's key.
//
// What it does not promise: that a request whose answer was lost did not happen. Callers repeat it
// with the same Idempotency-Key or the same event id.
package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/allowance"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/send/transform"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// MasterKey is what the API needs of a *seal.Sealer.
type MasterKey interface {
	Rotate(ctx context.Context) (seal.Rotated, error)
}

// Options say what the API stands on. Those before Bounds are needed; every other zero value has a
// meaning.
type Options struct {
	Engine      Engine                // the engine
	History     History               // what happened
	Idempotency Idempotency           // answers given before
	Replays     replay.Jobs           // redelivers; nil: 503
	Alerts      Alerts                // alerts and their rules
	Documents   store.Documents       // incidents
	Erasures    Erasures              // erases events
	Contacts    Contacts              // asks contacts to confirm their addresses; nil: none are asked
	Consents    Consents              // asks addresses for consent; nil: none are asked
	Promises    func() promise.Report // how the server keeps its promises
	Status      http.Handler          // the public status page in all its forms; nil: there is none
	Used        Uses                  // the last uses of keys; nil: none are noted
	Passes      *pass.Sealer          // reads and makes passes
	MasterKey   MasterKey             // wraps data keys

	Bounds       Bounds                        // inside this room; zero: their defaults
	Transform    transform.Bounds              // of endpoints' bodies, as the attempts have them; zero: the defaults
	Ingest       Ingest                        // receives requests for sources; nil: none are received
	Outboxes     Outboxes                      // states of the relays of producers' outboxes; nil: unknown
	Queues       Queues                        // leases to consumers; nil: no queues
	Minutes      Minutes                       // counts by the minute; nil: none is known
	Clock        func() time.Time              // nil: time.Now
	Random       io.Reader                     // for ids, keys and secrets; safe for concurrent use; nil: crypto/rand
	MaxEvent     int64                         // bytes of one event's data; 0: DefaultMaxEvent
	MaxAhead     time.Duration                 // how far ahead deliver_at may be; 0: DefaultMaxAhead
	PublicURL    *url.URL                      // what links in answers begin with; nil: as the request says, and paths for sources
	Proxies      func() []netip.Prefix         // whose X-Forwarded-Proto, -Host and -Prefix are believed; nil: none
	HTTPSOnly    bool                          // refuse endpoints with http:// URLs; for the CheckURL that stands in for none
	CheckURL     func(string) error            // may an endpoint have this URL; nil: as egress says with nothing allowed
	CheckChannel func(*channels.Target) error  // the same for a channel
	CheckHeaders func(map[string]string) error // may an endpoint send these headers; nil: as egress says
	Keep         func() store.Keep             // how long finished deliveries are retained, to say when a dead letter expires; nil: for ever
	Log          *slog.Logger                  // nil: nothing is logged
	Metrics      http.Handler                  // serves /metrics; nil: there are none
	MetricsOpen  bool                          // /metrics needs no key
	Reveals      bool                          // show the secrets of endpoints again
	Ready        func() error                  // why /readyz should say no; nil: always ready

	// Published gets each answer to a publish, judged by the promise of availability, and the code of
	// a refusal; nil: none is judged.
	Published func(good bool, took time.Duration, refused string)
	// Served gets whether the server answered any other request without failing; nil: nothing does.
	Served func(good bool, took time.Duration)
	// Turned gets each request for a source that was refused before ingress saw it; nil: nothing does.
	Turned func()

	Told func() // called when an incident has changed; nil: nothing is
	Gate *Gate  // what all callers share; nil: a new one

	// Cluster lists the nodes that share the store; nil: it is not shared.
	Cluster func(context.Context) (grapnel.Cluster, error)

	Settings func() []wire.Setting // of the server, without secrets; nil: none
	Name     string                // of the installation, which new keys and portal links carry; empty: none

	// the same as CheckURL for a broker, and where it is
	CheckTarget func(*grapnel.Target) (brokers.Place, []*brokers.Fault)
	// the same for the broker of a source
	CheckBroker func(*grapnel.Target) (brokers.Place, []*brokers.Fault)
}

// DefaultMaxEvent is the largest data of an event unless Options say otherwise.
const DefaultMaxEvent = 256 << 10

// DefaultMaxAhead is how far ahead deliver_at may be unless Options say otherwise.
const DefaultMaxAhead = 30 * 24 * time.Hour

// api is what all handlers share. Nothing in it changes after New but the claims and streams.
type api struct {
	Options
	routes       []route
	links        links
	claims       sync.Map // of strings: the idempotency keys being worked on
	streams      streams
	linked       *allowance.Tenants // portal links that were created
	cursors      *cursors
	simulations  chan struct{} // one for each that runs
	explanations chan struct{} // the same
	document     func() []byte // the OpenAPI document, made when it is first asked for
	unavailable  backoff.Tally // requests that the store could not serve
}

// newID makes an id; it is the only place where the API draws randomness for one.
func (a *api) newID(prefix string, now time.Time) string { return grapnel.NewID(prefix, now, a.Random) }

// route is one thing that can be asked for. The multiplexer, the OpenAPI document and the tests of
// keys and tenants are all made from the same list of them.
type route struct {
	method string
	path   string
	also   []string                 // other paths where the same is found
	scope  grapnel.Scope            // what the key must be allowed
	portal grapnel.Scope            // what a pass for the portal must be allowed; empty: no such pass may do it
	lever  bool                     // people who operate may do it without the scope
	whole  bool                     // with portal: a pass that is limited to endpoints may not do it
	bound  error                    // what a caller that is bound to a tenant gets, since the route is about all; nil: it may do it
	open   func(*http.Request) bool // requests that need no key; nil: none
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

// intake says what body a route takes.
type intake struct {
	types    []string // content types; the first is the one assumed when the request names none; nil: no body
	limit    limit
	optional bool // an empty body is as good as {}
	deep     bool // the parts of the body that may be deep are checked on their own
	verbatim bool // the handler looks at the body itself
}

// The bodies that most routes take: JSON, JSON or nothing, and a merge patch.
var (
	jsonBody     = &intake{types: []string{grapnel.JSONType}}
	optionalBody = &intake{types: []string{grapnel.JSONType}, optional: true}
	patchBody    = &intake{types: []string{openapi.TypeMergePatch, grapnel.JSONType}}
)

const (
	perChange limit = iota // what changes a setting
	perEvent               // an event with its envelope
	perData                // its data alone
	perBatch
	perReplay
	perSettle
)

// limit is which of the limits a body has.
type limit int

// call is one request on its way: who asks for what, at which instant.
type call struct {
	*http.Request
	route   *route
	id      string      // of the request
	now     time.Time   // the one instant of everything this request does: when it had come in as a whole
	hash    [32]byte    // of the key or pass that the request came with
	key     grapnel.Key // whose request it is; empty on routes that need no key
	scope   store.Scope // what that key may touch
	bound   string      // the tenant that the caller is bound to, whatever its request narrows; empty: none
	pass    *pass.Pass  // instead of a key; key has what it says
	session *pass.Pass  // the pass of the request: the same, or the session of the key
	until   time.Time   // the end of the key, or of that which made the pass; zero: never
	query   query
	body    []byte
	held    held // memory for the body

	bounds    *Bounds
	links     *links
	ids       *grapnel.IDs // of the store's deliveries
	cursors   *cursors
	answering answering

	allow []string // on the last route: the methods that the path takes

	once   *store.Once // not nil: the request came with an idempotency key
	seal   func(answer) store.Answer
	stored atomic.Bool // the engine has asked for the answer, to store it with the effect
}

// connection is for handlers that are slow on purpose.
func (c *call) connection() *http.ResponseController {
	return http.NewResponseController(c.answering.ResponseWriter)
}

// errBusy is the cause of a refusal because others have all slots of work that is limited at once.
// Such a refusal is no failure: it is not logged and counts for nothing.
var errBusy = errors.New("api: others have all slots")

// slot takes one of the slots of such a work.
func slot(slots chan struct{}, others string) (release func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	default:
		return nil, &grapnel.Error{Code: grapnel.CodeUnavailable, Detail: others, Err: errBusy}
	}
}

// problem is the answer to the call for err.
func (c *call) problem(err error) Problem { return problem(err, c.id, c.links.path(c.Request)) }

// refuse turns an error into the answer, and logs those that are the server's own fault. A full
// disk, an overload and a lost database are not logged for every request that
// meets them: who finds them says when they begin and when they end. An error without a cause, or
// with a time to come again, is a refusal for a moment: an endpoint changes its node, a node stops.
// Until a lost database is noticed, failures of 503 share a line per FailureLog.
func (a *api) refuse(c *call, err error) answer {
	p := c.problem(err)
	ans := answer{status: p.Status, body: encode(p), busy: errors.Is(err, errBusy)}
	e := &grapnel.Error{}
	errors.As(err, &e) // or it stays empty
	switch k := kindOf(grapnel.Code(p.Code)); {
	case k.later:
		ans.retryAfter, ans.quota = ingress.RetrySeconds(e.RetryAfter), e.Quota
	case k.code == codeMethod:
		ans.allow = strings.Join(c.allow, ", ")
	case k.code == codeUnauthenticated:
		ans.challenge = true
	}
	known := ans.busy || p.Code == string(grapnel.CodeStorageFull) || p.Code == string(grapnel.CodeOverloaded) ||
		e.Code == grapnel.CodeUnavailable && (e.Err == nil || e.RetryAfter > 0) || p.Status >= 500 && a.Engine.Current() != nil
	if p.Status < 500 || known || errors.Is(err, context.Canceled) {
		return ans
	}
	requests, due := 1, true
	if p.Status == http.StatusServiceUnavailable {
		requests, due = a.unavailable.Add(c.now, a.Bounds.FailureLog)
	}
	if due {
		a.Log.LogAttrs(c.Context(), slog.LevelError, "request failed",
			slog.String("request_id", c.id), slog.String("method", c.Method), slog.String("route", c.route.path),
			slog.String("code", p.Code), slog.Int("requests", requests), slog.Any("error", err))
	}
	return ans
}
