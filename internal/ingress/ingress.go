// Package ingress takes webhooks in: it reads a request that a provider sends to a source, finds out whether the provider really sent
// it, recognises what came before, and publishes the rest as events.
//
// What holds:
//
//   - A request gets a 2xx only once what came of it is durable: the event, the event that it repeats, or the request itself, set aside.
//   - Nothing is believed before it is verified, and verifying looks at the bytes as they came. An id of a request that is not
//     verified is never learned, so nobody can use one up for somebody else.
//   - How a request was verified is kept with it, step by step (grapnel.Check); what is a secret is not.
//   - Providers are data: one row of the table in rows.go, and one file of vectors.
//   - Two bodies are the same only if every value in them is that does not lie under a path that the source ignores: numbers digit by
//     digit, strings character by character. The order of members and the space between them does not count.
//   - Work and memory for one request are bounded by limits of its source, and no tenant can use up what the others need. Who cannot
//     sign keeps nobody out who can: see admission.
//   - Where a time or a token is signed and the id is not, a signature is good for one event: see signed.go.
//
// What it does not promise: that an event is in the order in which things happened at the provider, which few of them promise; and that
// an id of the provider is signed. Where it is not, and the provider rightly signs the same bytes twice (GitHub, Shopify, Twilio), whoever
// has seen a signed request can send it again under another id for as long as its signature holds.
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

// Engine is what the room needs of the engine.
type Engine interface {
	// Source returns one that is in scope.
	Source(scope store.Scope, id string) (grapnel.Source, bool)
	// Publish commits events with their deliveries.
	Publish(ctx context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error)
}

// Shelf keeps requests that are no events.
type Shelf interface {
	SetAside(ctx context.Context, a grapnel.Aside) error
}

// Options say what the room works with.
type Options struct {
	Bounds Bounds // inside this room; zero: their defaults
	Engine Engine
	Store  Shelf

	// Problem writes the answer to a request that is refused; nil: a plain problem+json.
	Problem func(w http.ResponseWriter, r *http.Request, refused Refusal)

	Now    func() time.Time // nil: time.Now
	Random io.Reader        // of ids; nil: crypto/rand
	Log    *slog.Logger     // nil: nothing is logged

	MaxBody     int64         // bytes of a body, whatever a source allows; 0: DefaultMaxBody
	MaxAtOnce   int           // requests that are read or committed at once; 0: DefaultMaxAtOnce
	MaxBuffered int64         // bytes of the bodies of all those that have arrived; 0: DefaultMaxBuffered. Bounds has the shares of both
	BodyTimeout time.Duration // from the first look at a request to the end of its body; 0: DefaultBodyTimeout
}

// What Options leave out.
const (
	DefaultMaxBody     = 1 << 20
	DefaultMaxAtOnce   = 2048
	DefaultMaxBuffered = 256 << 20
	DefaultBodyTimeout = 10 * time.Second
)

// Refusal is why a request was not taken, and how the answer says so.
type Refusal struct {
	Status     int
	Code       grapnel.Code
	Detail     string
	RetryAfter time.Duration // 0: not said
	Err        error         // the cause of a 5xx, for the log; nothing of it is for the caller
}

// Codes that the rest of Grapnel has no use for.
const (
	CodeUnverified  grapnel.Code = "unverified"        // 401
	CodeSlow        grapnel.Code = "request_timeout"   // 408
	CodeRateLimited grapnel.Code = "rate_limited"      // 429
	CodeHeaders     grapnel.Code = "headers_too_large" // 431
)
