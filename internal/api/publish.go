package api

import (
	"mime"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
)

// published is the answer for an event.
type published struct {
	ID         string `json:"id"`
	AcceptedAt stamp  `json:"accepted_at"`
	Deliveries int    `json:"deliveries" doc:"how many endpoints get it"`
	Duplicate  bool   `json:"duplicate" doc:"this id was there already with the same content; nothing new was made"`
}

// publish takes one event.
func publish(a *api, c *call) (answer, error) {
	var f strict.Faults
	d := readDraft(c.body, gjson.ParseBytes(c.body), "/", &f)
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
	for name, into := range map[string]*optional{
		"type": &d.kind, "key": &d.key, "id": &d.id, "tenant": &d.tenant, "occurred_at": &d.occurredAt,
		"aggregate_type": &d.aggregateType, "aggregate_id": &d.aggregateID,
	} {
		*into = optional{c.query.text(name), c.query.values.Has(name)}
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
	reply := func(done store.Accepted) answer { return publishedAnswer(a, c, in.Event.ID, done.Events[0]) }
	done, err := a.Engine.Publish(c.Context(), []store.Incoming{in}, withEffect(c, reply))
	return answered(done, done.Answer, err, reply)
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

// errOtherContent is for an id that was used for something else.
var errOtherContent = grapnel.Errorf(grapnel.CodeConflict, "An event with this id exists and has another type, key or data.")
