package api

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

func showSentBody(a *api, c *call) (answer, error) {
	d, at, err := a.sentAttempt(c)
	if err != nil {
		return answer{}, err
	}
	out := wire.SentBody{DeliveryID: c.ids.Of(d), Attempt: at.Number, ContentType: d.Sent(at, "")["Content-Type"]}
	return result(out, a.sentBody(c, d, at, &out))
}

func (a *api) sentBody(c *call, d *grapnel.Delivery, at *grapnel.Attempt, out *wire.SentBody) error {
	signatures := signaturesOf(at)
	if len(signatures) == 0 {
		out.Verdict, out.Sentence = "not_sent", unsigned
		return nil
	}
	is, err := a.rebuilt(c, d)
	if err != nil {
		return err
	}
	proved := slices.ContainsFunc(signatures, func(s string) bool { return is.signer(d, at, s) < len(is.secrets) })
	switch {
	case is.fault != "":
		out.Verdict, out.Sentence = "not_rebuilt", "The body cannot be shown: "+is.fault
		return nil
	case proved:
		out.Verdict, out.Sentence = "signed", "The signature that was sent covers this body."
	case is.other(at):
		out.Verdict, out.Sentence = "not_rebuilt", "The body cannot be shown: the signature that was sent covers another body than the event makes now."
		return nil
	default:
		out.Verdict = "unproved"
		out.Sentence = "Made again from the event. No signature proves it: the secret of that time was rotated away."
	}
	sum := sha256.Sum256(is.body)
	out.Bytes, out.SHA256 = len(is.body), hex.EncodeToString(sum[:])
	if utf8.Valid(is.body) {
		out.Body = new(string(is.body))
	} else {
		out.BodyBase64 = is.body
	}
	return nil
}
