package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/canonical"
)

// event makes an event of a row, or returns its fault. The producer's database has checked most of
// it, but rows can be written without its function, and its rules for JSON are a little wider.
func (c *courier) event(r *row, now time.Time) (_ *grapnel.Event, wrong string) {
	switch {
	case r.wrong != "":
		return nil, r.wrong
	case r.size > c.runner.o.MaxEvent && r.data == nil:
		return nil, fmt.Sprintf("its data has %d bytes and is not stored; at most %d are allowed", r.size, c.runner.o.MaxEvent)
	case r.size > c.runner.o.MaxEvent:
		return nil, fmt.Sprintf("its data has %d bytes; at most %d are allowed", r.size, c.runner.o.MaxEvent)
	case !grapnel.ValidType(r.kind):
		return nil, "its type is not made of segments of 1 to 64 characters of [A-Za-z0-9_-], joined by dots"
	case grapnel.IsAlert(r.kind):
		return nil, "its type is reserved: only the server makes alerts (grapnel.alert.*)"
	case !grapnel.ValidID(r.event):
		return nil, "its id is not 1 to 64 characters of [A-Za-z0-9_-]"
	case len(r.key) > grapnel.MaxKeyLength || !utf8.ValidString(r.key) || strings.ContainsFunc(r.key, control):
		return nil, fmt.Sprintf("its key is not at most %d bytes of text without control characters", grapnel.MaxKeyLength)
	case r.garbled || !small(r.metadata):
		return nil, fmt.Sprintf("its metadata are not at most %d strings of at most %d bytes", grapnel.MaxMetadata, grapnel.MaxMetadataLength)
	case r.occurredAt == nil:
		return nil, "its occurred_at is not a time in the years 1 to 9999"
	case r.media != "": // a message's body is as it is
	case !json.Valid(r.data) || !utf8.Valid(r.data):
		return nil, "its data is not JSON in UTF-8"
	case canonical.Deeper(r.data, grapnel.MaxDepth):
		return nil, fmt.Sprintf("its data is nested more than %d levels deep", grapnel.MaxDepth)
	}
	ev := &grapnel.Event{
		ID: r.event, Tenant: c.source.Tenant, Type: r.kind, Key: r.key, Data: r.data, ContentType: cmp.Or(r.media, grapnel.JSONType),
		Metadata: r.metadata, OccurredAt: *r.occurredAt, AcceptedAt: now, Source: c.source.ID,
	}
	if r.trace != "" {
		ev.SetTrace(r.trace)
	}
	return ev, ""
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

func small(metadata map[string]string) bool {
	for name, text := range metadata {
		if len(name) > grapnel.MaxMetadataLength || len(text) > grapnel.MaxMetadataLength {
			return false
		}
	}
	return len(metadata) <= grapnel.MaxMetadata
}

// setAside stores a row where people see it. The inbox lists requests by their ids, so the time of
// the id is now, not that of the commit. Repeating it for the same row changes nothing, because the
// id stays; after a crash of this process before the row is removed, it may be stored twice.
func (c *courier) setAside(ctx context.Context, r *row, why grapnel.AsideReason, wrong string) error {
	now, row := c.runner.o.Now(), [2]int64{r.number, r.id}
	shelf := c.given[row]
	if shelf == nil {
		shelf = &shelving{id: grapnel.NewID(grapnel.AsidePrefix, now, rand.Reader)}
		c.given[row] = shelf
	}
	if shelf.done { // by an earlier try of the same rows
		c.aside++
		return nil
	}
	cost := c.runner.o.Bounds.AsideCost * time.Duration(1+len(r.data)/asidePart)
	if wait := c.runner.asides.Take(c.source.Tenant, now, cost, c.runner.o.Bounds.AsideBurst); wait > 0 {
		return &grapnel.Error{Code: grapnel.CodeRateLimited, RetryAfter: wait, Detail: "too many of the tenant's events are refused, the last because " + wrong}
	}
	in := grapnel.Intake{Source: c.source.ID, At: now, Headers: r.about(), Checks: []grapnel.Check{{Text: wrong}}}
	other := ""
	if why == grapnel.AsideConflict {
		in.By, in.Known, other = grapnel.ByEventID, r.event, r.event
	}
	err := c.runner.o.Store.SetAside(ctx, grapnel.Aside{
		ID: shelf.id, Tenant: c.source.Tenant, Why: why, Event: other,
		ContentType: cmp.Or(r.media, grapnel.JSONType), Body: r.data, Size: len(r.data), Intake: in,
	})
	if err == nil {
		shelf.done = true
		c.aside++
	}
	return err
}

// asidePart is the number of bytes of a body that cost as much of the allowance as a row.
const asidePart = 64 << 10

// about returns a row's fields besides its data, as headers of a request.
func (r *row) about() []grapnel.Header {
	all := []grapnel.Header{
		{Name: "Type", Value: r.kind},
		{Name: "Id", Value: r.event},
	}
	if r.occurredAt != nil {
		all = append(all, grapnel.Header{Name: "Occurred-At", Value: r.occurredAt.UTC().Format(time.RFC3339Nano)})
	}
	if r.key != "" {
		all = append(all, grapnel.Header{Name: "Key", Value: r.key})
	}
	return append(all, r.headers...)
}
