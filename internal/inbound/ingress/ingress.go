// Package ingress receives webhooks: it reads a request that a provider sends to a source, verifies
// that the provider sent it, recognises duplicates, and publishes the rest as events.
//
// Its guarantees:
//
//   - A request gets a 2xx only once its result is durable: the event, the event that it repeats,
//     or the request itself, set aside.
//   - A request is used only after it was verified, and the signature is checked over the bytes as
//     they came. The id of an unverified request is never recorded, so an attacker cannot use up an
//     id before the provider sends it.
//   - A source may be created before its secret is known. Its requests are quarantined then. Those
//     that the secret verifies, as of their arrival, become events in the order of their arrival;
//     see Release.
//   - The steps of the verification are stored with the request (grapnel.Check), without secrets.
//   - Providers are data: one row of the table in rows.go, and one file of vectors.
//   - Two bodies are equal only if all their values outside the ignored paths are: numbers digit by
//     digit, strings character by character. The order of members and the space between them does
//     not count.
//   - Work and memory for one request are bounded by limits of its source, and no tenant can use up
//     the shares of the others. A client that cannot sign cannot keep out one that can: see
//     admission.
//   - Where a time or a token is signed and the id is not, a signature is good for one event: see
//     signed.go.
//
// It does not promise the order of events at the provider, which few providers promise; nor that
// the provider's id is signed. Where the id is not signed, and the provider rightly signs the same
// bytes twice (GitHub, Shopify, Twilio), an attacker who has seen a signed request can send it
// again under another id for as long as its signature is valid.
package ingress

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Engine is the part of the engine that a Receiver needs.
type Engine interface {
	// Source returns one that is in scope.
	Source(scope store.Scope, id string) (grapnel.Source, bool)
	// Sources returns those in scope.
	Sources(scope store.Scope) []grapnel.Source
	// Accepts returns grapnel.CodeTenantEnds if the tenant is being deleted.
	Accepts(tenant string) error
	// Publish commits events with their deliveries.
	Publish(ctx context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error)
}

// Shelf keeps requests that are no events.
type Shelf interface {
	SetAside(ctx context.Context, a grapnel.Aside) error
	ChangeAside(ctx context.Context, a grapnel.Aside, drop bool) error
	Aside(ctx context.Context, scope store.Scope, id string) (grapnel.Aside, error)
	AsideList(ctx context.Context, scope store.Scope, q store.AsideQuery) ([]grapnel.Aside, error)
}

// Options are the parts and settings of a Receiver.
type Options struct {
	Bounds Bounds // inside this package; zero: their defaults
	Engine Engine
	Store  Shelf

	// Promised gets each answer to a request, judged by the promise of availability; nil: none is
	// judged.
	Promised func(good bool, took time.Duration)

	// Problem writes the answer to a request that is refused; nil: a plain problem+json.
	Problem func(w http.ResponseWriter, r *http.Request, refused Refusal)

	Refused func(code string) // gets the code of each refusal; nil: nothing does

	// Origin returns the scheme and host of the URL that a provider was given, before the path that
	// arrived here; nil: unknown.
	Origin func(r *http.Request) string

	Now    func() time.Time // nil: time.Now
	Random io.Reader        // of ids; nil: crypto/rand
	Log    *slog.Logger     // nil: nothing is logged

	MaxBody int64 // bytes of a body, whatever a source allows; 0: DefaultMaxBody
}

// DefaultMaxBody is the default of Options.MaxBody.
const DefaultMaxBody = 1 << 20

// Refusal is why a request was not taken, and how the answer says so.
type Refusal struct {
	Status     int
	Code       grapnel.Code
	Detail     string
	RetryAfter time.Duration  // 0: not said
	Err        error          // the cause of a 5xx, for the log; never sent to the caller
	Quota      *grapnel.Quota // the tenant's limit that refused; nil: another reason
}

// Codes that the rest of Grapnel has no use for.
const (
	CodeUnverified grapnel.Code = "unverified"        // 401
	CodeSlow       grapnel.Code = "request_timeout"   // 408
	CodeLoop       grapnel.Code = "loop"              // 422
	CodeHeaders    grapnel.Code = "headers_too_large" // 431
)
