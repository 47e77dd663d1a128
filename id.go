package grapnel

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"time"
)

// Prefixes of the ids that Grapnel gives. A prefix is followed by an underscore and 26 characters that sort by time.
const (
	EventPrefix    = "evt"
	EndpointPrefix = "ep"
	DeliveryPrefix = "dlv"
	AttemptPrefix  = "att"
	KeyPrefix      = "key"
	PolicyPrefix   = "pol"
	ReplayPrefix   = "rpl"
	SourcePrefix   = "src"
	QueuePrefix    = "que" // of an endpoint that is a queue
	LeasePrefix    = "lse"
	AsidePrefix    = "req" // of a request that was set aside
)

// alphabet is Crockford's base 32 in lower case: no i, l, o or u, and its order is the order of the bytes it stands for.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var errBadID = errors.New("not an id of this kind")

// NewID makes an id whose unique part is a UUIDv7: 48 bits of milliseconds, then 74 random bits.
func NewID(prefix string, now time.Time, random io.Reader) string {
	var b [16]byte
	if _, err := io.ReadFull(random, b[6:]); err != nil {
		panic("grapnel: no randomness for an id: " + err.Error()) // crypto/rand never fails; a test's source must not either
	}
	putMillis(&b, now)
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return encodeID(prefix, b)
}

// NewToken makes something that nobody can guess: 128 random bits, without a time.
func NewToken(prefix string, random io.Reader) string {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		panic("grapnel: no randomness for a token: " + err.Error()) // crypto/rand never fails; a test's source must not either
	}
	return encodeID(prefix, b)
}

// DeliveryID is the id of the delivery with the given sequence number. It is computed, not stored: the unique part carries
// the second of acceptance and the number itself, so finding a delivery by its id is a look-up by primary key.
func DeliveryID(accepted time.Time, seq int64) string {
	return encodeID(DeliveryPrefix, numbered(accepted, seq, 0))
}

// AttemptID is the id of a delivery's attempt number n (1, 2, …): the delivery's unique part with the number in its last bits.
func AttemptID(accepted time.Time, seq int64, n int) string {
	return encodeID(AttemptPrefix, numbered(accepted, seq, uint16(n)))
}

// ParseDeliveryID returns the sequence number in a delivery's id and the millisecond of acceptance, which the caller compares
// with the delivery found so that a guessed number finds nothing.
func ParseDeliveryID(id string) (seq int64, acceptedMillis int64, err error) {
	b, err := decodeID(DeliveryPrefix, id)
	if err != nil {
		return 0, 0, err
	}
	seq = int64(binary.BigEndian.Uint64(b[6:14]))
	if seq <= 0 || b[14] != 0 || b[15] != 0 {
		return 0, 0, errBadID
	}
	return seq, int64(binary.BigEndian.Uint64(append([]byte{0, 0}, b[:6]...))), nil
}

// ValidID says whether a publisher may use s as an event's id: 1 to 64 characters of [A-Za-z0-9_-]. A dot would make
// the signed content ambiguous.
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

func numbered(at time.Time, seq int64, n uint16) (b [16]byte) {
	putMillis(&b, at)
	binary.BigEndian.PutUint64(b[6:14], uint64(seq))
	binary.BigEndian.PutUint16(b[14:16], n)
	return b
}

func putMillis(b *[16]byte, at time.Time) {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(b[:6], ms[2:])
}

// encodeID writes 128 bits as 26 characters of 5 bits, the first of which holds only 3.
func encodeID(prefix string, b [16]byte) string {
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	out := make([]byte, len(prefix)+1+26)
	copy(out, prefix)
	out[len(prefix)] = '_'
	for i := len(out) - 1; i > len(prefix); i-- {
		out[i] = alphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(out)
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
