package api

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// A cursor says where the next page of a list begins. It is bound to the path and the filters of
// the list that gave it, and to the tenant who asked: with any other request it is refused instead
// of giving a page of something else. Which rows a list returns is decided by the key that asks.
//
// A position is mostly a row id, which counts the rows of all tenants. So it is encrypted, and a
// caller cannot make the cursor of a guessed position: the beginning of that page would tell the
// row ids of the caller's own rows. The check is the initialization vector of the encryption, so
// each position of each list is encrypted in a way of its own.

const (
	cursorCheck = aes.BlockSize // bytes that bind a cursor to its list
	cursorUnit  = 32            // positions are filled up to a multiple, so that their length tells nothing
)

// cursors encrypts and checks positions with keys derived from the store's.
type cursors struct {
	block cipher.Block
	check [32]byte
}

func newCursors(ids *grapnel.IDs) *cursors {
	key := ids.Subkey("cursors")
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("api: no cipher for cursors: " + err.Error()) // the key has one of the lengths that AES takes
	}
	return &cursors{block: block, check: ids.Subkey("checks of cursors")}
}

// write makes the cursor behind which position follows. of says which list of whom it is a cursor
// of.
func (s *cursors) write(of []string, position string) string {
	if rest := len(position) % cursorUnit; rest > 0 {
		position += strings.Repeat("\x00", cursorUnit-rest)
	}
	check := s.sum(of, position)
	return base64.RawURLEncoding.EncodeToString(append(check, s.crypt(check, []byte(position))...))
}

// read returns the position of a cursor that write made of the same list.
func (s *cursors) read(of []string, text string) (position string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) <= cursorCheck {
		return "", false
	}
	check := raw[:cursorCheck]
	position = string(s.crypt(check, raw[cursorCheck:]))
	return strings.TrimRight(position, "\x00"), hmac.Equal(s.sum(of, position), check)
}

// crypt encrypts a position or decrypts it again.
func (s *cursors) crypt(check, position []byte) []byte {
	out := make([]byte, len(position))
	cipher.NewCTR(s.block, check).XORKeyStream(out, position)
	return out
}

// sum is the check of a position.
func (s *cursors) sum(of []string, position string) []byte {
	h := hmac.New(sha256.New, s.check[:])
	for _, part := range append(slices.Clip(of), position) {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum(nil)[:cursorCheck]
}
