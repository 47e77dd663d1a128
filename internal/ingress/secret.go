package ingress

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/sign"
)

// secret is one of a source, prepared for its scheme.
type secret struct {
	grapnel.Secret
	standard *sign.Verifier    // for Standard Webhooks
	public   ed25519.PublicKey // for byEd25519
	macs     *macs             // with it as the key, for schemes that have a hash
}

// maxSecrets bounds what one request can cost.
const maxSecrets = 10

// prepare makes a secret ready for use. Errors never contain it.
func (r *row) prepare(text grapnel.Secret) (secret, error) {
	s := secret{Secret: text}
	if text.Text == "" {
		return s, errors.New("is empty")
	}
	if len(text.Text) > 1<<10 {
		return s, errors.New("is longer than 1024 bytes")
	}
	switch {
	case r.proof == byStandard || r.proof == byEither && strings.HasPrefix(text.Text, sign.SymmetricPrefix):
		// Its own look at the timestamp is turned off: ours says more.
		v, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{text.Text}, Tolerance: 1 << 62})
		if err != nil {
			return s, fmt.Errorf("cannot be used: %s", strings.TrimPrefix(err.Error(), "sign: "))
		}
		s.standard = v
	case r.proof == byEd25519:
		raw, err := hex.DecodeString(text.Text)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return s, fmt.Errorf("is a public key of %d hexadecimal digits", 2*ed25519.PublicKeySize)
		}
		s.public = raw
	}
	return s, nil
}

// matching tries every secret, whatever came of the one before, so that the time taken says nothing about which one is right, and notes
// which one it was.
func (in *incoming) matching(what string, matches func(s *secret) bool) bool {
	live, found, expired := 0, 0, time.Time{}
	for i := range in.source.secrets {
		s := &in.source.secrets[i]
		switch ok := matches(s); {
		case s.Live(in.now):
			if live++; ok && found == 0 {
				found = live
			}
		case ok:
			expired = s.ExpiresAt
		}
	}
	switch {
	case found > 0:
		return in.passed(what + " matches secret " + strconv.Itoa(found) + " of " + strconv.Itoa(live))
	case !expired.IsZero():
		return in.failed(fmt.Sprintf("%s matches a secret that expired %s ago", what, rounded(in.now.Sub(expired))))
	default:
		return in.failed(what + " matches no secret")
	}
}
