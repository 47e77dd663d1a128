package grapnel

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// IDKey is the key of a store's ids. The store creates it once and stores it with its rows.
type IDKey []byte

// Format keeps the secret out of logs and errors.
func (IDKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[id key]") }

// IDs encodes and decodes the ids of the deliveries of one store, and of their attempts.
//
// Such an id is computed from the row id, so that finding the delivery is a look-up by primary key.
// A row id counts the deliveries of all tenants, so the id contains it encrypted: two ids do not
// tell the number of deliveries between them, and without the key an attacker cannot make the id of
// a guessed row id. The millisecond of creation is not encrypted, so ids sort by it.
//
//	48 bits  milliseconds
//	64 bits  the row id, encrypted by a permutation that the millisecond takes part in
//	 1 bit   1: the row id is encrypted; 0: in clear, in texts that only the store reads (PlainDeliveryID)
//	15 bits  the attempt's number; 0 in the id of a delivery
type IDs struct {
	block cipher.Block
	key   IDKey
}

// rounds is the number of rounds of the permutation. Four make a Feistel network a strong
// permutation; each one costs 20 ns.
const rounds = 6

// The first byte of an encrypted block tells its use; below rounds it is a round.
const blockOfSeed = 0xff

const (
	sealedBit   = 1 << 15
	mostInAnID  = sealedBit - 1 // attempts that an id can count
	idSubkey    = "ids of deliveries"
	cipherBytes = 16
)

// NewIDs returns the codec of ids with a key, which must not be empty.
func NewIDs(key IDKey) *IDs {
	ids := &IDs{key: key}
	subkey := ids.Subkey(idSubkey)
	block, err := aes.NewCipher(subkey[:cipherBytes])
	if err != nil {
		// the key has one of the lengths that AES takes
		panic("grapnel: no cipher for ids: " + err.Error())
	}
	ids.block = block
	return ids
}

// Key is the key of the ids.
func (i *IDs) Key() IDKey { return i.key }

// Subkey derives a key for another use from the store's: neither can be computed from the other
// use's.
func (i *IDs) Subkey(use string) (key [32]byte) {
	h := hmac.New(sha256.New, i.key)
	_, _ = h.Write([]byte(use))
	return [32]byte(h.Sum(nil))
}

// Of is the id of a delivery.
func (i *IDs) Of(d *Delivery) string { return i.Delivery(d.CreatedAt, d.Seq) }

// Delivery is the id of the delivery with the row id seq.
func (i *IDs) Delivery(created time.Time, seq int64) string {
	return encodeID(DeliveryPrefix, i.sealed(created, seq, 0))
}

// Attempt is the id of a delivery's attempt n (1, 2, …): the delivery's with n in its last bits.
func (i *IDs) Attempt(created time.Time, seq int64, n int) string {
	return encodeID(AttemptPrefix, i.sealed(created, seq, min(n, mostInAnID)))
}

// Seed replaces a row id as the seed of numbers that callers can see, such as the jitter of a
// delivery's attempts. A caller could find the row id itself by trying.
func (i *IDs) Seed(seq int64) uint64 {
	var b [cipherBytes]byte
	b[0] = blockOfSeed
	binary.BigEndian.PutUint64(b[8:], uint64(seq))
	i.block.Encrypt(b[:], b[:])
	return binary.BigEndian.Uint64(b[:])
}

// Reading is the delivery that an id may mean: it is that delivery if it was created in that
// millisecond.
type Reading struct {
	Seq    int64
	Millis int64
}

// Read returns what a delivery's id says. The caller compares it with the delivery found
// (Reading.Is): in an id that this store did not make, the row id is random.
func (i *IDs) Read(id string) (Reading, error) {
	b, err := decodeID(DeliveryPrefix, id)
	if err != nil {
		return Reading{}, err
	}
	seq := i.unseal(b)
	if binary.BigEndian.Uint16(b[14:]) != sealedBit || seq <= 0 {
		return Reading{}, errBadID
	}
	return Reading{seq, millisOf(b)}, nil
}

// Is says whether the delivery found by the reading's row id is the one that the id means.
func (r Reading) Is(d *Delivery) bool { return d.Seq == r.Seq && d.CreatedAt.UnixMilli() == r.Millis }

// PlainDeliveryID names a delivery in stored texts: with the row id in clear. No caller of the API
// sees it.
func PlainDeliveryID(created time.Time, seq int64) string {
	b := millisIn(created)
	binary.BigEndian.PutUint64(b[6:14], uint64(seq))
	return encodeID(DeliveryPrefix, b)
}

// PlainID is PlainDeliveryID of the delivery.
func (d *Delivery) PlainID() string { return PlainDeliveryID(d.CreatedAt, d.Seq) }

// FromPlain is the id of a delivery that a store names in a stored text.
func (i *IDs) FromPlain(plain string) string {
	b, err := decodeID(DeliveryPrefix, plain)
	if err != nil || binary.BigEndian.Uint16(b[14:]) != 0 {
		return plain
	}
	return i.Delivery(time.UnixMilli(millisOf(b)), int64(binary.BigEndian.Uint64(b[6:14])))
}

// Plain is the opposite of FromPlain.
func (r Reading) Plain() string { return PlainDeliveryID(time.UnixMilli(r.Millis), r.Seq) }

func (i *IDs) sealed(created time.Time, seq int64, n int) [16]byte {
	b := millisIn(created)
	left, right := uint32(uint64(seq)>>32), uint32(uint64(seq))
	var f function
	copy(f[1:7], b[:6])
	for r := range byte(rounds) {
		left, right = right, left^f.of(i.block, r, right)
	}
	binary.BigEndian.PutUint32(b[6:], left)
	binary.BigEndian.PutUint32(b[10:], right)
	binary.BigEndian.PutUint16(b[14:], sealedBit|uint16(n))
	return b
}

func (i *IDs) unseal(b [16]byte) int64 {
	left, right := binary.BigEndian.Uint32(b[6:]), binary.BigEndian.Uint32(b[10:])
	var f function
	copy(f[1:7], b[:6])
	for r := range byte(rounds) {
		left, right = right^f.of(i.block, rounds-1-r, left), left
	}
	return int64(uint64(left)<<32 | uint64(right))
}

// function is the permutation's: of the round, of the milliseconds, and of one half. It is a block
// with the milliseconds in it, and space for the plain block and the result.
type function [2 * cipherBytes]byte

func (f *function) of(block cipher.Block, round byte, half uint32) uint32 {
	f[0] = round
	binary.BigEndian.PutUint32(f[8:], half)
	block.Encrypt(f[cipherBytes:], f[:cipherBytes])
	return binary.BigEndian.Uint32(f[cipherBytes:])
}

func millisIn(at time.Time) (b [16]byte) {
	putMillis(&b, at)
	return b
}

func millisOf(b [16]byte) int64 {
	return int64(binary.BigEndian.Uint64(append([]byte{0, 0}, b[:6]...)))
}
