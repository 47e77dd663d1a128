package scheme

import (
	"cmp"
	"crypto/ed25519"
	"net/textproto"
	"slices"

	"github.com/grapnelhq/grapnel/sign"
)

const defaultLongest = 1024

// New prepares settings. What Faults finds in them is left out.
func New(s Settings) *Verifier {
	r := Find(s.Scheme)
	if r == nil {
		r = &Row{}
	}
	v := &Verifier{Row: r, Settings: s, IDs: r.IDs, Kind: r.Kind, Signs: r.Signs, timestamp: r.timestamp}
	v.Tolerance, v.Longest = cmp.Or(s.Tolerance, sign.DefaultTolerance), cmp.Or(s.Longest, defaultLongest)
	v.header = textproto.CanonicalMIMEHeaderKey(cmp.Or(s.Header, r.header))
	v.prefix, v.encoding = cmp.Or(s.Prefix, r.prefix), cmp.Or(s.Encoding, r.encoding, "hex")
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

// secretHeaders are headers whose value is a secret, whatever the scheme.
var secretHeaders = []string{
	"Authorization",
	"Cookie",
	"Proxy-Authorization",
	"Set-Cookie",
	"X-Api-Key",
	"X-Auth-Token",
	"X-Access-Token",
	"X-Gitlab-Token",
}

// IsSecret says whether the value of a header is a secret, in any case of its name.
func IsSecret(header string) bool {
	return slices.Contains(secretHeaders, textproto.CanonicalMIMEHeaderKey(header))
}

// HidesHeader says whether the value of a header is a secret itself.
func (v *Verifier) HidesHeader(name string) bool { return v.Proof == ByToken && name == v.header }
