package api

import (
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// Problem is the shape of every error: RFC 9457 with a code for programs, the fields at fault and
// the request's id.
type Problem struct {
	Type      string       `json:"type" doc:"a reference to the description of this kind of problem"`
	Title     string       `json:"title" doc:"title of the code"`
	Status    int          `json:"status"`
	Detail    string       `json:"detail" doc:"the fault of this request"`
	Code      string       `json:"code" doc:"the kind of problem, for programs"`
	Errors    []wire.Fault `json:"errors" nullable:"false" doc:"the fields at fault, if there are any"`
	RequestID string       `json:"request_id" doc:"also in X-Request-Id; look for it in the server's log"`
}

// Codes that only this face knows.
const (
	codeUnauthenticated grapnel.Code = "unauthenticated"
	codeForbidden       grapnel.Code = "forbidden"
	codeMethod          grapnel.Code = "method_not_allowed"
	codeInternal        grapnel.Code = "internal"
)

// kind is how a code looks from outside.
type kind struct {
	code   grapnel.Code
	status int
	title  string
	hint   string // what a caller can do about it, for the reference
	later  bool   // it makes sense to repeat the request after a moment
}

// kinds is the one place where codes become statuses.
var kinds = []kind{
	{grapnel.CodeMalformed, 400, "The request cannot be parsed", "Send well-formed UTF-8 JSON, nested at most 64 levels deep, and nothing after it.", false},
	{codeUnauthenticated, 401, "No valid API key", "Send Authorization: Bearer with a key that exists.", false},
	{ingress.CodeUnverified, 401, "The webhook could not be verified", "Compare the secret, and the signed text, with the provider's settings; a source in quarantine keeps such requests with the reason.", false},
	{codeForbidden, 403, "The API key may not do this", "Use a key that has the scope named in detail, from an address that its field from contains.", false},
	{grapnel.CodeNotFound, 404, "Not found", "It does not exist, or it belongs to another tenant; the two look the same.", false},
	{codeMethod, 405, "The method is not allowed here", "Allow lists the allowed methods.", false},
	{ingress.CodeSlow, 408, "The request took too long to arrive", "Send the request again, faster.", false},
	{grapnel.CodeConflict, 409, "The request contradicts the current state", "Read the current state and decide again.", false},
	{grapnel.CodeTenantEnds, 409, "The tenant is being deleted", "Nothing was accepted, and nothing is until the tenant is deleted. A tenant of the same name can begin anew then.", false},
	{grapnel.CodeInFlight, 409, "The same idempotency key is in use",
		"Wait for the first request, or repeat this one after a moment.", true},
	{grapnel.CodeTooLarge, 413, "The request is too large", "Send a smaller body.", false},
	{grapnel.CodeUnsupported, 415, "Unsupported content type or encoding", "Send application/json without Content-Encoding.", false},
	{grapnel.CodeInvalid, 422, "Invalid field", "errors names each field and its fault.", false},
	{grapnel.CodeTooManyTypes, 422, "Too many event types", "Nothing was accepted. Use a type that the tenant has used before; ids belong into the key or the data.", false},
	{grapnel.CodeTooCostly, 422, "The filters cost too much", "Nothing was accepted. Send fewer events at once, or give the tenant's endpoints simpler or fewer filters.", false},
	{grapnel.CodeSchemaTooCostly, 422, "The schema costs too much", "Nothing was accepted. Send fewer events at once, or make the event type's schema simpler.", false},
	{grapnel.CodeMismatch, 422, "The idempotency key was used for another request", "Use a new key for a new request.", false},
	{ingress.CodeLoop, 422, "The webhook is in a loop", "The event came through too many servers like this one. Change the endpoint that sends to a source of its own events.", false},
	{grapnel.CodeQuota, 429, "The tenant's quota is used up", "The tenant has as many pending deliveries as it may have, or has published as many events as it may on one day; detail says which. Repeat the request after Retry-After, with the same Idempotency-Key or event id.", true},
	{grapnel.CodeRateLimited, 429, "Too many requests", "The tenant publishes more than its rate, the source gets more than its own, or too many wrong API keys come from your address. Repeat the request after Retry-After.", true},
	{ingress.CodeHeaders, 431, "The headers are too large", "Send fewer or shorter headers.", false},
	{codeInternal, 500, "Internal error", "Repeat the request with the same Idempotency-Key; if it fails again, look for request_id in the server's log.", false},
	{grapnel.CodeDamaged, 410, "The stored event is damaged", "Its bytes do not match their checksum, so it is neither shown nor delivered; lists mark it. Publish it again with another id, or restore a backup.", false},
	{grapnel.CodeUnavailable, 503, "Unavailable", "Repeat the request after Retry-After, with the same Idempotency-Key or event id.", true},
	{grapnel.CodeOverloaded, 503, "The server is overloaded", "Nothing was accepted. Repeat the request after Retry-After, with the same Idempotency-Key or event id.", true},
	{grapnel.CodeStorageFull, 507, "The disk is full", "Nothing was accepted. Free disk space, then repeat the request.", true},
}

func kindOf(code grapnel.Code) kind {
	for _, k := range kinds {
		if k.code == code {
			return k
		}
	}
	return kindOf(codeInternal)
}

// problemType is where the reference describes a code.
func problemType(code grapnel.Code) string { return "/docs/problems#" + string(code) }

// mayBeDone is the detail for a caller whose commit was not answered.
const mayBeDone = "The database did not answer, so this may have been done or not. Repeat the request with the same id or " +
	"Idempotency-Key: then it is done once."

// problem is the answer for err. Only a grapnel.Error shows its text; of others the caller learns
// that they happened. A lost answer is 503 on every route: repeating the request is safe, and 500
// would keep clients from it. below is the path below which the caller reaches the reference.
func problem(err error, requestID, below string) Problem {
	p := Problem{Detail: "The request failed because of an internal error.", Errors: []wire.Fault{}, RequestID: requestID}
	code := codeInternal
	if errors.Is(err, store.ErrUnknown) {
		code, p.Detail = grapnel.CodeUnavailable, mayBeDone
	} else if e, ok := errors.AsType[*grapnel.Error](err); ok {
		if kindOf(e.Code).code == e.Code {
			code, p.Detail = e.Code, e.Detail
		}
		for _, f := range e.Fields {
			p.Errors = append(p.Errors, wire.Fault(f))
		}
	}
	k := kindOf(code)
	p.Type, p.Title, p.Status, p.Code = below+problemType(code), k.title, k.status, string(code)
	if p.Detail == "" {
		p.Detail = k.title + "."
	}
	return p
}
