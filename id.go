package grapnel

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"time"
)

// Prefixes of Grapnel's ids. A prefix is followed by an underscore and 26 characters that sort by
// time.
const (
	EventPrefix    = "evt"
	EndpointPrefix = "ep"
	DeliveryPrefix = "dlv"
	AttemptPrefix  = "att"
	KeyPrefix      = "key"
	PolicyPrefix   = "pol"
	TypePrefix     = "typ" // of an event type
	ReplayPrefix   = "rpl"
	SourcePrefix   = "src"
	QueuePrefix    = "que" // of an endpoint that is a queue
	ChannelPrefix  = "chn" // of an endpoint that is a channel
	LeasePrefix    = "lse"
	AsidePrefix    = "req" // of a request that was set aside
	IssuePrefix    = "iss" // of failures that look alike
)

// alphabet is Crockford's base 32 in lower case: without i, l, o and u, in the order of the values.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var errBadID = errors.New("not an id of this kind")

// NewID makes an id whose unique part is a UUIDv7: 48 bits of milliseconds, then 74 random bits.
func NewID(prefix string, now time.Time, random io.Reader) string {
	var b [16]byte
	if random == rand.Reader {
		_, _ = rand.Read(b[6:]) // it never fails, and b stays on the stack
	} else {
		b = drawn(random)
	}
	putMillis(&b, now)
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return encodeID(prefix, b)
}

// drawn is 16 bytes of a test's source of randomness, which must not fail.
func drawn(random io.Reader) (b [16]byte) {
	if _, err := io.ReadFull(random, b[6:]); err != nil {
		panic("grapnel: no randomness for an id: " + err.Error())
	}
	return b
}

// NewToken makes an unguessable token: 128 random bits, without a time.
func NewToken(prefix string, random io.Reader) string {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		// crypto/rand never fails; a test's source must not either
		panic("grapnel: no randomness for a token: " + err.Error())
	}
	return encodeID(prefix, b)
}

// ValidID says whether a publisher may use s as an event's id: 1 to 64 characters of [A-Za-z0-9_-].
// A dot would make the signed content ambiguous.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func putMillis(b *[16]byte, at time.Time) {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(b[:6], ms[2:])
}

// encodeID writes 128 bits as 26 characters of 5 bits; the first one has only 3.
func encodeID(prefix string, b [16]byte) string {
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	var text [26]byte
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = alphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	var out [40]byte // any prefix of this package fits in
	return string(append(append(append(out[:0], prefix...), '_'), text[:]...))
}

func decodeID(prefix, id string) (b [16]byte, err error) {
	text, ok := strings.CutPrefix(id, prefix+"_")
	if !ok || len(text) != 26 || text[0] > '7' {
		return b, errBadID
	}
	var hi, lo uint64
	for i := range len(text) {
		v := strings.IndexByte(alphabet, text[i])
		if v < 0 {
			return b, errBadID
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	return b, nil
}
