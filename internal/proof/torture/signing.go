package torture

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

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

func newSecret() string {
	text, err := sign.NewSecret(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return text
}
