package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

const fewTransforms = "Only a few transforms, previews and simulations run at once; others get 503."

func signatureRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/deliveries/{id}/attempts/{number}/signature",
			scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: checkSignature,
			name: "check-signature", tag: "Deliveries", summary: "Compute the signatures of an attempt again",
			about: "The body that was signed is made again from the event, each signature is computed with the secrets that the endpoint has " +
				"now, and compared with those that were sent. No answer has a secret. A pass needs payload:read. " + fewTransforms,
			gives: map[int]any{200: wire.SignatureCheck{}}},
		{method: "GET", path: "/v1/deliveries/{id}/attempts/{number}/body",
			scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: showSentBody,
			name: "get-sent-body", tag: "Deliveries", summary: "Get the body that an attempt sent",
			about: "It is made again from the event, byte for byte, by the format and the transform that the event had when it was accepted, and " +
				"compared with the signature that was sent. If it cannot be made the same again, the answer says why and has no body. " +
				"A pass needs payload:read. " + fewTransforms,
			gives: map[int]any{200: wire.SentBody{}}},
	}
}

// checkSignature makes the body of an attempt again and signs it with each secret that the endpoint
// has. Both kinds of signature are the same for the same bytes, so equality says which secret made
// one. Secrets that have ended are still the endpoint's until the next rotation.
func checkSignature(a *api, c *call) (answer, error) {
	d, at, err := a.sentAttempt(c)
	if err != nil {
		return answer{}, err
	}
	out := wire.SignatureCheck{DeliveryID: c.ids.Of(d), Attempt: at.Number, Signatures: []wire.SignatureSent{}}
	for _, one := range signaturesOf(at) {
		out.Signatures = append(out.Signatures, wire.SignatureSent{Signature: one, Matches: "none"})
	}
	return result(out, a.compareSignatures(c, d, at, &out))
}

func (a *api) compareSignatures(c *call, d *grapnel.Delivery, at *grapnel.Attempt, out *wire.SignatureCheck) error {
	if len(out.Signatures) == 0 {
		out.Verdict, out.Sentence = "not_sent", unsigned
		return nil
	}
	is, err := a.rebuilt(c, d)
	if err != nil {
		return err
	}
	if is.fault != "" {
		out.Verdict, out.Sentence = "not_rebuilt", "It cannot be checked: "+is.fault
		return nil
	}
	out.Signed = signedParts(d.EventID, at.StartedAt, is.body, a.Bounds.SignedBody)
	best := len(is.secrets)
	for i := range out.Signatures {
		s := &out.Signatures[i]
		n := is.signer(d, at, s.Signature)
		if n < len(is.secrets) {
			s.Secret = n + 1
			s.Matches = fmt.Sprintf("secret %d of %d (created %s)", n+1, len(is.secrets), is.secrets[n].CreatedAt.UTC().Format(time.RFC3339))
		}
		best = min(best, n)
	}
	out.Verdict, out.Sentence = signatureVerdict(is.secrets, best, at.StartedAt, c.now)
	return nil
}

func signedParts(id string, at time.Time, body []byte, most int) *wire.SignedParts {
	sum := sha256.Sum256(body)
	p := &wire.SignedParts{ID: id, Timestamp: at.Unix(), BodyBytes: len(body), BodySHA256: hex.EncodeToString(sum[:])}
	if utf8.Valid(body) {
		shown := body[:min(len(body), most)]
		p.Body, p.BodyCut = strings.ToValidUTF8(string(shown), ""), len(shown) < len(body) // a character may be cut in two
	}
	return p
}

// signatureVerdict says what it means that the newest secret that makes a signature is the best of
// them; len(secrets): none does.
func signatureVerdict(secrets []grapnel.Secret, best int, sent, now time.Time) (verdict, sentence string) {
	newer := func(s grapnel.Secret) bool { return s.CreatedAt.After(sent) }
	switch {
	case best == 0 && secrets[0].Live(now):
		return "current", "The signature matches the current secret."
	case best < len(secrets) && secrets[best].Live(now):
		return "earlier", "The signature matches an earlier secret, which signs until " + secrets[best].ExpiresAt.UTC().Format(time.RFC3339) + "."
	case best < len(secrets):
		return "ended", "The signature matches a secret that ended at " + secrets[best].ExpiresAt.UTC().Format(time.RFC3339) + "."
	case !slices.ContainsFunc(secrets, func(s grapnel.Secret) bool { return !newer(s) }):
		return "none", "No secret of today makes this signature: the secret was rotated since."
	}
	return "none", "No secret of today makes this signature: the secret was rotated since, or the body made again is not the one that was sent."
}
