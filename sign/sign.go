// Package sign makes and checks Standard Webhooks signatures: they prove a request's sender, and
// that it was not changed or repeated.
//
// A request carries its id, the unix second of this attempt and, separated by spaces, one signature
// per live key over "id.timestamp.body": "v1," and the base64 of an HMAC-SHA256 for a symmetric
// secret (whsec_…), "v1a," and the base64 of an Ed25519 signature for a private key (whsk_…), which
// receivers check with the public one (whpk_…).
//
// Its guarantees:
//
//   - The signed content can be read in one way only: an id has no dot, a timestamp is canonical
//     decimal, and the body is used byte for byte.
//   - A signature is compared in constant time and only at its full length.
//   - No secret appears in an error or in formatted output.
//
// It does not promise that a request arrives once. A signature is valid for the tolerance, and a
// sender repeats requests on purpose; a receiver also has to remember the ids that it has handled.
package sign

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The headers of a signed request.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	symmetricVersion  = "v1,"
	asymmetricVersion = "v1a,"
)

// MaxSignatures is how many keys may sign one request.
const MaxSignatures = 10

const maxIDLength = 256

// Signer signs for one endpoint. Its secrets are decoded once; signing with symmetric ones
// allocates only the result. It is safe for concurrent use.
type Signer struct {
	keys []*signingKey
}

// NewSigner prepares a signer that signs with every one of the secrets (whsec_… or whsk_…), in the
// order given.
func NewSigner(secrets ...string) (*Signer, error) {
	if len(secrets) == 0 || len(secrets) > MaxSignatures {
		return nil, fmt.Errorf("sign: %d secrets given; 1 to %d can sign", len(secrets), MaxSignatures)
	}
	s := &Signer{keys: make([]*signingKey, len(secrets))}
	for i, text := range secrets {
		key, err := newSigningKey(text)
		if err != nil {
			return nil, err
		}
		s.keys[i] = key
	}
	return s, nil
}

// Sign returns the value of the signature header for a request with this id, time and body.
func (s *Signer) Sign(id string, at time.Time, body []byte) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	if at.Unix() < 0 {
		return "", errors.New("sign: the time is before 1970")
	}
	var space [256]byte
	out := space[:0]
	for i, key := range s.keys {
		if i > 0 {
			out = append(out, ' ')
		}
		out = key.append(out, id, at.Unix(), body)
	}
	return string(out), nil
}

// Format keeps the secrets out of formatted output, whatever the verb.
func (*Signer) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// Sign is Signer.Sign for a single request.
func Sign(id string, at time.Time, body []byte, secrets ...string) (string, error) {
	s, err := NewSigner(secrets...)
	if err != nil {
		return "", err
	}
	return s.Sign(id, at, body)
}

type signingKey struct {
	private ed25519.PrivateKey // nil: symmetric
	macs    sync.Pool          // of *mac
}

// mac is a keyed hash that is reused: resetting one costs much less than keying a new one.
type mac struct {
	hash.Hash
	scratch [128]byte
}

func newSigningKey(text string) (*signingKey, error) {
	kind, raw, err := decode(text)
	if err != nil {
		return nil, err
	}
	switch kind {
	case symmetric:
		return symmetricKey(raw), nil
	case private:
		return &signingKey{private: ed25519.PrivateKey(raw)}, nil
	default:
		return nil, errors.New("sign: a public key cannot sign; give the secret one (whsk_)")
	}
}

func symmetricKey(raw []byte) *signingKey {
	k := &signingKey{}
	k.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, raw)} }
	return k
}

func (k *signingKey) append(out []byte, id string, unix int64, body []byte) []byte {
	if k.private != nil {
		signature := ed25519.Sign(k.private, content(id, unix, body))
		return base64.StdEncoding.AppendEncode(append(out, asymmetricVersion...), signature)
	}
	m := k.macs.Get().(*mac)
	defer k.macs.Put(m)
	return base64.StdEncoding.AppendEncode(append(out, symmetricVersion...), m.sum(id, unix, body))
}

// sum returns the hash of the signed content; the result lives in the scratch space of m.
func (m *mac) sum(id string, unix int64, body []byte) []byte {
	m.Reset()
	m.Write(prefix(m.scratch[:0], id, unix))
	m.Write(body)
	return m.Sum(m.scratch[:0])
}

func prefix(out []byte, id string, unix int64) []byte {
	out = append(append(out, id...), '.')
	return append(strconv.AppendInt(out, unix, 10), '.')
}

func content(id string, unix int64, body []byte) []byte {
	return append(prefix(make([]byte, 0, len(id)+len(body)+24), id, unix), body...)
}

// checkID refuses an id with a dot: ("a.1", 2, "x") and ("a", 1, "2.x") would have the same signed
// content.
func checkID(id string) error {
	if id == "" || len(id) > maxIDLength || strings.IndexByte(id, '.') >= 0 {
		return fmt.Errorf("sign: an id has 1 to %d characters and no dot", maxIDLength)
	}
	return nil
}

// CheckSecret returns the fault of a signing secret (whsec_… or whsk_…), without repeating its
// text.
func CheckSecret(text string) error {
	_, err := newSigningKey(text)
	return err
}
