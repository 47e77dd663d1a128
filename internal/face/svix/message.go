package svix

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

func messages() []operation {
	return []operation{
		{pattern: "POST /app/{app}/msg", handle: createMessage, alone: true},
		{pattern: "GET /app/{app}/msg", handle: listMessages},
		{pattern: "GET /app/{app}/msg/{msg}", handle: getMessage},
	}
}

// viewEvent is an event as a message of Svix.
func viewEvent(ev *wire.Event, content bool) messageOut {
	out := messageOut{ID: ev.ID, EventID: ev.Metadata[eventIDKey], EventType: ev.Type, Payload: json.RawMessage("{}"),
		Channels: parted(ev.Metadata[channelsKey]), Tags: parted(ev.Metadata[tagsKey]), Timestamp: ev.AcceptedAt}
	switch {
	case ev.ErasedAt != nil || ev.Erased:
		out.Payload = json.RawMessage(`{"expired":true}`)
	case content && bytes.HasPrefix(bytes.TrimSpace(ev.Data), []byte("{")): // an SDK reads nothing but objects
		out.Payload = ev.Data
	}
	return out
}

// event finds one of the application by its id, or by the eventId that it was created with.
func (a *ask) event(id string) (*wire.Event, error) {
	ids := []string{}
	if grapnel.ValidID(id) {
		ids = append(ids, id)
	}
	if validUID(id) {
		ids = append(ids, msgID(id))
	}
	err := notFound("message")
	for _, id := range ids {
		var ev wire.Event
		if err = a.read(at("/v1/events", id), nil, &ev); err == nil {
			return &ev, nil
		}
		if !missing(err) {
			break
		}
	}
	return nil, err
}

// defaultRetention is what older SDKs send when the program sets nothing.
const defaultRetention = 90 // days

// check refuses what a message cannot have, and returns its payload.
func (in *messageIn) check() (payload json.RawMessage, err error) {
	switch {
	case in.EventType == "":
		return nil, invalid("is required", "body", "eventType")
	case in.EventID != nil && !validUID(*in.EventID):
		return nil, invalid("must be 1 to 256 characters of [A-Za-z0-9_.-]", "body", "eventId")
	case in.RetentionDays != nil && *in.RetentionDays != defaultRetention:
		return nil, invalid("cannot be set for one message: --retention-rule sets it for types", "body", "payloadRetentionPeriod")
	case in.RetentionHours != nil:
		return nil, invalid("cannot be set for one message: --retention-rule sets it for types", "body", "payloadRetentionHours")
	}
	if err := checkChannels(in.Channels, mostMessageChannels, "channels"); err != nil {
		return nil, err
	}
	if err := checkChannels(in.Tags, mostTags, "tags"); err != nil {
		return nil, err
	}
	payload = in.Payload
	if payload == nil {
		payload = in.Data
	}
	if t := in.Transformations; t != nil {
		switch {
		case t.Headers != nil:
			return nil, invalid("cannot be set for one message", "body", "transformationsParams", "headers")
		case t.RawPayload != nil:
			payload = json.RawMessage(*t.RawPayload)
			if !json.Valid(payload) {
				return nil, invalid("must be JSON", "body", "transformationsParams", "rawPayload")
			}
			return payload, nil
		}
	}
	if payload == nil {
		return nil, invalid("is required", "body", "payload")
	}
	if !bytes.HasPrefix(payload, []byte("{")) {
		return nil, invalid("must be an object", "body", "payload")
	}
	return payload, nil
}

// createMessage publishes an event whose data are the payload's bytes.
func createMessage(a *ask) (reply, error) {
	var in messageIn
	var payload json.RawMessage
	_, err := a.decode(&in)
	if err == nil {
		payload, err = in.check()
	}
	if err == nil {
		err = a.ensure(in.Application)
	}
	if err != nil {
		return reply{}, err
	}
	ev := wire.NewEvent{Type: in.EventType, Data: payload, Metadata: map[string]string{}, DeliverAt: in.DeliverAt}
	for key, all := range map[string][]string{channelsKey: in.Channels, tagsKey: in.Tags} {
		if len(all) > 0 {
			ev.Metadata[key] = joined(all)
		}
	}
	out := messageOut{EventType: in.EventType, Channels: in.Channels, Tags: in.Tags, Payload: payload, DeliverAt: in.DeliverAt}
	if in.EventID != nil {
		ev.ID, out.EventID = msgID(*in.EventID), *in.EventID
		ev.Metadata[eventIDKey] = *in.EventID
	}
	var done wire.Published
	if err := a.api(http.MethodPost, "/v1/events", nil, ev, &done); err != nil {
		return reply{}, err
	}
	if done.Duplicate {
		return reply{}, conflict("A message with this eventId exists.")
	}
	out.ID, out.Timestamp = done.ID, done.AcceptedAt
	if !a.truth("with_content", true) {
		out.Payload = json.RawMessage("{}")
	}
	return reply{http.StatusAccepted, out}, nil
}

// chosen is a filter of lists of messages by what only this room knows of.
func (a *ask) chosen() func(eventType string, metadata map[string]string) bool {
	q, types := a.URL.Query(), a.listed("event_types")
	return func(eventType string, metadata map[string]string) bool {
		for name, key := range map[string]string{"channel": channelsKey, "tag": tagsKey} {
			if want := q.Get(name); want != "" && !slices.Contains(parted(metadata[key]), want) {
				return false
			}
		}
		return len(types) == 0 || slices.Contains(types, eventType)
	}
}

// narrowed is the query of the API for a list of messages, attempts or deliveries.
func (a *ask) narrowed() (url.Values, error) {
	q := url.Values{}
	if types := a.listed("event_types"); len(types) == 1 {
		q.Set("type", types[0])
	}
	return q, a.span(q, "after", "before")
}

func listMessages(a *ask) (reply, error) {
	q, err := a.narrowed()
	if err != nil {
		return reply{}, err
	}
	chosen, content := a.chosen(), a.truth("with_content", true)
	out, err := gather(a, "/v1/events", q, func(ev *wire.Event) (*messageOut, error) {
		if !chosen(ev.Type, ev.Metadata) {
			return nil, nil
		}
		return new(viewEvent(ev, content)), nil
	})
	return reply{http.StatusOK, out}, err
}

func getMessage(a *ask) (reply, error) {
	ev, err := a.event(a.PathValue("msg"))
	if err != nil {
		return reply{}, err
	}
	return reply{http.StatusOK, viewEvent(ev, a.truth("with_content", true))}, nil
}
