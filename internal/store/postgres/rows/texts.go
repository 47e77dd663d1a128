package rows

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel/internal/store"
)

// text is the storable form of a text: PostgreSQL refuses NUL and bytes that are not UTF-8, so
// those become U+FFFD. Otherwise one text chosen by a receiver or an operator would make the
// database refuse a whole page of outcomes, at every try.
//
// It is only for texts that people read. A name, a key or an id is refused instead, because a
// changed one would identify another object.
func text(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Legible returns a batch of Grapnel's own events with storable texts.
func Legible(b *store.Batch) *store.Batch {
	if b == nil {
		return nil
	}
	clean := *b
	clean.Events = slices.Clone(b.Events)
	for i := range clean.Events {
		in := &clean.Events[i]
		e := *in.Event
		for _, field := range []*string{&e.ID, &e.Tenant, &e.Type, &e.Source, &e.Key, &e.ContentType} {
			*field = text(*field)
		}
		in.Event, in.Targets = &e, slices.Clone(in.Targets)
		for j := range in.Targets {
			for _, field := range []*string{&in.Targets[j].Endpoint, &in.Targets[j].Drop} {
				*field = text(*field)
			}
		}
	}
	return &clean
}

// Possible are the ids that rows can have. No row has an id with NUL or with bytes that are not
// UTF-8.
func Possible(ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return text(id) != id })
}
