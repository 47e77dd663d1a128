package grapnel

import (
	"time"
)

// Source is an entry point for events from outside: an address for the webhooks of one provider,
// which are verified and deduplicated; the outbox of a producer; or the messages of a broker.
type Source struct {
	ID           string
	Tenant       string
	Name         string
	Description  string
	Verify       Verify
	Dedupe       Dedupe
	OnUnverified Unverified
	// a CEL expression for the event's type; empty: the provider's own field
	Type string
	// a CEL expression for its key; empty: the provider's own field, if it has one
	Key string
	// a CEL expression over the body for the provider's id of the event; empty: the provider's own
	// field, if it has one
	EventID string
	// the URL that providers call, if their signatures cover it; empty: below the server's, or the
	// URL of the request
	PublicURL string
	RateLimit *RateLimit
	MaxBody   int64 // bytes; 0: the server's limit
	Paused    bool  // requests are refused with 503, so that providers repeat them
	// not nil: events are read from there. Then only names, Paused and the times have an effect
	Outbox *Outbox
	// not nil: events are the messages of this broker. Then only names, Type, Key, EventID, TLS,
	// Paused and the times have an effect. EventID may read headers too
	Broker *Target
	TLS    *TLS // of the connections to Broker; nil: the system's authorities, no certificate
	// when it got its first secret, if it was created without: the requests that waited for it are
	// verified again. Zero: none waited
	SecretAt  time.Time
	CreatedAt time.Time
	UpdatedAt time.Time
	Revision  int64
}

// Outbox is a table that a producer writes inside its own transactions, in its own database;
// package outbox creates it.
type Outbox struct {
	DSN Secret // how to connect to it, with a password
}

// Verify says how a source verifies its provider's requests.
type Verify struct {
	// a name in internal/inbound/ingress's table: stripe, github, …, hmac, basic, api_key, none
	Scheme  string
	Secrets []Secret // newest first; any unexpired one is accepted
	// For hmac, and for settable fields of other schemes.
	Header    string
	Algorithm string // sha1, sha256, sha512
	Encoding  string // hex, base64
	Prefix    string // before the signature in the header
	// template of the signed text: {body}, {timestamp}, {id}, {url} and text between them
	Signed          string
	TimestampHeader string
	IDHeader        string
	TypeHeader      string
	Tolerance       time.Duration // between the timestamp and now; 0: the default, five minutes
	Username        string        // for basic
}

// DefaultTolerance is the largest allowed age of a signed timestamp, and its largest lead.
const DefaultTolerance = 5 * time.Minute

// Dedupe says how a source recognises a repeated request.
type Dedupe struct {
	By     []DedupeBy    // the first that a request has; empty: none
	Window time.Duration // since the first request
	// paths of JSON bodies that content, and the comparison of bodies, leave out: $.sent_at
	Ignore []string
}

// DefaultDedupeWindow is longer than any known provider retries.
const DefaultDedupeWindow = 8 * 24 * time.Hour

// DedupeBy is the property by which requests are deduplicated.
type DedupeBy string

// The properties for deduplication.
const (
	ByEventID    DedupeBy = "event_id"
	ByDeliveryID DedupeBy = "delivery_id"
	ByContent    DedupeBy = "content"
)

// Unverified is the treatment of a request that cannot be verified.
type Unverified string

// The treatments.
const (
	RejectUnverified Unverified = "reject"     // 401, and nothing is stored
	Quarantine       Unverified = "quarantine" // stored for operators, and never delivered
)

// Intake describes the arrival of a request. It is stored with the event of the request, or with
// the request that was set aside.
type Intake struct {
	Source  string
	At      time.Time
	Method  string
	Path    string // with its query
	Remote  string // address of the sender
	Headers []Header
	Checks  []Check // the results of verifying, in order
	By      DedupeBy
	Known   string // the id or hash by which a repetition is recognised; empty: none
}

// Header is one line of a request's header, as received. A secret value (Authorization, an API key)
// is replaced by [redacted].
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Check is one step of verifying a request. It lets an operator see why the request was accepted or
// refused.
type Check struct {
	Passed bool   `json:"passed"`
	Text   string `json:"text"` // "timestamp 4 s old", "signature matches secret 2 of 2"
}

// Aside is a stored request that is no event: it is not delivered, and operators can read it.
type Aside struct {
	ID          string
	Tenant      string
	Why         AsideReason
	Event       string // id of the event that it contradicts
	ContentType string
	Body        []byte // left out in lists; cut, if a check says so
	Size        int    // of the stored part of the body
	Erased      bool   // the body was erased, with the data key that had sealed it; so was what Intake says of the request
	Intake
}

// AsideReason says why a request was set aside.
type AsideReason string

// The reasons for setting requests aside.
const (
	AsideUnverified AsideReason = "unverified"
	AsideConflict   AsideReason = "conflict" // already received, with another body
	AsideRefused    AsideReason = "refused"  // it cannot be an event; its checks say why
)
