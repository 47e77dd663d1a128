// Package provider verifies the webhooks of providers for package receive: Stripe, GitHub, Slack,
// Twilio and the others in the table that Grapnel's server uses as well (docs/providers.md).
//
//	verifier, err := provider.New("stripe", provider.Options{Secrets: []string{"whsec_…"}})
//	…
//	receive.New(receive.Options{Source: "stripe", Verifier: verifier, Store: store})
//
// A key is made of what the signature covers alone. Otherwise an attacker who has seen one signed
// request could send it under the id of another event, and so suppress that. Some providers sign
// the body and not the id, which is in a header. For them Options says what the key is made of.
//
// It does not promise that a provider gives an event the same id each time: docs/providers.md says
// what each one does.
package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/receive"
)

// Options of a provider. Only Secrets are needed for most.
type Options struct {
	Secrets   []string      // any of them may have signed, so that one can be replaced
	Tolerance time.Duration // between the signature's time and now; 0: five minutes
	PublicURL string        // that the provider was given, where it signs that and a proxy changes it

	// Key makes the key of a body, such as Raw or Canonical, and the provider's id does not count.
	// Two genuine events with equal bodies are then one. nil: the id.
	Key func(body []byte) (string, error)
	// Unsigned takes the key although the signature does not cover it: only for a provider whose
	// requests no attacker can see.
	Unsigned bool

	// For the scheme hmac, and where others have them: docs/providers.md.
	Header, Algorithm, Encoding, Prefix, Signed, TimestampHeader, IDHeader, TypeHeader, Username string
}

// greetingSize is the size of the largest body that may be a greeting.
const greetingSize = 64 << 10

// Greets answers the requests by which Slack, Zoom and Discord check an address, once they are
// verified, and hands all others to next, the kit's endpoint.
func (v *Verifier) Greets(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, greetingSize+1))
		if err == nil && len(body) <= greetingSize {
			if in := v.how.Request(r, body, time.Now(), ""); in.Verify() {
				if reply, is := in.Greeting(); is {
					reply.Write(w)
					return
				}
			}
		}
		rest := r.Body
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), rest), rest}
		next.ServeHTTP(w, r)
	})
}

// Names are the names that New takes.
func Names() []string {
	var names []string
	for _, s := range scheme.All() {
		names = append(names, s.Name)
	}
	return names
}

// Verifier verifies the requests of one provider. It is a receive.Verifier and a receive.Spanner,
// and may be used by several goroutines at once.
type Verifier struct {
	how *scheme.Verifier
	key func(body []byte) (string, error)
}

// New makes a verifier of a provider by its name. Its errors contain no secret.
func New(name string, o Options) (*Verifier, error) {
	s := scheme.Settings{
		Scheme: name, Header: o.Header, Algorithm: o.Algorithm, Encoding: o.Encoding, Prefix: o.Prefix, Signed: o.Signed,
		TimestampHeader: o.TimestampHeader, IDHeader: o.IDHeader, TypeHeader: o.TypeHeader, Username: o.Username,
		Tolerance: o.Tolerance, PublicURL: o.PublicURL,
	}
	for _, text := range o.Secrets {
		s.Secrets = append(s.Secrets, scheme.Secret{Text: text})
	}
	if faults := s.Faults(); len(faults) > 0 {
		return nil, fmt.Errorf("provider: %s: %s %s", name, faults[0].Field, faults[0].Detail)
	}
	if len(o.Secrets) == 0 && name != "none" {
		return nil, fmt.Errorf("provider: %s: a secret is needed", name)
	}
	v := &Verifier{scheme.New(s), o.Key}
	switch {
	case o.Key == nil && len(v.how.IDs.Event) == 0:
		return nil, fmt.Errorf("provider: %s has no id for an event; set Key, for example to provider.Canonical()", name)
	case o.Unsigned:
	case o.Key == nil && !v.how.SignsIDs():
		return nil, fmt.Errorf("provider: the signature of %s does not cover its id; set Key, for example to provider.Canonical(), "+
			"or Unsigned if no attacker can see the requests", name)
	case o.Key != nil && !s.SignsBody():
		return nil, fmt.Errorf("provider: the signature of %s does not cover the body; leave Key nil, "+
			"or set Unsigned if no attacker can see the requests", name)
	}
	return v, nil
}

// Span is how long the provider repeats an event; 0: unknown.
func (v *Verifier) Span() time.Duration { return v.how.RetriesFor }

// Verify checks that the provider has sent the request.
func (v *Verifier) Verify(r *http.Request, body []byte, now time.Time) (receive.Verified, error) {
	in := v.how.Request(r, body, now, "")
	in.Verify()
	if reason := reasons[in.Outcome()]; reason != nil {
		return receive.Verified{}, fmt.Errorf("%w: %s", reason, in.Complaint())
	}
	id, err := v.keyOf(in, body)
	if err != nil {
		return receive.Verified{}, fmt.Errorf("%w: %w", receive.ErrMalformed, err)
	}
	verified := receive.Verified{ID: id, Timestamp: in.Time}
	for name := range r.Header {
		if v.how.HidesHeader(name) {
			verified.Secret = append(verified.Secret, name)
		}
	}
	return verified, nil
}

var reasons = map[scheme.Outcome]error{
	scheme.Unverified: receive.ErrUnverified, scheme.Expired: receive.ErrExpired, scheme.Unreadable: receive.ErrMalformed,
}

// keyOf is the key of a request that was verified.
func (v *Verifier) keyOf(in *scheme.Request, body []byte) (string, error) {
	if v.key != nil {
		return v.key(body)
	}
	id := in.Find(v.how.IDs.Event)
	if id == "" {
		return "", errors.New("the request has no id")
	}
	if v.how.PerType { // an event of another type may have the same id
		id = in.Find(v.how.Kind) + ":" + id
	}
	return id, nil
}

// Raw is the SHA-256 of a body's bytes.
func Raw(body []byte) (string, error) {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:]), nil
}

// Canonical is the SHA-256 of a JSON body without some paths, such as $.sent_at or $.items[*].at,
// whatever the order of its members. It panics if a path cannot be read.
func Canonical(ignore ...string) func(body []byte) (string, error) {
	paths, err := canonical.ParseIgnored(slices.Clone(ignore))
	if err != nil {
		panic("provider: " + err.Error())
	}
	return func(body []byte) (string, error) {
		text, err := paths.Text(body)
		if err != nil {
			return "", err
		}
		return Raw(text)
	}
}
