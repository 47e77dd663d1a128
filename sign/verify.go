package sign

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The reasons for which a request is not accepted. Errors of Verify wrap one of these.
var (
	ErrMissing   = errors.New("a signature header is missing")
	ErrMalformed = errors.New("a signature header is malformed")
	ErrTooOld    = errors.New("the request was signed too long ago")
	ErrTooNew    = errors.New("the request was signed in the future")
	ErrNoMatch   = errors.New("no signature matches")
)

// DefaultTolerance is the largest allowed difference between the clocks of sender and receiver,
// including the time of travel.
const DefaultTolerance = 300 * time.Second

const maxSignatureHeader = 4 << 10

// VerifierOptions are the accepted secrets and the tolerance.
type VerifierOptions struct {
	Secrets   []string         // whsec_… or whpk_…; a signature by any of them is enough
	Tolerance time.Duration    // both ways; 0: DefaultTolerance
	Now       func() time.Time // nil: time.Now
}

// Verifier checks requests from one sender. It may be used by several goroutines at once.
type Verifier struct {
	keys      []verifyingKey
	tolerance time.Duration
	now       func() time.Time
}

// Verified is the signed part of a request.
type Verified struct {
	ID        string
	Timestamp time.Time
	Secret    int // index in VerifierOptions.Secrets of the first that matches
}

type verifyingKey struct {
	public ed25519.PublicKey // nil: symmetric
	secret []byte
}

// NewVerifier prepares a verifier.
func NewVerifier(o VerifierOptions) (*Verifier, error) {
	if len(o.Secrets) == 0 || len(o.Secrets) > MaxSignatures {
		return nil, fmt.Errorf("sign: %d secrets given; 1 to %d can be accepted", len(o.Secrets), MaxSignatures)
	}
	if o.Tolerance < 0 {
		return nil, errors.New("sign: the tolerance is negative")
	}
	v := &Verifier{keys: make([]verifyingKey, len(o.Secrets)), tolerance: o.Tolerance, now: o.Now}
	if v.tolerance == 0 {
		v.tolerance = DefaultTolerance
	}
	if v.now == nil {
		v.now = time.Now
	}
	for i, text := range o.Secrets {
		kind, raw, err := decode(text)
		switch {
		case err != nil:
			return nil, err
		case kind == private:
			return nil, fmt.Errorf("sign: a private key (%s) stays with its sender; give the public one (%s)", PrivatePrefix, PublicPrefix)
		case kind == public:
			v.keys[i].public = raw
		default:
			v.keys[i].secret = raw
		}
	}
	return v, nil
}

// Format keeps the secrets out of formatted output, whatever the verb.
func (*Verifier) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// Verify checks a request by its headers and the body exactly as it came, before any decoding.
func (v *Verifier) Verify(h http.Header, body []byte) (Verified, error) {
	return v.VerifyAt(h, body, v.now())
}

// VerifyAt is Verify at a time that the caller gives.
func (v *Verifier) VerifyAt(h http.Header, body []byte, now time.Time) (Verified, error) {
	id, err := single(h, HeaderID)
	if err != nil {
		return Verified{}, err
	}
	if err := checkID(id); err != nil {
		return Verified{}, fmt.Errorf("%s: %w", HeaderID, ErrMalformed)
	}
	stamp, err := single(h, HeaderTimestamp)
	if err != nil {
		return Verified{}, err
	}
	unix, ok := parseTimestamp(stamp)
	if !ok {
		return Verified{}, fmt.Errorf("%s: %w", HeaderTimestamp, ErrMalformed)
	}
	signatures, err := single(h, HeaderSignature)
	if err != nil {
		return Verified{}, err
	}
	at := time.Unix(unix, 0)
	if now.Sub(at) > v.tolerance {
		return Verified{}, ErrTooOld
	}
	if at.Sub(now) > v.tolerance {
		return Verified{}, ErrTooNew
	}
	candidates, err := parseSignatures(signatures)
	if err != nil {
		return Verified{}, err
	}
	signed := content(id, unix, body)
	for i, key := range v.keys {
		if key.matches(signed, candidates) {
			return Verified{ID: id, Timestamp: at.UTC(), Secret: i}, nil
		}
	}
	return Verified{}, ErrNoMatch
}

// matches compares every candidate, even after a match, so that the time taken does not tell which
// one is right.
func (k verifyingKey) matches(signed []byte, candidates []candidate) bool {
	found := false
	if k.public != nil {
		for _, c := range candidates {
			if c.asymmetric && ed25519.Verify(k.public, signed, c.bytes) {
				found = true
			}
		}
		return found
	}
	m := hmac.New(sha256.New, k.secret)
	m.Write(signed)
	want := m.Sum(nil)
	for _, c := range candidates {
		if !c.asymmetric && hmac.Equal(want, c.bytes) {
			found = true
		}
	}
	return found
}

// candidate is a signature of the right length for its version.
type candidate struct {
	asymmetric bool
	bytes      []byte
}

// parseSignatures reads the header. Unknown versions are skipped, so that a sender can add one. A
// signature of the wrong length is not a candidate, because comparing only its bytes would accept
// an empty one.
func parseSignatures(header string) ([]candidate, error) {
	if len(header) > maxSignatureHeader {
		return nil, fmt.Errorf("%s is longer than %d bytes: %w", HeaderSignature, maxSignatureHeader, ErrMalformed)
	}
	var found []candidate
	entries := 0
	for entry := range strings.SplitSeq(header, " ") {
		if entry == "" {
			continue
		}
		if entries++; entries > MaxSignatures {
			return nil, fmt.Errorf("%s has more than %d signatures: %w", HeaderSignature, MaxSignatures, ErrMalformed)
		}
		c, length := candidate{}, sha256.Size
		encoded, ok := strings.CutPrefix(entry, symmetricVersion)
		if !ok {
			if encoded, ok = strings.CutPrefix(entry, asymmetricVersion); !ok {
				continue
			}
			c.asymmetric, length = true, ed25519.SignatureSize
		}
		if len(encoded) != base64.StdEncoding.EncodedLen(length) {
			continue
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || len(raw) != length {
			continue
		}
		c.bytes = raw
		found = append(found, c)
	}
	return found, nil
}

// parseTimestamp accepts canonical decimal only: a second spelling of the same number would be a
// second spelling of the same signed content.
func parseTimestamp(text string) (int64, bool) {
	if text == "" || len(text) > 12 || text[0] == '0' && text != "0" {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	unix, err := strconv.ParseInt(text, 10, 64)
	return unix, err == nil
}

// single returns the only value of a header. Two values are refused, because receivers differ in
// the one they use.
func single(h http.Header, name string) (string, error) {
	values := h.Values(name)
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", fmt.Errorf("%s: %w", name, ErrMissing)
	case len(values) > 1:
		return "", fmt.Errorf("%s occurs %d times: %w", name, len(values), ErrMalformed)
	}
	return values[0], nil
}
