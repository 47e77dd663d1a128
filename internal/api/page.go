package api

import (
	"net/url"
	"strconv"

	"github.com/grapnelhq/grapnel/internal/api/strict"
)

// list is a page of things.
type list[T any] struct {
	Data []T     `json:"data" nullable:"false"`
	Next *string `json:"next" doc:"cursor of the next page; null: this is the last"`
}

// inWire says that encode leaves a list to package wire, which writes its entries without another
// pass over them.
func (list[T]) inWire() {}

// page cuts a list that was asked for one more than fits, and makes its cursor from the last one
// shown.
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

// cursor makes the cursor behind which position follows.
func (c *call) cursor(position string) *string {
	text := c.cursors.write(c.listed(), position)
	return &text
}

// position is where the list shall go on; empty: at its beginning.
func (c *call) position() string {
	text := c.query.text("cursor")
	if text == "" {
		return ""
	}
	position, ok := c.cursors.read(c.listed(), text)
	if !ok {
		c.query.faults.Add("?cursor", "must be the next of an answer to the same request")
		return ""
	}
	return position
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

// listed says which list is asked for: path, filters, and the tenant who asks.
func (c *call) listed() []string {
	filter := url.Values{}
	for name, values := range c.query.values {
		if name != "cursor" && name != "limit" {
			filter[name] = values
		}
	}
	return []string{c.URL.Path, filter.Encode(), c.key.Tenant}
}

// pageOf adds the parameters of every list to those of one.
func pageOf(own ...param) []param {
	return append(own,
		param{name: "limit", bound: func(b *Bounds) strict.Form { return strict.WholeNumber(1, b.PageMost) }, doc: "how many to return at most: 1 to 500, 50 if not given"},
		param{name: "cursor", form: "cursor", doc: "next of the previous page"})
}
