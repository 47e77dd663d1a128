package scheme

import (
	"cmp"
	"crypto/ed25519"
	"mime"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
	"github.com/grapnelhq/grapnel/sign"
)

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

const defaultLongest = 1024

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

// New prepares settings. What Faults finds in them is left out.
func New(s Settings) *Verifier {
	r := Find(s.Scheme)
	if r == nil {
		r = &Row{}
	}
	v := &Verifier{Row: r, Settings: s, IDs: r.IDs, Kind: r.Kind, Signs: r.Signs, timestamp: r.timestamp}
	v.Tolerance, v.Longest = cmp.Or(s.Tolerance, sign.DefaultTolerance), cmp.Or(s.Longest, defaultLongest)
	v.header = textproto.CanonicalMIMEHeaderKey(cmp.Or(s.Header, r.header))
	v.prefix, v.encoding = cmp.Or(s.Prefix, r.prefix), cmp.Or(s.Encoding, r.encoding)
	hash := hashOf(cmp.Or(s.Algorithm, r.algorithm))
	switch {
	case r.Proof == ByEd25519:
		v.size = ed25519.SignatureSize
	case hash != nil:
		v.size = hash().Size()
	}
	v.template, _ = parseTemplate(cmp.Or(s.Signed, r.signed)) // Faults has read it
	if r.Name == "hmac" && v.template.has("timestamp") {
		v.Signs = SignsOnce
	}
	if s.TimestampHeader != "" {
		v.timestamp = []Place{header(s.TimestampHeader)}
	}
	if s.IDHeader != "" {
		v.IDs = one(header(s.IDHeader))
	}
	if s.TypeHeader != "" {
		v.Kind = append([]Place{header(s.TypeHeader)}, r.Kind...)
	}
	for _, text := range s.Secrets {
		if k, err := r.prepare(text); err == nil {
			if hash != nil {
				k.macs = newMACs(hash, k.key)
			}
			v.secrets = append(v.secrets, k)
		}
	}
	return v
}

// SignsBody says whether the signature covers the body.
func (s *Settings) SignsBody() bool {
	r := Find(s.Scheme)
	if r == nil {
		return false
	}
	t, _ := parseTemplate(cmp.Or(s.Signed, r.signed)) // Faults has read it
	return r.Proof == ByStandard || t.has("body")
}

// SignsIDs says whether the signature covers the ids of events.
func (v *Verifier) SignsIDs() bool {
	switch {
	case v.Proof == ByEither: // a signing key never counts as a token
		return !slices.ContainsFunc(v.secrets, func(s secret) bool { return s.standard == nil })
	case v.Name == "hmac":
		return v.template.has("id")
	default:
		return !v.Unsigned
	}
}

// HidesHeader says whether the value of a header is a secret itself.
func (v *Verifier) HidesHeader(name string) bool { return v.Proof == ByToken && name == v.header }

// media is a Content-Type and its parsed form.
type media struct {
	text, kind string
	err        error
}

// Media parses a Content-Type. A provider nearly always sends the same one, so the last one is
// cached.
func (v *Verifier) Media(text string) (kind string, err error) {
	if last := v.last.Load(); last != nil && last.text == text {
		return last.kind, last.err
	}
	kind, _, err = mime.ParseMediaType(text)
	// a clone, because text is part of a larger string
	v.last.Store(&media{strings.Clone(text), kind, err})
	return kind, err
}
