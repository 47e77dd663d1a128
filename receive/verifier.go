package receive

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

// Verifier checks that a request comes from its sender. It reads the request's method, URL and
// headers, and never its Body, which has been read into body.
//
// Its error wraps ErrUnverified, ErrExpired or ErrMalformed, which decide the answer; any other
// error counts as ErrUnverified.
type Verifier interface {
	Verify(r *http.Request, body []byte, now time.Time) (Verified, error)
}

// Verified is the part of a request that the signature covers.
type Verified struct {
	ID        string    // of the event; empty: the sender signs none
	Timestamp time.Time // of the signature; zero: the sender signs none
	Secret    []string  // headers that carry a secret and not a signature; they are never stored
}

// Spanner is a Verifier that knows for how long its sender repeats an event. New compares it with
// the window.
type Spanner interface{ Span() time.Duration }

// The reasons for which a request is not accepted.
var (
	ErrUnverified = errors.New("receive: the signature is missing or does not match")
	ErrExpired    = errors.New("receive: the signature's time is outside of the tolerance")
	ErrMalformed  = errors.New("receive: a header is missing or cannot be read")
)

// StandardWebhooks verifies requests that are signed by Standard Webhooks with any of the secrets
// (whsec_… or whpk_…). It panics if a secret cannot be read; sign.CheckSecret says why.
func StandardWebhooks(secrets ...string) Verifier {
	v, err := sign.NewVerifier(sign.VerifierOptions{Secrets: secrets})
	if err != nil {
		panic(err)
	}
	return standard{v}
}

type standard struct{ verifier *sign.Verifier }

func (s standard) Verify(r *http.Request, body []byte, now time.Time) (Verified, error) {
	v, err := s.verifier.VerifyAt(r.Header, body, now)
	if err == nil {
		return Verified{ID: v.ID, Timestamp: v.Timestamp}, nil
	}
	reason := ErrUnverified
	switch {
	case errors.Is(err, sign.ErrTooOld), errors.Is(err, sign.ErrTooNew):
		reason = ErrExpired
	case errors.Is(err, sign.ErrMalformed), errors.Is(err, sign.ErrMissing) && r.Header.Get(sign.HeaderSignature) != "":
		reason = ErrMalformed
	}
	return Verified{}, fmt.Errorf("%w: %w", reason, err)
}
