package api

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// A cursor says where the next page of a list begins. It is bound to the path and the filters of the list that gave it, and to the
// tenant who asked: with any other request it is refused instead of giving a page of something else. Which rows a list
// returns is decided by the key that asks.
//
// A position is mostly a row id, which counts the rows of all tenants. So it is encrypted, and nobody can make the cursor of a
// position that they guess: where that page began would tell them the row ids of their own rows. The check is the
// initialization vector of the encryption, so each position of each list is encrypted in a way of its own.

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

// crypt encrypts a position or decrypts it again.
func (s *cursors) crypt(check, position []byte) []byte {
	out := make([]byte, len(position))
	cipher.NewCTR(s.block, check).XORKeyStream(out, position)
	return out
}

// cursor makes the cursor behind which position follows.
func (c *call) cursor(position string) *string {
	if rest := len(position) % cursorUnit; rest > 0 {
		position += strings.Repeat("\x00", cursorUnit-rest)
	}
	check := c.cursorCheck(position)
	text := base64.RawURLEncoding.EncodeToString(append(check, c.cursors.crypt(check, []byte(position))...))
	return &text
}

// position is where the list shall go on; empty: at its beginning.
func (c *call) position() string {
	text := c.query.text("cursor")
	if text == "" {
		return ""
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err == nil && len(raw) > cursorCheck {
		check := raw[:cursorCheck]
		position := string(c.cursors.crypt(check, raw[cursorCheck:]))
		if hmac.Equal(c.cursorCheck(position), check) {
			return strings.TrimRight(position, "\x00")
		}
	}
	c.query.faults.Add("?cursor", "must be the next of an answer to the same request")
	return ""
}

// number is the position in a list that is ordered by number; 0: its beginning.
func (c *call) number() int64 {
	position := c.position()
	if position == "" {
		return 0
	}
	n, err := strconv.ParseInt(position, 10, 64)
	if err != nil || n <= 0 {
		c.query.faults.Add("?cursor", "must be the next of an answer to the same request")
	}
	return n
}

func (c *call) cursorCheck(position string) []byte {
	filter := url.Values{}
	for name, values := range c.query.values {
		if name != "cursor" && name != "limit" {
			filter[name] = values
		}
	}
	h := hmac.New(sha256.New, c.cursors.check[:])
	for _, part := range []string{c.URL.Path, filter.Encode(), c.key.Tenant, position} {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum(nil)[:cursorCheck]
}

// list is a page of things.
type list[T any] struct {
	Data []T     `json:"data" nullable:"false"`
	Next *string `json:"next" doc:"the cursor of the next page; null: this is the last"`
}

// inWire says that encode leaves a list to package wire, which writes its entries without another
// pass over them.
func (list[T]) inWire() {}

// page cuts a list that was asked for one more than fits, and makes its cursor from the last one shown.
func page[T any](c *call, found []T, limit int, position func(*T) string) list[T] {
	l := list[T]{Data: found}
	if len(found) > limit {
		l.Data = found[:limit]
		l.Next = c.cursor(position(&l.Data[limit-1]))
	}
	if l.Data == nil {
		l.Data = []T{}
	}
	return l
}
