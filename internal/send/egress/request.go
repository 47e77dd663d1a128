package egress

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/send/transform"
	"github.com/grapnelhq/grapnel/sign"
)

func (r *route) header(f *fields, start time.Time, d Delivery, contentType, signature string) {
	r.own(f, d)
	f.set(headerContentType, contentType)
	timestamp := strconv.FormatInt(start.Unix(), 10)
	if r.endpoint.ShapeAt(d.Event.AcceptedAt).Format == grapnel.FormatCloudEvents && !structured(contentType) {
		cloudEvent(f, d.Event)
		if d.Trace != "" {
			f.set(headerEventTrace, d.Trace)
		}
	}
	f.set(headerAttempt, strconv.Itoa(d.Number))
	if d.batch != "" {
		f.set(headerBatch, d.batch)
	}
	if d.ID != "" {
		f.set(headerDelivery, d.ID)
	}
	if d.Epoch > 0 {
		f.set(headerEpoch, strconv.FormatInt(d.Epoch, 10))
	}
	f.set(headerHops, strconv.Itoa(d.Event.Hops()+1))
	if d.Position > 0 {
		f.set(headerSequence, strconv.FormatInt(d.Position, 10))
	}
	f.set(headerTrigger, string(d.Trigger))
	if r.endpoint.Signing == grapnel.SigningSvix {
		f.set("Svix-Id", d.Event.ID)
		f.set(headerSvixSignature, signature)
		f.set("Svix-Timestamp", timestamp)
	}
	if d.Trace != "" {
		f.set(headerTrace, d.Trace)
	}
	f.set(sign.HeaderID, d.Event.ID)
	f.set(sign.HeaderSignature, signature)
	f.set(sign.HeaderTimestamp, timestamp)
}

// own sets the headers that do not depend on the event, and those of the endpoint's own.
func (r *route) own(f *fields, d Delivery) {
	*f = append(*f, r.static...)
	for _, is := range r.filled {
		f.set(is.name, is.template.of(d))
	}
}

// structured says whether data are one CloudEvent or several already: the HTTP binding decides by
// the beginning of the content type.
func structured(contentType string) bool {
	const begins = "application/cloudevents"
	return len(contentType) >= len(begins) && strings.EqualFold(contentType[:len(begins)], begins)
}

// cloudEvent adds the attributes of CloudEvents 1.0 in binary mode: the body is the data, the rest
// is headers.
func cloudEvent(f *fields, e *grapnel.Event) {
	f.set("Ce-Specversion", "1.0")
	f.set("Ce-Id", e.ID)
	f.set("Ce-Source", "/grapnel/"+e.Tenant)
	f.set("Ce-Type", e.Type)
	f.set("Ce-Time", e.OccurredAt.UTC().Format(timeLayout))
	if e.Key != "" {
		f.set("Ce-Partitionkey", percentEncode(e.Key, `"%`))
	}
}

// formatted returns the bytes of a format and their content type. An envelope is made in the memory
// of m. Data are never decoded and encoded again.
func formatted(m *message, format grapnel.Format, e *grapnel.Event) (body []byte, contentType string) {
	if format == grapnel.FormatRaw || format == grapnel.FormatCloudEvents {
		return e.Data, dataType(e)
	}
	if format == grapnel.FormatBatch {
		m.envelope = append(appendEnvelope(append(m.envelope[:0], '['), e), ']')
	} else {
		m.envelope = appendEnvelope(m.envelope[:0], e)
	}
	return m.envelope, grapnel.JSONType
}

// Formatted returns an event in a shape: the body, and the headers that describe it. The error is
// the reason for which the event has no body.
func Formatted(shape grapnel.Shape, e *grapnel.Event, b transform.Bounds) (body []byte, header http.Header, err error) {
	body, contentType := formatted(new(message), shape.Format, e)
	if shape.Transform != "" {
		contentType = grapnel.JSONType
		t, err := transform.Compile(shape.Transform, bounds.Fill(b), time.Now)
		if err != nil {
			return nil, nil, err
		}
		if body, err = t.Apply(envelope(e)); err != nil {
			return nil, nil, err
		}
		body = enclosed(shape.Format, body)
	}
	var f fields
	f.set(headerContentType, contentType)
	if shape.Format == grapnel.FormatCloudEvents && !structured(contentType) {
		cloudEvent(&f, e)
	}
	return body, f.header(), nil
}

// enclosed is a transform's result as the format's body.
func enclosed(format grapnel.Format, result []byte) []byte {
	if format == grapnel.FormatBatch {
		return slices.Concat([]byte{'['}, result, []byte{']'})
	}
	return result
}

func dataType(e *grapnel.Event) string {
	if e.ContentType == "" || !validHeaderValue(e.ContentType) {
		return octetStream
	}
	return e.ContentType
}

// envelope is the body of the standard format. An event's id and type need no escaping: see
// grapnel.ValidID and ValidType.
func envelope(e *grapnel.Event) []byte { return appendEnvelope(nil, e) }

func appendEnvelope(b []byte, e *grapnel.Event) []byte {
	isJSON := hasJSON(e)
	size := len(e.Data)
	if !isJSON {
		size = base64.StdEncoding.EncodedLen(size)
	}
	b = slices.Grow(b, len(e.ID)+len(e.Type)+size+len(`{"id":"","type":"","timestamp":"","data_base64":""}`)+len(timeLayout))
	b = append(append(b, `{"id":"`...), e.ID...)
	b = append(append(b, `","type":"`...), e.Type...)
	b = append(e.OccurredAt.UTC().AppendFormat(append(b, `","timestamp":"`...), timeLayout), '"')
	if isJSON {
		return append(append(append(b, `,"data":`...), e.Data...), '}')
	}
	return append(base64.StdEncoding.AppendEncode(append(b, `,"data_base64":"`...), e.Data), `"}`...)
}

// hasJSON says whether the data can be inserted in a JSON document as they are. A content type
// without the promise is a claim, and bytes inserted on a claim could forge the fields around them.
func hasJSON(e *grapnel.Event) bool {
	if e.PromisesJSON() {
		return true
	}
	kind, _, err := mime.ParseMediaType(e.ContentType)
	return err == nil && (kind == grapnel.JSONType || strings.HasSuffix(kind, "+json")) && utf8.Valid(e.Data) && json.Valid(e.Data)
}

func (r *route) addOwn(name, value string) {
	t, _ := parseTemplate(value) // a faulty part of it is sent literally
	r.hidden[name] = !t.bare()
	if value, fixed := t.fixed(); fixed {
		r.static.set(name, value)
		return
	}
	r.filled = append(r.filled, filled{name, t})
}

func timeoutOf(e *grapnel.Endpoint) time.Duration {
	if d := time.Duration(e.Policy.Timeout); d > 0 {
		return d
	}
	return defaultTimeout
}

func (r *route) addOwns(headers map[string]string) {
	r.hidden = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		r.addOwn(http.CanonicalHeaderKey(name), headers[name])
	}
}

// prepareSigner signs with every live secret; the route ends when the first of them expires.
func (r *route) prepareSigner(e *grapnel.Endpoint, now time.Time) error {
	var live []string
	for _, secret := range e.Secrets {
		if !secret.Live(now) {
			continue
		}
		live = append(live, secret.Text)
		if !secret.ExpiresAt.IsZero() && secret.ExpiresAt.Before(r.until) {
			r.until = secret.ExpiresAt
		}
	}
	if len(live) == 0 {
		return errors.New("the endpoint has no secret that is live; nothing is sent unsigned")
	}
	signer, err := sign.NewSigner(live...)
	if err != nil {
		return fmt.Errorf("the endpoint's secrets cannot sign: %w", err)
	}
	r.signer = signer
	return nil
}

func (r *route) prepareHeaders(e *grapnel.Endpoint, agent, node string) error {
	if err := sendable(e.Headers); err != nil {
		return fmt.Errorf("the endpoint's headers cannot be sent: %w", err)
	}
	r.static.set(headerUserAgent, agent)
	if node != "" {
		r.static.set(headerNode, node)
	}
	r.addOwns(e.SentHeaders())
	if e.OAuth2 != nil {
		r.static.set(headerAuth, "Bearer "+redacted) // each request replaces it
		r.hidden[headerAuth] = true
	}
	return nil
}

// derived are the headers that an attempt does not keep.
var derived = grapnel.Derived()

// sent returns those of the request's sorted headers that are stored with an attempt. An endpoint's
// own header may be a credential, so its value is stored only if it is one placeholder.
func (r *route) sent(all fields) []grapnel.Header {
	isDerived := func(is *grapnel.Header) bool {
		return r.target == nil && (slices.Contains(derived, is.Name) || is.Name == headerContentType && is.Value == grapnel.JSONType)
	}
	n := 0
	for i := range all {
		if !isDerived(&all[i]) {
			n++
		}
	}
	kept := make([]grapnel.Header, 0, n)
	for _, is := range all {
		switch {
		case isDerived(&is):
			continue
		case r.hidden[is.Name]:
			is.Value = redacted
		}
		kept = append(kept, is)
	}
	return kept
}
