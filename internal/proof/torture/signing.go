package torture

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

// Scheme is how a provider makes and signs its requests.
type Scheme struct {
	Name string
	// New makes an event in the provider's own form; nil: the payload of docs/torture.md.
	New func(now time.Time) (id string, header http.Header, body []byte, err error)
	// Sign returns all headers of a request, signed by each of the secrets.
	Sign      func(id string, at time.Time, header http.Header, body []byte, secrets ...string) (http.Header, error)
	Secret    func() string // makes a secret that the receiver does not have
	Signature string        // header with the signature
	SignsID   bool          // a header has the id, and it cannot be changed without the secret
	Timed     bool          // a time is signed
	Several   bool          // a request may carry several signatures, as in Standard Webhooks
}

// Standard is the scheme of Standard Webhooks.
func Standard() Scheme {
	return Scheme{
		Name: "standard", Signature: sign.HeaderSignature, SignsID: true, Timed: true, Several: true, Secret: newSecret,
		Sign: func(id string, at time.Time, _ http.Header, body []byte, secrets ...string) (http.Header, error) {
			signature, err := sign.Sign(id, at, body, secrets...)
			if err != nil {
				return nil, err
			}
			return http.Header{sign.HeaderID: {id}, sign.HeaderTimestamp: {strconv.FormatInt(at.Unix(), 10)},
				sign.HeaderSignature: {signature}, "Content-Type": {"application/json"}}, nil
		},
	}
}

// Replaced writes a text in place of another in all headers, and reports whether one had it.
func Replaced(h http.Header, old, now string) (found bool) {
	for name, values := range h {
		for i, value := range values {
			if strings.Contains(value, old) {
				found = true
				h[name][i] = strings.ReplaceAll(value, old, now)
			}
		}
	}
	return found
}

// without removes the headers whose value is a text, and reports whether there was one.
func without(h http.Header, text string) (found bool) {
	for name, values := range h {
		if slices.Equal(values, []string{text}) {
			found = true
			h.Del(name)
		}
	}
	return found
}
