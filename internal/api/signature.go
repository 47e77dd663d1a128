package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/egress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/sign"
	"github.com/grapnelhq/grapnel/wire"
)

func signatureRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/deliveries/{id}/attempts/{number}/signature",
			scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: checkSignature,
			name: "check-signature", tag: "Deliveries", summary: "Compute the signatures of an attempt again",
			about: "The body that was signed is made again from the event, each signature is computed with the secrets that the endpoint has " +
				"now, and compared with those that were sent. No answer has a secret. A pass needs payload:read. Only a few such checks, " +
				"previews and simulations run at once; others get 503.",
			gives: map[int]any{200: wire.SignatureCheck{}}},
	}
}

// checkSignature makes the body of an attempt again and signs it with each secret that the endpoint
// has. Both kinds of signature are the same for the same bytes, so equality says which secret made
// one. Secrets that have ended are still the endpoint's until the next rotation.
func checkSignature(a *api, c *call) (answer, error) {
	if !c.mayReadPayloads() {
		return answer{}, errHidden
	}
	d, err := a.delivery(c, c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	i := slices.IndexFunc(d.Attempts, func(at grapnel.Attempt) bool { return strconv.Itoa(at.Number) == c.PathValue("number") })
	if i < 0 {
		return answer{}, store.ErrNotFound("attempt")
	}
	release, err := slot(a.simulations, "Other checks, previews and simulations are running.")
	if err != nil {
		return answer{}, err
	}
	defer release()
	at := &d.Attempts[i]
	out := wire.SignatureCheck{DeliveryID: c.ids.Of(d), Attempt: at.Number, Signatures: []wire.SignatureSent{}}
	for _, h := range at.RequestHeaders {
		if h.Name == sign.HeaderSignature {
			for _, one := range strings.Fields(h.Value) {
				out.Signatures = append(out.Signatures, wire.SignatureSent{Signature: one, Matches: "none"})
			}
		}
	}
	return result(out, a.compareSignatures(c, d, at, &out))
}

func (a *api) compareSignatures(c *call, d *grapnel.Delivery, at *grapnel.Attempt, out *wire.SignatureCheck) error {
	if len(out.Signatures) == 0 {
		out.Verdict, out.Sentence = "not_sent", "No request was sent in this attempt, or its signature was not recorded."
		return nil
	}
	out.Verdict = "not_rebuilt"
	ep, ok := a.Engine.Endpoint(c.scope, d.EndpointID)
	if !ok {
		out.Sentence = "It cannot be checked: the endpoint was deleted, and its secrets with it."
		return nil
	}
	if ep.Channel != nil {
		out.Sentence = "It cannot be checked: messages to channels are not signed."
		return nil
	}
	ev, _, err := a.History.Event(c.Context(), c.scope, d.Tenant, d.EventID)
	switch {
	case grapnel.CodeOf(err) == grapnel.CodeNotFound, err == nil && ev.Seq != d.EventSeq: // purged; the id may be another event's now
		out.Sentence = "It cannot be checked: retention has deleted the event's data."
		return nil
	case err != nil:
		return err
	}
	body, err := egress.Rebuilt(&ep, ev, d.CreatedAt, a.Transform)
	if err != nil {
		out.Sentence = fmt.Sprintf("It cannot be checked: the endpoint's transform of today makes no body of the event: %s.", err)
		return nil
	}
	out.Signed = signedParts(ev.ID, at.StartedAt, body, a.Bounds.SignedBody)
	best := len(ep.Secrets)
	for n := range slices.Backward(ep.Secrets) {
		made, err := sign.Sign(ev.ID, at.StartedAt, body, ep.Secrets[n].Text)
		if err != nil {
			continue // such a secret signs nothing
		}
		for i := range out.Signatures {
			if s := &out.Signatures[i]; subtle.ConstantTimeCompare([]byte(s.Signature), []byte(made)) == 1 {
				s.Secret, best = n+1, n
				s.Matches = fmt.Sprintf("secret %d of %d (created %s)", n+1, len(ep.Secrets), ep.Secrets[n].CreatedAt.UTC().Format(time.RFC3339))
			}
		}
	}
	out.Verdict, out.Sentence = signatureVerdict(ep.Secrets, best, at.StartedAt, c.now)
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
