package api

import (
	"cmp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// newEvent is how an event is published. Publishing does not pass through it: readDraft walks the bytes. It is the document's picture
// of what readDraft takes, and a test holds the two together.
type newEvent struct {
	Type          string            `json:"type" required:"true" maxLength:"128" example:"invoice.paid" doc:"dotted segments of [A-Za-z0-9_-]"`
	Data          any               `json:"data" required:"true" doc:"any JSON; kept and delivered byte for byte"`
	Key           string            `json:"key,omitempty" minLength:"1" maxLength:"256" doc:"the ordering key: events of one key reach an endpoint one after the other. None: no order"`
	AggregateType string            `json:"aggregate_type,omitempty" maxLength:"128" doc:"with aggregate_id instead of key, which becomes type/id; has no slash"`
	AggregateID   string            `json:"aggregate_id,omitempty"`
	ID            string            `json:"id,omitempty" pattern:"^[A-Za-z0-9_-]{1,64}$" doc:"makes publishing idempotent: the same id again changes nothing"`
	Tenant        string            `json:"tenant,omitempty" pattern:"^[A-Za-z0-9_-]{1,64}$" doc:"the key's tenant, else default"`
	OccurredAt    time.Time         `json:"occurred_at,omitempty" doc:"when it happened; none: when it was accepted"`
	Metadata      map[string]string `json:"metadata,omitempty" maxProperties:"32" doc:"at most 32 strings of at most 1024 bytes"`
}

// draft is an event as it came, from a body or from a query.
type draft struct {
	kind, key, id, tenant      optional
	aggregateType, aggregateID optional
	occurredAt                 optional
	metadata                   map[string]string
	data                       []byte
	hasData                    bool
	contentType                string
}

// optional is a text that may not have been given; the empty text is something else.
type optional struct {
	text  string
	given bool
}

// readDraft reads an event from a JSON object. raw is the document that object's Index counts in.
func readDraft(raw []byte, object gjson.Result, base string, f *faults) (d draft) {
	d.contentType = grapnel.JSONType
	if !object.IsObject() {
		f.add(base[:len(base)-1], "must be an object")
		return d
	}
	members(object, base, f, func(v value) bool {
		var into *optional
		switch v.name {
		case "type":
			into = &d.kind
		case "key":
			into = &d.key
		case "id":
			into = &d.id
		case "tenant":
			into = &d.tenant
		case "aggregate_type":
			into = &d.aggregateType
		case "aggregate_id":
			into = &d.aggregateID
		case "occurred_at":
			into = &d.occurredAt
		case "metadata":
			if !v.absent() {
				d.metadata = v.texts(grapnel.MaxMetadata, grapnel.MaxMetadataLength)
			}
			return true
		case "data":
			// The bytes themselves, null included.
			d.data, d.hasData = own(raw, v.Index, v.Index+len(v.Raw)), true
			return true
		default:
			return false
		}
		if !v.absent() {
			if text, ok := v.text(); ok {
				*into = optional{text, true}
			} else {
				*into = optional{"", true}
			}
		}
		return true
	})
	return d
}

// own is a part of a document as bytes that do not keep much more than themselves in memory: an event lives on in the engine when its
// request is long over, and in a batch it may be the only one that does.
func own(raw []byte, from, to int) []byte {
	part := raw[from:to:to]
	if len(raw)-len(part) > 1<<10 {
		return slices.Clone(part)
	}
	return part
}

// event makes an event of a draft, or says what is wrong with it. Pointers are base and the field's name.
func (a *api) event(c *call, d *draft, base string, f *faults) store.Incoming {
	ev := &grapnel.Event{
		ID: d.id.text, Type: d.kind.text, Key: d.key.text, Data: d.data, ContentType: d.contentType, Metadata: d.metadata,
		OccurredAt: c.now, AcceptedAt: c.now,
	}
	switch {
	case !d.kind.given:
		f.add(base+"type", "is required")
	case !grapnel.ValidType(ev.Type):
		f.add(base+"type", "must be segments of [A-Za-z0-9_-] joined by dots, at most %d bytes in all", grapnel.MaxTypeLength)
	}
	if !d.hasData {
		f.add(base+"data", "is required")
	} else if d.contentType == grapnel.JSONType && deeper(d.data, grapnel.MaxDepth) {
		f.add(base+"data", "is nested more than %d levels deep", grapnel.MaxDepth)
	}
	if d.key.given {
		checkKey(ev.Key, base+"key", f)
	}
	if d.aggregateType.given || d.aggregateID.given {
		ev.Key = d.aggregateKey(base, f)
	}
	switch {
	case !d.id.given:
		ev.ID = a.newID(grapnel.EventPrefix, c.now)
	case !grapnel.ValidID(ev.ID):
		f.add(base+"id", "must be 1 to 64 characters of [A-Za-z0-9_-]")
	}
	ev.Tenant = c.tenant(d.tenant, base+"tenant", f)
	if d.occurredAt.given {
		at, err := time.Parse(time.RFC3339, d.occurredAt.text)
		if err != nil || at.UTC().Year() < 1 || at.UTC().Year() > 9999 {
			f.add(base+"occurred_at", "must be a time as in 2026-01-31T12:00:00Z")
		}
		ev.OccurredAt = at.UTC()
	}
	return store.Incoming{Event: ev}
}

func checkKey(key, pointer string, f *faults) {
	if key == "" || len(key) > grapnel.MaxKeyLength || !printable(key) || !utf8.ValidString(key) {
		f.add(pointer, "must be 1 to %d bytes of text without control characters", grapnel.MaxKeyLength)
	}
}

// aggregateKey makes one key of an aggregate's type and id. The type has no slash, so no two aggregates share a key.
func (d *draft) aggregateKey(base string, f *faults) string {
	switch {
	case d.key.given:
		f.add(base+"key", "must not be given together with aggregate_type and aggregate_id")
	case !d.aggregateType.given:
		f.add(base+"aggregate_type", "is required with aggregate_id")
	case !d.aggregateID.given:
		f.add(base+"aggregate_id", "is required with aggregate_type")
	case !grapnel.ValidType(d.aggregateType.text):
		f.add(base+"aggregate_type", "must be segments of [A-Za-z0-9_-] joined by dots")
	case d.aggregateID.text == "":
		f.add(base+"aggregate_id", "must not be empty")
	default:
		key := d.aggregateType.text + "/" + d.aggregateID.text
		checkKey(key, base+"aggregate_id", f)
		return key
	}
	return ""
}

// tenant is whose a new thing is: the one named, if the key may name it, or the key's own, or the default.
func (c *call) tenant(named optional, pointer string, f *faults) string {
	own := c.key.Tenant
	tenant := cmp.Or(own, grapnel.DefaultTenant)
	switch {
	case !named.given:
	case !grapnel.ValidTenant(named.text):
		f.add(pointer, "must be 1 to %d characters of [A-Za-z0-9_-]", grapnel.MaxTenantLength)
		return named.text
	case own != "" && own != named.text:
		f.add(pointer, "must be %s, the tenant of the API key, or left out", own)
	default:
		tenant = named.text
	}
	f.away = cmp.Or(f.away, c.away(tenant))
	return tenant
}

// tooMuchData refuses an event whose data is over the limit.
func (a *api) tooMuchData(data []byte) error {
	if int64(len(data)) > a.MaxEvent {
		return grapnel.Errorf(grapnel.CodeTooLarge, "The event's data is %d bytes; at most %d are taken.", len(data), a.MaxEvent)
	}
	return nil
}

// appendResult writes the answer for one event that was accepted.
func appendResult(b []byte, id string, p store.Placed) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, id...) // a valid id needs no escaping
	b = append(b, `","accepted_at":"`...)
	b = p.AcceptedAt.UTC().AppendFormat(b, stampLayout)
	b = append(b, `","deliveries":`...)
	b = strconv.AppendInt(b, int64(p.Deliveries), 10)
	b = append(b, `,"duplicate":`...)
	b = strconv.AppendBool(b, p.Duplicate)
	return append(b, '}')
}
