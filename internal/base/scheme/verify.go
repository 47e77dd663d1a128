package scheme

import (
	"bytes"
	"cmp" //nolint:gosec // some providers sign with it; as an HMAC it is still secure
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"github.com/grapnelhq/grapnel/sign"
)

// Verify checks that the provider has sent the request, and notes each step. All steps run, so that
// an operator who reads a failed request sees all its faults.
func (in *Request) Verify() bool {
	s := in.v
	switch s.Proof {
	case ByNothing:
		return in.passed("nothing is checked: the source accepts every request")
	case ByToken:
		return in.token()
	case ByBasic:
		return in.basic()
	case ByStandard:
		return in.standard(s.Row.header)
	case ByEither:
		return in.either()
	case ByTwilio:
		return in.twilio()
	case ByAdyen:
		return in.adyen()
	default:
		return in.signature()
	}
}

// maxCandidates is how many signatures one header may offer.
const maxCandidates = 10

// signature checks an HMAC or Ed25519 signature over the source's template.
func (in *Request) signature() bool {
	s := in.v
	stamp, offered, there := in.offered()
	on := in.freshest(stamp)
	if !there {
		return false
	}
	var candidates [][]byte
	for _, text := range offered {
		if raw := decodeSignature(s.encoding, text, s.size); raw != nil {
			candidates = append(candidates, raw)
		}
	}
	if len(candidates) == 0 {
		return in.unsigned("the signature is not " + s.encoding + " of the right length")
	}
	fields := signed{timestamp: stamp}
	if s.template.has("id") {
		if fields.id = in.Find(s.IDs.Event); fields.id == "" {
			return in.faulty(Missing, "the id that is signed is missing")
		}
	}
	if s.template.has(tokenField) {
		fields.token = in.Find(s.IDs.Delivery)
	}
	urls := []string{""}
	if s.template.has("url") {
		urls = in.urls()
	}
	if len(candidates) == 1 {
		in.MAC = candidates[0]
	}
	return in.matching("signature", func(k *secret) bool {
		found := false
		for _, fields.url = range urls {
			found = in.matchesAny(k, fields, candidates) || found
		}
		return found
	}) && on
}

// matchesAny compares with every signature that is offered.
func (in *Request) matchesAny(k *secret, fields signed, candidates [][]byte) bool {
	s := in.v
	if k.public != nil || k.curve != nil {
		found := false
		var message bytes.Buffer
		s.template.write(&message, in, fields)
		for _, c := range candidates {
			found = k.verifies(message.Bytes(), c) || found
		}
		return found
	}
	return k.macs.matches(candidates, func(m *mac) { s.template.write(m, in, fields) })
}

// offered finds the signatures and the timestamp of a request.
func (in *Request) offered() (stamp string, signatures []string, ok bool) {
	s := in.v
	if len(s.signature) > 0 {
		stamp = in.Find(s.timestamp)
		text := in.Find(s.signature)
		if text == "" {
			return stamp, nil, in.lacksSignature("the signature" + isMissing)
		}
		return stamp, []string{text}, in.passed("a signature is there")
	}
	value, wrong := single(in.header, s.header)
	if wrong != "" {
		return in.Find(s.timestamp), nil, in.lacksSignature(wrong)
	}
	if s.pairs != "" {
		return in.paired(value)
	}
	text, ok := strings.CutPrefix(value, s.prefix)
	if !ok {
		return in.Find(s.timestamp), nil, in.unsigned("header " + s.header + " does not start with " + s.prefix)
	}
	return in.Find(s.timestamp), []string{text}, in.passed("header " + s.header + " is there")
}

// paired reads a header of name=value pairs.
func (in *Request) paired(value string) (stamp string, signatures []string, ok bool) {
	r, stamps := in.v.Row, 0
	for pair := range strings.SplitSeq(value, r.pairs) {
		switch name, text, _ := strings.Cut(strings.TrimSpace(pair), "="); name {
		case r.pairTime:
			stamp = text
			stamps++
		case r.pairSum:
			signatures = append(signatures, text)
		}
	}
	in.Unsigned = len(signatures) == 0
	switch {
	case stamps != 1 || len(signatures) == 0:
		return stamp, nil, in.failed("header " + r.header + " is not " + r.pairTime + "=…" + r.pairs + r.pairSum + "=…")
	case len(signatures) > maxCandidates:
		return stamp, nil, in.failed("header " + r.header + " has too many signatures")
	}
	return stamp, signatures, in.passed("header " + r.header + " is there")
}

// freshest checks the timestamp of a scheme that has one.
func (in *Request) freshest(stamp string) bool {
	switch {
	case in.v.Row.pairTime == "" && len(in.v.timestamp) == 0:
		return true
	case stamp == "":
		return in.faulty(Missing, "the timestamp is missing")
	default:
		return in.fresh(stamp)
	}
}

// decodeSignature returns the bytes of a signature; nil if it is not one of this size. 0: sizes
// differ.
func decodeSignature(encoding, text string, size int) []byte {
	var (
		raw []byte
		err error
	)
	switch {
	case encoding == "hex" && len(text) == hex.EncodedLen(size):
		raw, err = hex.DecodeString(text)
	case encoding == "base64" && size == 0:
		raw, err = base64.StdEncoding.DecodeString(text)
	case encoding == "base64" && len(text) == base64.StdEncoding.EncodedLen(size):
		raw, err = base64.StdEncoding.Strict().DecodeString(text)
	default:
		return nil
	}
	if err != nil || size != 0 && len(raw) != size {
		return nil
	}
	return raw
}

// standard checks Standard Webhooks signatures; they are in headers that start with prefix, or with
// webhook-. An id under prefix counts before one under webhook-, so it has to be the signed one.
func (in *Request) standard(prefix string) bool {
	as := prefix
	if in.header[prefix+"Signature"] == nil && in.header[prefix+"Id"] == nil {
		as = "Webhook-"
	}
	names := [3]string{as + "Id", as + "Timestamp", as + "Signature"}
	h, complete := make(http.Header, len(names)), true
	for i, canonical := range [3]string{sign.HeaderID, sign.HeaderTimestamp, sign.HeaderSignature} {
		value, wrong := single(in.header, names[i])
		if wrong != "" && canonical == sign.HeaderSignature {
			complete = in.lacksSignature(wrong)
			continue
		} else if wrong != "" {
			complete = in.lacks(wrong)
			continue
		}
		h[canonical] = []string{value}
	}
	if !complete {
		return false
	}
	in.passed("header " + names[2] + " is there")
	on := in.fresh(h[sign.HeaderTimestamp][0])
	return in.matching("signature", func(s *secret) bool {
		if s.standard == nil {
			return false
		}
		_, err := s.standard.Verify(h, in.body)
		if errors.Is(err, sign.ErrMalformed) {
			in.Reason = cmp.Or(in.Reason, Malformed)
		}
		return err == nil
	}) && on
}

// either checks a Standard Webhooks signature if the request has one and the source a key for it,
// else a token. A signing key is never used as a token.
func (in *Request) either() bool {
	for i := range in.v.secrets {
		if s := &in.v.secrets[i]; s.standard != nil && s.live(in.now) && in.header["Webhook-Signature"] != nil {
			return in.standard("Webhook-")
		}
	}
	return in.token()
}

// token compares a header with the secrets.
func (in *Request) token() bool {
	value, wrong := single(in.header, in.v.header)
	if wrong != "" {
		return in.lacksSignature(wrong)
	}
	text, ok := strings.CutPrefix(value, in.v.prefix)
	if !ok {
		return in.unsigned("header " + in.v.header + " does not start with " + in.v.prefix)
	}
	in.passed("header " + in.v.header + " is there")
	return in.matching("token", func(s *secret) bool { return s.standard == nil && equal(text, s.text) })
}

// basic compares name and password.
func (in *Request) basic() bool {
	if _, wrong := single(in.header, "Authorization"); wrong != "" {
		return in.lacksSignature(wrong)
	}
	name, password, ok := in.r.BasicAuth()
	if !ok {
		return in.unsigned("header Authorization is not basic authentication")
	}
	// The answer does not tell which of the two was wrong.
	named := equal(name, in.v.Username)
	return in.matching("password", func(s *secret) bool { return equal(password, s.text) && named })
}

// adyen checks the signature in a notification, over eight of its fields joined by colons.
//
// Nothing else of the body is signed, so two readers have to find the same fields. Therefore a name
// that occurs twice, in whatever case, and a colon in a field other than the merchant's own
// reference, are refused.
func (in *Request) adyen() bool {
	text, signature, sound := in.adyenText()
	if text == "" {
		return in.failed("the body is not one notification")
	}
	if !sound {
		return in.failed("a field that is signed is there twice, or has a colon")
	}
	given := decodeSignature("base64", signature, sha256.Size)
	if given == nil {
		return in.unsigned("additionalData.hmacSignature is missing, or not base64 of the right length")
	}
	in.passed("a signature is there")
	return in.matching("signature", func(k *secret) bool {
		return k.macs.matches([][]byte{given}, func(m *mac) { _, _ = m.WriteString(text) })
	})
}
