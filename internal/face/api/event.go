package api

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func eventRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/events", scope: grapnel.ScopePublish, handle: publish,
			name: "publish-event", tag: "Events", summary: "Publish an event",
			about: "Answers 202 once the event and all its deliveries are durable. An id that the tenant has already used " +
				"answers 200 with duplicate true if type, key and data are the same, else 409. " +
				"The header traceparent is stored with the event, unless its metadata have a traceparent.",
			body:  &intake{types: []string{grapnel.JSONType}, limit: perEvent, deep: true},
			takes: wire.NewEvent{}, gives: map[int]any{202: wire.Published{}, 200: wire.Published{}}},
		{method: "POST", path: "/v1/events/batch", scope: grapnel.ScopePublish, handle: publishBatch,
			name: "publish-batch", tag: "Events", summary: "Publish up to 1000 events",
			about: "Valid events are committed in one transaction, in the order given; each invalid one gets a problem. " +
				"As application/x-ndjson the body is one event per line. The header traceparent holds for every event whose metadata have none.",
			body:  &intake{types: []string{grapnel.JSONType, openapi.TypeNDJSON}, limit: perBatch, verbatim: true},
			takes: newBatch{}, gives: map[int]any{202: publishedBatch{}}},
		{method: "POST", path: "/v1/events/raw", scope: grapnel.ScopePublish, handle: publishRaw,
			name: "publish-raw", tag: "Events", summary: "Publish the body as it is",
			about: "The body's bytes are the event's data and keep their Content-Type. All other fields are in the query.",
			query: []param{
				{name: "type", form: "type", required: true, doc: "the event's type"},
				{name: "key", form: "key", doc: "the ordering key"},
				{name: "aggregate_type", form: "type", doc: "with aggregate_id instead of key"},
				{name: "aggregate_id"},
				{name: "id", form: "id", doc: "makes publishing idempotent"},
				{name: "tenant", form: "tenant", doc: "tenant that owns the event"},
				{name: "occurred_at", form: "time", doc: "when it happened"},
				{name: "deliver_at", form: "time", doc: "when its deliveries begin; later events of its key wait behind it"},
			},
			body:  &intake{limit: perData, verbatim: true},
			takes: rawBody{}, gives: map[int]any{202: wire.Published{}, 200: wire.Published{}}},
		{method: "GET", path: "/v1/events", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: listEvents,
			name: "list-events", tag: "Events", summary: "List events, the newest first",
			about: "If events are large a page ends before limit; next says whether there are more.",
			query: pageOf(typeParam, keyParam, tenantParam, sourceParam, fromParam, toParam,
				param{name: "text", form: "text", doc: "exact text in the event's data, at most 256 bytes. There is no index for it, so a page looks at a limited " +
					"number of events: it may be short or empty while next says that more can be searched"}),
			gives: map[int]any{200: list[wire.Event]{}}},
		{method: "GET", path: "/v1/events/{id}", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: getEvent,
			name: "get-event", tag: "Events", summary: "Get an event with its deliveries",
			about: "Ids are unique within a tenant. If several tenants have an event with this id, a key without a tenant must " +
				"name one with tenant; else the answer is 422.",
			query: []param{tenantParam},
			gives: map[int]any{200: wire.Event{}}},
	}
}

func (a *api) viewEvent(c *call, ev *grapnel.Event) wire.Event {
	v := wire.Event{ID: ev.ID, Tenant: ev.Tenant, Type: ev.Type, Key: ev.Key, ContentType: ev.ContentType,
		Metadata: ev.Metadata, Source: ev.Source, SourceName: a.sourceName(c, ev.Source),
		OccurredAt: ev.OccurredAt, AcceptedAt: ev.AcceptedAt, Damaged: ev.Damaged, ErasedAt: timeOf(ev.ErasedAt), Erased: ev.Erased}
	if ev.Damaged || v.ErasedAt != nil || v.Erased {
		return v
	}
	if !c.mayReadPayloads() {
		v.PayloadHidden = true
		return v
	}
	if media, _, _ := mime.ParseMediaType(ev.ContentType); media == grapnel.JSONType && utf8.Valid(ev.Data) && json.Valid(ev.Data) {
		v.Data = ev.Data
	} else {
		v.DataBase64 = ev.Data
	}
	return v
}

// eventsRead is how many events one query of the store reads: fewer where they may be large.
func (a *api) eventsRead() int {
	return max(1, min(a.Bounds.EventsRead, int(a.Bounds.PageData/a.MaxEvent)))
}

// listEvents lists events, the newest first.
func listEvents(a *api, c *call) (answer, error) {
	q := store.EventQuery{Type: c.query.text("type"), Key: c.query.text("key"), Tenant: c.query.text("tenant"),
		Source: c.query.text("source"), Before: c.number()}
	q.From, q.To = c.query.span()
	limit := c.query.limit()
	if _, limited := c.scope.Limited(); limited && q.Source != "" {
		c.query.faults.Add("?source", "cannot be used by a portal that is limited to endpoints")
	}
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	if text := c.query.text("text"); text != "" {
		return a.eventsWith(c, q, text, limit)
	}
	atOnce := a.eventsRead()
	out := list[wire.Event]{Data: []wire.Event{}}
	for size := 0; len(out.Data) < limit && size < int(a.Bounds.PageData); {
		q.Limit = min(limit-len(out.Data), atOnce) + 1
		found, err := a.History.EventList(c.Context(), c.scope, q)
		if err != nil {
			return answer{}, err
		}
		out.Next = nil
		if len(found) == q.Limit {
			found = found[:q.Limit-1]
			out.Next = c.cursor(strconv.FormatInt(found[len(found)-1].Seq, 10))
		}
		for i := range found {
			out.Data = append(out.Data, a.viewEvent(c, &found[i]))
			size += len(found[i].Data)
			q.Before = found[i].Seq
		}
		if out.Next == nil {
			break
		}
	}
	return jsonAnswer(http.StatusOK, out), nil
}

// eventsWith answers with the events whose data contain a text. A page looks at EventScan events,
// or at fewer that have ScanData bytes together.
func (a *api) eventsWith(c *call, q store.EventQuery, text string, limit int) (answer, error) {
	if !c.mayReadPayloads() {
		return answer{}, errHidden
	}
	out := list[wire.Event]{Data: []wire.Event{}}
	q.Limit = a.eventsRead()
	for looked, size := 0, int64(0); looked < a.Bounds.EventScan && size < a.Bounds.ScanData; looked += q.Limit {
		found, err := a.History.EventList(c.Context(), c.scope, q)
		if err != nil {
			return answer{}, err
		}
		out.Next = nil
		for i := range found {
			ev := &found[i]
			q.Before, size = ev.Seq, size+int64(len(ev.Data))
			if !bytes.Contains(ev.Data, []byte(text)) {
				continue
			}
			if out.Data = append(out.Data, a.viewEvent(c, ev)); len(out.Data) == limit {
				break
			}
		}
		if len(out.Data) < limit && len(found) < q.Limit {
			break
		}
		out.Next = c.cursor(strconv.FormatInt(q.Before, 10))
		if len(out.Data) == limit {
			break
		}
	}
	return jsonAnswer(http.StatusOK, out), nil
}

// getEvent shows one event and what became of it at each endpoint.
func getEvent(a *api, c *call) (answer, error) {
	id := c.PathValue("id")
	if !grapnel.ValidID(id) {
		return answer{}, store.ErrNotFound("event")
	}
	ev, deliveries, err := a.History.Event(c.Context(), c.scope, c.query.text("tenant"), id)
	if err != nil {
		return answer{}, err
	}
	v := a.viewEvent(c, ev)
	keep := a.Keep()
	if kept := keep.Of(ev.Tenant, ev.Type); kept > 0 {
		v.RetainedUntil = timeOf(ev.AcceptedAt.Add(kept))
	}
	v.Deliveries, err = a.views(c, deliveries)
	return result(v, err)
}
