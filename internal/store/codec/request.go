package codec

import (
	"encoding/base64"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// headerNames are the headers that Grapnel itself sends; others are stored as texts. As with all
// Words, the list only grows at its end.
var headerNames = Words[string]{"Content-Type", "User-Agent", "Webhook-Signature", "Svix-Id", "Svix-Timestamp", "Svix-Signature",
	"Grapnel-Node",
	"Grapnel-Epoch", "Grapnel-Hops", "Ce-Specversion", "Ce-Id", "Ce-Source", "Ce-Type", "Ce-Time", "Ce-Partitionkey", "X-Webhook-Id",
	"X-Retry-Count"}

// The encodings of a value. A listed value takes one byte, a single symmetric signature its 32
// bytes; any other value is its length plus valueText and its bytes.
const (
	valueRedacted = iota
	valueSignature
	valueText
)

const (
	redacted        = "[redacted]"
	signaturePrefix = "v1,"
	signatureSize   = 32
)

// encodeRequest writes the headers of a request.
func encodeRequest(e *encoder, headers []grapnel.Header) {
	e.uint(uint64(len(headers)))
	for _, h := range headers {
		encodeWord(e, headerNames, h.Name)
		var room [signatureSize + 1]byte
		signature, is := bareSignature(room[:0], h.Value)
		switch {
		case h.Value == redacted:
			e.uint(valueRedacted)
		case is:
			e.uint(valueSignature)
			e.b = append(e.b, signature...)
		default:
			e.uint(valueText + uint64(len(h.Value)))
			e.b = append(e.b, h.Value...)
		}
	}
}

var strict = base64.StdEncoding.Strict()

// bareSignature appends the bytes of a value that is one symmetric signature, written as Grapnel
// writes it.
func bareSignature(to []byte, value string) ([]byte, bool) {
	text, is := strings.CutPrefix(value, signaturePrefix)
	if !is || len(text) != base64.StdEncoding.EncodedLen(signatureSize) {
		return nil, false
	}
	raw, err := strict.AppendDecode(to, []byte(text))
	return raw, err == nil && len(raw) == signatureSize && !strings.ContainsAny(text, "\r\n")
}

// decodeRequest decodes the output of encodeRequest.
func decodeRequest(d *decoder) []grapnel.Header {
	n := d.uint()
	if n == 0 || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	headers := make([]grapnel.Header, 0, n)
	for range n {
		h := grapnel.Header{Name: decodeWord(d, headerNames)}
		switch kind := d.uint(); kind {
		case valueRedacted:
			h.Value = redacted
		case valueSignature:
			h.Value = signaturePrefix + base64.StdEncoding.EncodeToString(d.take(signatureSize))
		default:
			h.Value = string(d.take(kind - valueText))
		}
		headers = append(headers, h)
	}
	return headers
}
