package api

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/canonical"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// draft is an event as it came, from a body or from a query.
type draft struct {
	kind, key, id, tenant      optional
	aggregateType, aggregateID optional
	occurredAt, deliverAt      optional
	metadata                   map[string]string
	data                       []byte
	hasData                    bool
	contentType                string
}

// text is the text of a name; nil: there is none.
func (d *draft) text(name string) *optional {
	switch name {
	case "type":
		return &d.kind
	case "key":
		return &d.key
	case "id":
		return &d.id
	case "tenant":
		return &d.tenant
	case "aggregate_type":
		return &d.aggregateType
	case "aggregate_id":
		return &d.aggregateID
	case "occurred_at":
		return &d.occurredAt
	case "deliver_at":
		return &d.deliverAt
	}
	return nil
}

// optional is a text that may not have been given; the empty text is something else.
type optional struct {
	text  string
	given bool
}

// publish takes one event.
func publish(a *api, c *call) (answer, error) {
	var f strict.Faults
	d := readDraft(c.body, strict.Document(c.body), "/", &f)
	return a.publishOne(c, &d, "/", &f)
}

// publishRaw takes the body as the event's data.
func publishRaw(a *api, c *call) (answer, error) {
	contentType := c.Header.Get("Content-Type")
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.Contains(media, "/") || len(contentType) > 256 || !strict.Printable(contentType) {
		return answer{}, grapnel.Errorf(grapnel.CodeUnsupported, "Content-Type is not a media type.")
	}
	if media == grapnel.JSONType {
		// What says that it is JSON goes into JSON envelopes as it is, so it has to be.
		if err := strict.Check(c.body, grapnel.MaxDepth); err != nil {
			return answer{}, err
		}
	}
	d := draft{data: c.body, hasData: true, contentType: contentType}
	for _, p := range c.route.query {
		*d.text(p.name) = optional{c.query.text(p.name), c.query.values.Has(p.name)}
	}
	return a.publishOne(c, &d, "?", &c.query.faults)
}

func (a *api) publishOne(c *call, d *draft, base string, f *strict.Faults) (answer, error) {
	if err := a.tooMuchData(d.data); err != nil {
		return answer{}, err
	}
	in := a.event(c, d, base, f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	events := []store.Incoming{in}
	if err := a.checked(c, events, d.id.given, base, f); err != nil {
		return answer{}, err
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	reply := func(done store.Accepted) answer { return publishedAnswer(a, c, in.Event.ID, done.Events[0]) }
	return a.published(c, events, reply)
}

// published has events accepted, and answers with the result and with what is left of the limit of
// the first one's tenant.
func (a *api) published(c *call, events []store.Incoming, reply func(store.Accepted) answer) (answer, error) {
	done, err := a.Engine.Publish(c.Context(), events, withEffect(c, reply))
	ans, err := answered(done, done.Answer, err, reply)
	if err == nil {
		ans.quota = a.Engine.Quota(events[0].Event.Tenant)
	}
	return ans, err
}

// publishedAnswer says what became of one event.
func publishedAnswer(a *api, c *call, id string, p store.Placed) answer {
	switch {
	case p.Conflict:
		return a.refuse(c, errOtherContent)
	case p.Duplicate:
		return answer{status: http.StatusOK, body: appendResult(nil, id, p)}
	}
	return answer{status: http.StatusAccepted, body: appendResult(make([]byte, 0, 128), id, p)}
}

// appendResult writes the answer for one event that was accepted.
func appendResult(b []byte, id string, p store.Placed) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, id...) // a valid id needs no escaping
	b = append(b, `","accepted_at":"`...)
	b = p.AcceptedAt.UTC().AppendFormat(b, wire.TimeLayout)
	b = append(b, `","deliveries":`...)
	b = strconv.AppendInt(b, int64(p.Deliveries), 10)
	b = append(b, `,"duplicate":`...)
	b = strconv.AppendBool(b, p.Duplicate)
	return append(b, '}')
}

// errOtherContent is for an id that was used for something else.
var errOtherContent = grapnel.Errorf(grapnel.CodeConflict, "An event with this id exists and has another type, key or data.")

// readDraft reads an event from a JSON object. raw is the document that object's Index counts in.
func readDraft(raw []byte, object gjson.Result, base string, f *strict.Faults) (d draft) {
	d.contentType = grapnel.JSONType
	if !object.IsObject() {
		f.Add(base[:len(base)-1], "must be an object")
		return d
	}
	strict.Members(object, base, f, func(v strict.Value) bool {
		switch into := d.text(v.Name); {
		case v.Name == "data":
			// The bytes themselves, null included.
			d.data, d.hasData = own(raw, v.Index, v.Index+len(v.Raw)), true
		case v.Name != "metadata" && into == nil:
			return false
		case v.Absent():
		case into == nil:
			d.metadata = v.Texts(grapnel.MaxMetadata, grapnel.MaxMetadataLength)
		default:
			text, _ := v.Text()
			*into = optional{text, true}
		}
		return true
	})
	return d
}

// own is a part of a document as bytes that do not keep much more than themselves in memory: an
// event lives on in the engine when its request is long over, and in a batch it may be the only one
// that does.
func own(raw []byte, from, to int) []byte {
	part := raw[from:to:to]
	if len(raw)-len(part) > 1<<10 {
		return slices.Clone(part)
	}
	return part
}

// event makes an event of a draft, or adds its faults. Pointers are base and the field's name.
func (a *api) event(c *call, d *draft, base string, f *strict.Faults) store.Incoming {
	ev := &grapnel.Event{
		ID: d.id.text, Type: d.kind.text, Key: d.key.text, Data: d.data, ContentType: d.contentType, Metadata: d.metadata,
		OccurredAt: c.now, AcceptedAt: c.now,
	}
	switch {
	case !d.kind.given:
		f.Add(base+"type", "is required")
	case !grapnel.ValidType(ev.Type):
		f.Add(base+"type", "%s, at most %d bytes in all", typeRule, grapnel.MaxTypeLength)
	}
	if grapnel.IsAlert(ev.Type) {
		f.Add(base+"type", "is reserved: only the server makes alerts (grapnel.alert.*)")
	}
	if !d.hasData {
		f.Add(base+"data", "is required")
	} else if d.contentType == grapnel.JSONType && canonical.Deeper(d.data, grapnel.MaxDepth) {
		f.Add(base+"data", "is nested more than %d levels deep", grapnel.MaxDepth)
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
		f.Add(base+"id", "must be 1 to 64 characters of [A-Za-z0-9_-]")
	}
	ev.Tenant = c.tenant(d.tenant, base+"tenant", f)
	if d.occurredAt.given {
		if !strict.IsTime(d.occurredAt.text) {
			f.Add(base+"occurred_at", strict.TimeRule)
		}
		ev.OccurredAt, _ = strict.ParseTime(d.occurredAt.text)
	}
	if is := c.traceparent(); is != "" && ev.Metadata[grapnel.TraceKey] == "" {
		ev.SetTrace(is)
	}
	return store.Incoming{Event: ev, Minted: !d.id.given, NotBefore: a.notBefore(c, d, base, f)}
}

// notBefore is when the event's deliveries begin; zero: at once, as at a time that has passed.
func (a *api) notBefore(c *call, d *draft, base string, f *strict.Faults) time.Time {
	if !d.deliverAt.given {
		return time.Time{}
	}
	at, _ := strict.ParseTime(d.deliverAt.text)
	switch {
	case !strict.IsTime(d.deliverAt.text):
		f.Add(base+"deliver_at", strict.TimeRule)
	case at.Sub(c.now) > a.MaxAhead:
		f.Add(base+"deliver_at", "must be at most %s ahead (--max-ahead)", policy.Duration(a.MaxAhead))
	case at.After(c.now):
		return at
	}
	return time.Time{}
}

// traceparent is the trace context of the request; empty if there is none, several, or one that is
// not valid. The standard asks to ignore such a header: a fault of the tracing costs no event.
func (c *call) traceparent() string {
	given := c.Header.Values(traceHeader)
	if len(given) != 1 {
		return ""
	}
	is, _ := trace.Parse(given[0])
	return is.String()
}

const traceHeader = "Traceparent"

func checkKey(key, pointer string, f *strict.Faults) {
	if !validKey(key) {
		f.Add(pointer, "%s", keyRule)
	}
}

// aggregateKey makes one key of an aggregate's type and id. The type has no slash, so no two
// aggregates share a key.
func (d *draft) aggregateKey(base string, f *strict.Faults) string {
	key := cmp.Or(d.aggregateType.text, "a") + "/" + d.aggregateID.text // without a type, as if it had the shortest
	if d.key.given {
		f.Add(base+"key", "must not be given together with aggregate_type and aggregate_id")
	}
	switch {
	case !d.aggregateType.given:
		f.Add(base+"aggregate_type", "is required with aggregate_id")
	case !grapnel.ValidType(d.aggregateType.text):
		f.Add(base+"aggregate_type", "%s", typeRule)
	}
	switch {
	case !d.aggregateID.given:
		f.Add(base+"aggregate_id", "is required with aggregate_type")
	case d.aggregateID.text == "":
		f.Add(base+"aggregate_id", "must not be empty")
	case !validKey(key):
		f.Add(base+"aggregate_id", "%s, with aggregate_type and a slash before it", keyRule)
	}
	return key
}

// tenant is whose a new thing is: the one named, if the key may name it, or the key's own, or the
// default.
func (c *call) tenant(named optional, pointer string, f *strict.Faults) string {
	own := c.key.Tenant
	tenant := cmp.Or(own, grapnel.DefaultTenant)
	switch {
	case !named.given:
	case !grapnel.ValidTenant(named.text):
		f.Add(pointer, "must be 1 to %d characters of [A-Za-z0-9_-]", grapnel.MaxTenantLength)
		return named.text
	case own != "" && own != named.text:
		f.Add(pointer, "must be %s, the tenant of the API key, or left out", own)
	default:
		tenant = named.text
	}
	return tenant
}

// tooMuchData refuses an event whose data is over the limit.
func (a *api) tooMuchData(data []byte) error {
	if int64(len(data)) > a.MaxEvent {
		return grapnel.Errorf(grapnel.CodeTooLarge, "The event's data has %d bytes; at most %d are allowed.", len(data), a.MaxEvent)
	}
	return nil
}
