package grapnel

import (
	"time"
)

// Source is where events come in that others send: an address for the webhooks of one provider, who is verified and whose repetitions are
// dropped; or the outbox of a producer.
type Source struct {
	ID           string
	Tenant       string
	Name         string
	Description  string
	Verify       Verify
	Dedupe       Dedupe
	OnUnverified Unverified
	Type         string // a CEL expression that gives the event's type; empty: the provider's own field
	Key          string // a CEL expression that gives its key; empty: the provider's own field, if it has one
	PublicURL    string // where providers reach it, as far as their signatures cover that; empty: the URL of the request
	RateLimit    *RateLimit
	MaxBody      int64   // bytes; 0: the server's limit
	Paused       bool    // requests are refused with 503, so that providers keep and repeat them
	Outbox       *Outbox // not nil: what comes in is read from there and not sent; then only names, Paused and the times mean something
	CreatedAt    time.Time
	UpdatedAt    time.Time
	Revision     int64
}

// Outbox is where a producer publishes inside its own transactions: tables in its own PostgreSQL, made by package outbox.
type Outbox struct {
	DSN Secret // how to connect to it, with a password
}

// Verify says how a source tells its provider's requests from others.
type Verify struct {
	Scheme  string   // one of internal/ingress's table: stripe, github, …, hmac, basic, api_key, none
	Secrets []Secret // the newest first; any of those that have not expired will do
	// For hmac, and for what a scheme of the table lets be set.
	Header          string
	Algorithm       string // sha1, sha256, sha512
	Encoding        string // hex, base64
	Prefix          string // before the signature in the header
	Signed          string // what is signed: {body}, {timestamp}, {id}, {url} and what is between them
	TimestampHeader string
	IDHeader        string
	TypeHeader      string
	Tolerance       time.Duration // between the timestamp and now; 0: the default, five minutes
	Username        string        // for basic
}

// DefaultTolerance is how old a signed timestamp may be, and how far ahead.
const DefaultTolerance = 5 * time.Minute

// Dedupe says how a source knows a request that it has had before.
type Dedupe struct {
	By     []DedupeBy    // the first that a request has; empty: never
	Window time.Duration // from the first sight on
	Ignore []string      // paths of JSON bodies that do not count for content, and for whether two bodies are the same: $.sent_at
}

// DefaultDedupeWindow is longer than any known provider goes on trying.
const DefaultDedupeWindow = 8 * 24 * time.Hour

// DedupeBy is what a request is known by.
type DedupeBy string

// What requests are known by.
const (
	ByEventID    DedupeBy = "event_id"
	ByDeliveryID DedupeBy = "delivery_id"
	ByContent    DedupeBy = "content"
)

// Unverified says what becomes of a request that cannot be verified.
type Unverified string

// What becomes of it.
const (
	RejectUnverified Unverified = "reject"     // 401, and nothing is kept
	Quarantine       Unverified = "quarantine" // kept for people to see, and never handed out
)

// Intake is how a request came in. It is kept with the event that it became, or with the request that was set aside.
type Intake struct {
	Source  string
	At      time.Time
	Method  string
	Path    string // with its query
	Remote  string // address of who sent it
	Headers []Header
	Checks  []Check // what verifying found, in order
	By      DedupeBy
	Known   string // the id or hash that it is known by; empty: nothing
}

// Header is one line of a request's header, as it came. What is a secret by itself (Authorization, an API key) is replaced by [redacted].
type Header struct{ Name, Value string }

// Check is one step of verifying a request, told so that a person sees why it was trusted or not.
type Check struct {
	Passed bool
	Text   string // "timestamp 4 s old", "signature matches secret 2 of 2"
}

// Aside is a request that was durable before it was answered and is no event: nobody gets it, people can look at it.
type Aside struct {
	ID          string
	Tenant      string
	Why         AsideReason
	Event       string // id of the event that it is in conflict with
	ContentType string
	Body        []byte // left out in lists; cut, if a check says so
	Size        int    // of what is kept of the body
	Intake
}

// AsideReason says why a request was set aside.
type AsideReason string

// Why requests are set aside.
const (
	AsideUnverified AsideReason = "unverified"
	AsideConflict   AsideReason = "conflict" // known, with another body
	AsideRefused    AsideReason = "refused"  // it cannot be an event; its checks say why
)
