package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
)

// A cursor says where the next page of a list begins. It is opaque, and bound to the path and the filters of the list that gave it, and to
// the tenant who asked: with any other request it is refused instead of giving a page of something else. It carries no
// secret, because it gives no right: what a list returns is decided by the key that asks.

const cursorCheck = 8 // bytes that bind a cursor to its list

// cursor makes the cursor behind which position follows.
func (c *call) cursor(position string) *string {
	check := c.cursorCheck(position)
	text := base64.RawURLEncoding.EncodeToString(append(check, position...))
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
		position := string(raw[cursorCheck:])
		if string(c.cursorCheck(position)) == string(raw[:cursorCheck]) {
			return position
		}
	}
	c.query.faults.add("?cursor", "must be the next of an answer to the same request")
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
		c.query.faults.add("?cursor", "must be the next of an answer to the same request")
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
	h := sha256.New()
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
