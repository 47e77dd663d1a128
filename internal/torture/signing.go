package torture

import (
	"net/http"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

// Scheme is how a provider signs its requests.
type Scheme struct {
	Name string
	// Sign returns the headers of a request by each of the secrets, the first one first.
	Sign      func(id string, at time.Time, body []byte, secrets ...string) (http.Header, error)
	ID        string // header with the event's id; empty: it is in the body
	Time      string // header with the time; empty: none is signed
	Signature string // header with the signature
	SignsID   bool   // the id cannot be changed without the secret
	Several   bool   // a request may carry several signatures
	Secret    func() string
}

// Standard is the scheme of Standard Webhooks.
func Standard() Scheme {
	return Scheme{
		Name: "standard", ID: sign.HeaderID, Time: sign.HeaderTimestamp, Signature: sign.HeaderSignature, SignsID: true, Several: true,
		Sign: func(id string, at time.Time, body []byte, secrets ...string) (http.Header, error) {
			signature, err := sign.Sign(id, at, body, secrets...)
			if err != nil {
				return nil, err
			}
			return http.Header{sign.HeaderID: {id}, sign.HeaderTimestamp: {strconv.FormatInt(at.Unix(), 10)},
				sign.HeaderSignature: {signature}}, nil
		},
		Secret: func() string { return newSecret() },
	}
}
