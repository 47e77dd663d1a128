package client

import (
	"encoding/json"
	"fmt"

	"github.com/grapnelhq/grapnel/wire"
)

// Raw has the server's own JSON of an object, so that a program can show all of it: fields that
// this client does not know yet, and numbers with their original digits.
type Raw = wire.Raw

type keeper interface{ Keep([]byte) }

// Page is a part of a list.
type Page[T any] struct {
	Raw
	Data []T
	Next string // cursor of the next page; empty: this is the last
}

// UnmarshalJSON reads a list and keeps the JSON of each of its objects.
func (p *Page[T]) UnmarshalJSON(text []byte) error {
	var doc struct {
		Data []json.RawMessage `json:"data"`
		Next *string           `json:"next"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return err
	}
	p.Data = make([]T, len(doc.Data))
	for i, item := range doc.Data {
		if err := decode(item, &p.Data[i]); err != nil {
			return err
		}
	}
	if doc.Next != nil {
		p.Next = *doc.Next
	}
	return nil
}

func decode(text []byte, out any) error {
	switch out := out.(type) {
	case nil:
		return nil
	case *json.RawMessage:
		*out = text
		return nil
	}
	read := func() error { return json.Unmarshal(text, out) }
	if list, ok := out.(json.Unmarshaler); ok { // directly: package json would go over the text twice before
		read = func() error { return list.UnmarshalJSON(text) }
	}
	if err := read(); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	if k, ok := out.(keeper); ok {
		k.Keep(text)
	}
	return nil
}
