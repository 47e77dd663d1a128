package scheme

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

// Format keeps the secret out of formatted output, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// maxSecrets bounds the cost of one request.
const maxSecrets = 10

// prepare makes a secret ready for use. Errors never contain it.
func (r *Row) prepare(text Secret) (secret, error) {
	s := secret{text: text.Text, expires: text.Expires}
	if text.Text == "" {
		return s, errors.New("is empty")
	}
	if len(text.Text) > 1<<10 {
		return s, errors.New("is longer than 1024 bytes")
	}
	s.key = []byte(text.Text)
	switch {
	case r.Proof == ByStandard || r.Proof == ByEither && strings.HasPrefix(text.Text, sign.SymmetricPrefix):
		usual, err := standardSecret(text.Text)
		if err != nil {
			return s, err
		}
		// Its own look at the timestamp is turned off: ours says more.
		v, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{usual}, Tolerance: 1 << 62})
		if err != nil {
			return s, fmt.Errorf("cannot be used: %s", strings.TrimPrefix(err.Error(), "sign: "))
		}
		s.standard = v
	case r.Proof == ByECDSA:
		raw, err := base64.StdEncoding.DecodeString(text.Text)
		if err != nil {
			return s, errors.New("is not the base64 of a public key")
		}
		key, err := x509.ParsePKIXPublicKey(raw)
		curve, ok := key.(*ecdsa.PublicKey)
		if err != nil || !ok || curve.Curve != elliptic.P256() {
			return s, errors.New("is not a public key of ECDSA on P-256")
		}
		s.curve = curve
	case r.Proof == ByAdyen:
		raw, err := hex.DecodeString(text.Text)
		if err != nil {
			return s, errors.New("is not hexadecimal")
		}
		s.key = raw
	case r.Name == "hmac":
		var err error
		if encoded, ok := strings.CutPrefix(text.Text, "hex:"); ok {
			if s.key, err = hex.DecodeString(encoded); err != nil {
				return s, errors.New("is not hexadecimal after hex:")
			}
		} else if encoded, ok := strings.CutPrefix(text.Text, "base64:"); ok {
			if s.key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
				return s, errors.New("is not base64 after base64:")
			}
		}
		if len(s.key) == 0 {
			return s, errors.New("is empty")
		}
	case r.Proof == ByEd25519:
		raw, err := hex.DecodeString(text.Text)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return s, fmt.Errorf("is a public key of %d hexadecimal digits", 2*ed25519.PublicKeySize)
		}
		s.public = raw
	}
	return s, nil
}

// verifies says whether a signature by a private key is that of a message.
func (s *secret) verifies(message, signature []byte) bool {
	if s.public != nil {
		return ed25519.Verify(s.public, message, signature)
	}
	sum := sha256.Sum256(message)
	return ecdsa.VerifyASN1(s.curve, sum[:], signature)
}

// standardSecret takes the forms that the libraries of Standard Webhooks and Svix take: base64 of a
// key of any length, with whsec_ before it or not. Package sign takes 24 to 64 bytes. An HMAC fills
// a shorter key with zeros and hashes one longer than its block, so a key that was filled or hashed
// before makes the same signatures.
func standardSecret(text string) (string, error) {
	if strings.HasPrefix(text, sign.PublicPrefix) {
		return text, nil
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, sign.SymmetricPrefix))
	switch {
	case err != nil:
		return "", errors.New("is not base64, with or without whsec_ before it, and no public key (whpk_…)")
	case len(key) < MinSecret:
		return "", fmt.Errorf("has %d bytes; a secret has at least %d", len(key), MinSecret)
	case len(key) > sha256.BlockSize:
		sum := sha256.Sum256(key)
		key = sum[:]
	case len(key) < 24:
		key = append(key, make([]byte, 24-len(key))...)
	}
	return sign.SymmetricPrefix + base64.StdEncoding.EncodeToString(key), nil
}

// MinSecret is how many bytes a secret has at least. No provider makes shorter ones, and one of a
// few characters can be guessed from a single signed request.
const MinSecret = 8

// CheckSecret returns the fault of a new secret, besides those of Settings.Faults; empty: none.
// Existing secrets may be shorter.
func CheckSecret(scheme, text string) string {
	r := Find(scheme)
	if r == nil || r.Proof == ByNothing {
		return ""
	}
	if s, err := r.prepare(Secret{Text: text}); err == nil && len(s.key) < MinSecret {
		return fmt.Sprintf("has %d bytes; a secret has at least %d", len(s.key), MinSecret)
	}
	return ""
}

// WaitsForSecret is the step of verification that a request fails while there is no secret.
const WaitsForSecret = "the source waits for its secret"

// live says whether the secret counts at a time.
func (s *secret) live(now time.Time) bool { return s.expires.IsZero() || now.Before(s.expires) }

// matching tries every secret, even after a match, so that the time taken does not tell which one
// is right. It notes the one that matched.
func (in *Request) matching(what string, matches func(s *secret) bool) bool {
	if len(in.v.Secrets) == 0 {
		return in.failed(WaitsForSecret)
	}
	live, found, expired := 0, 0, time.Time{}
	for i := range in.v.secrets {
		s := &in.v.secrets[i]
		switch ok := matches(s); {
		case s.live(in.now):
			if live++; ok && found == 0 {
				found, in.matched = live, s
			}
		case ok:
			expired = s.expires
		}
	}
	switch {
	case found > 0:
		return in.passed(what + " matches secret " + strconv.Itoa(found) + " of " + strconv.Itoa(live))
	case !expired.IsZero():
		return in.faulty(ExpiredSecret, fmt.Sprintf("%s matches a secret that expired %s ago", what, rounded(in.now.Sub(expired))))
	default:
		return in.faulty(Mismatch, what+" matches no secret")
	}
}
