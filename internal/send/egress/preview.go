package egress

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/send/transform"
)

// Rebuilt returns the body that the attempts of a delivery had, made again from the event, and the
// headers that describe it. The error is the reason for which the event has none. It chooses the
// shape as Sender.bodyOf does, and endpoints keep their former shapes, so a change of an endpoint's
// shape does not change the body.
func Rebuilt(e *grapnel.Endpoint, event *grapnel.Event, created time.Time, b transform.Bounds) (body []byte, header http.Header, err error) {
	shape := e.ShapeAt(event.AcceptedAt)
	body, header, err = Formatted(shape, event, b)
	if later := e.ShapeAt(created); err != nil && created.After(event.AcceptedAt) && later.Transform != shape.Transform {
		body, header, err = Formatted(later, event, b)
	}
	return body, header, err
}

// Preview returns the request that an endpoint would get for an event now: its headers, signed by
// the endpoint's secrets, and its body. Nothing is sent. It takes the same way as an attempt, but
// for connections, which it does not have. The error is the reason for which there is no request.
func Preview(e *grapnel.Endpoint, event *grapnel.Event, agent string, now time.Time, b transform.Bounds) (
	header http.Header, body []byte, err error) {
	body, described, err := Formatted(e.Shape(), event, b)
	if err != nil {
		return nil, nil, err
	}
	r := &route{endpoint: e, until: now.Add(time.Hour)}
	if err := r.prepareSigner(e, now); err != nil {
		return nil, nil, err
	}
	if err := r.prepareHeaders(e, agent, ""); err != nil {
		return nil, nil, err
	}
	signature, err := r.signer.Sign(event.ID, now, body)
	if err != nil {
		return nil, nil, err
	}
	d := Delivery{Endpoint: e, Event: event, ID: "dlv_preview", Number: 1, Trigger: grapnel.TriggerTest, CreatedAt: now}
	var f fields
	r.header(&f, now, d, described.Get(headerContentType), signature)
	return f.header(), body, nil
}

// Message is a request for people: without credentials.
type Message struct {
	Method, URL, ContentType, Body string
}

// senderOfPreviews stands for the operator's mail server, of which a message's text has nothing.
const senderOfPreviews = "smtp://localhost/?fromaddress=sender@example.com"

// ChannelMessage returns the request that a channel's service gets for an event, made again. It
// takes the same way as an attempt, by the channel's URL of now without its credentials. Of a mail
// it is the text. The error is the reason for which there is no request.
func ChannelMessage(e *grapnel.Endpoint, event *grapnel.Event) (m Message, err error) {
	t, err := targetOf(e, senderOfPreviews)
	if err != nil {
		return m, err
	}
	t = t.Hide()
	compiled, err := transform.Compile(t.Body, bounds.Fill(transform.Bounds{}), time.Now)
	if err != nil {
		return m, err
	}
	made, err := compiled.Apply(t.Input(envelope(event), ""))
	if err != nil {
		return m, err
	}
	if t.Mail != nil {
		var l letter
		err := json.Unmarshal(made, &l)
		return Message{"MAIL", e.URL, "text/plain", l.Text}, err
	}
	body, contentType, err := encoded(t, made)
	readable := strings.NewReplacer("%5Bredacted%5D", "[redacted]")
	return Message{t.Method, readable.Replace(t.URL(event)), contentType, readable.Replace(string(body))}, err
}
