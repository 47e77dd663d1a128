package scheme

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
	"github.com/grapnelhq/grapnel/sign"
)

// Row describes one scheme: how its requests prove their origin, and where they have id, type and
// key.
type Row struct {
	Scheme
	Proof  Proof
	header string // where the signature or token is; Verify.Header where that may be set
	prefix string // before the signature
	// separator of name=value pairs in the header; empty: the header is the signature alone
	pairs     string
	pairTime  string  // the name of the timestamp among the pairs
	pairSum   string  // the name of signatures among the pairs
	algorithm string  // of an HMAC
	encoding  string  // of the signature; empty: hex
	signed    string  // template of the signed text
	timestamp []Place // where the signed timestamp is, unless it is a pair
	signature []Place // where the signature is, unless it is in the header
	IDs       IDs
	Kind      []Place // the type
	Key       []Place
	PerType   bool // one event id is shared by events of several types
	Signs     Signs
	Greets    Greeting
}

// Scheme describes a scheme for people and documents.
type Scheme struct {
	Name       string   // in a source's verify.scheme
	Title      string   // of the provider
	Signature  string   // one sentence: its place and the text it covers
	Needs      string   // the kind of secret and where the provider shows it; empty: none
	Settings   []string // other fields of verify that it reads, with the names of the API
	Tolerance  bool     // a timestamp is checked, so verify.tolerance counts
	EventID    string   // where the id of an event is found; empty: nowhere
	DeliveryID string   // where the id of a delivery is found
	Type       string   // where the type is found
	Key        string   // where the ordering key is found
	Unsigned   bool     // the ids are not signed
	MayWait    bool     // a source may be created before its secret is known
	Success    int      // of accepted requests, where the provider does not take 202 for success; 0: it does
	// duration of the provider's retries; 0: it does not retry, or unknown
	RetriesFor time.Duration
	Retries    string // the same in words; empty: the provider does not say
	// the day on which RetriesFor was compared with the provider's documentation; empty: never
	Checked string
	Docs    string // where that is
}

// Settings are how requests are verified: a scheme, its secrets, and what the scheme lets one set.
type Settings struct {
	Scheme          string
	Secrets         []Secret // newest first; any that has not expired is accepted
	Header          string
	Algorithm       string // sha1, sha256, sha512
	Encoding        string // hex, base64
	Prefix          string // before the signature in the header
	Signed          string // template of the signed text
	TimestampHeader string
	IDHeader        string
	TypeHeader      string
	Tolerance       time.Duration // between the timestamp and now; 0: the default, five minutes
	Username        string        // for basic
	PublicURL       string        // that the provider was given, or that of a proxy in front of everything
	Longest         int           // id, type or key that is taken from a request; 0: 1024
	Ignored         canonical.Ignored
}

// Verifier is Settings prepared for use, with the row of its scheme. It never changes. It may be
// used by several goroutines at once.
type Verifier struct {
	*Row
	Settings
	IDs       IDs
	Kind      []Place
	Signs     Signs
	header    string // where the signature or token is, canonical
	prefix    string
	encoding  string
	size      int // of a signature
	template  template
	timestamp []Place
	secrets   []secret
	last      atomic.Pointer[media]
}

// Place is where a provider writes a value: a header, a member of a JSON body, or a field of a
// form.
type Place struct {
	in   where
	name string // of the header or field; a gjson path
	// the place counts only if this path has a value too: in the provider's other bodies the same
	// name means something else
	with string
}

type where int

// IDs are where a request says which one it is.
type IDs struct{ Event, Delivery []Place }

// Proof is how a request proves where it comes from.
type Proof int

// Greeting is a request by which a provider checks the endpoint. It is answered and is no event.
type Greeting int

// Secret is one that a request may be signed with.
type Secret struct {
	Text    string
	Expires time.Time // zero: it does not
}

// secret is one that is prepared for its scheme.
type secret struct {
	text     string
	expires  time.Time
	standard *sign.Verifier    // for Standard Webhooks
	public   ed25519.PublicKey // for ByEd25519
	curve    *ecdsa.PublicKey  // for ByECDSA
	key      []byte            // for schemes that have a hash
	macs     *macs             // with that key
}

// Signs is what a repeated signature of a scheme proves about the request. A row that reads ids or
// types from outside the signature has to say it: by the zero value nothing would be recorded.
type Signs int

// template is the signed text, in parts.
type template []part

type part struct {
	literal string
	field   string // without braces; empty: it is the literal
}

// media is a Content-Type and its parsed form.
type media struct {
	text, kind string
	err        error
}
