package egress

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/transform"
	"github.com/grapnelhq/grapnel/sign"
)

const (
	timeLayout  = "2006-01-02T15:04:05.000000Z"
	octetStream = "application/octet-stream"
)

// Header names in net/http's canonical form.
const (
	headerContentType = "Content-Type"
	headerUserAgent   = "User-Agent"
	headerAttempt     = "Grapnel-Attempt"
	headerDelivery    = "Grapnel-Delivery"
	headerHops        = "Grapnel-Hops"
	headerSequence    = "Grapnel-Sequence"
	headerTrigger     = "Grapnel-Trigger"
	headerNode        = "Grapnel-Node"
	headerEpoch       = "Grapnel-Epoch"
	headerTrace       = "Traceparent"
	headerEventTrace  = "Ce-Traceparent" // CloudEvents' extension for distributed tracing
)

// request builds the request of an attempt.
func (r *route) request(ctx context.Context, a *attempt, d Delivery, body []byte, contentType string) (*http.Request, error) {
	if r.target != nil {
		return r.alertRequest(ctx, a, d, body, contentType)
	}
	signature, err := r.signer.Sign(d.Event.ID, a.start, body)
	if err != nil {
		return nil, err
	}
	req := r.template.WithContext(ctx)
	req.Header = r.header(a, d, contentType, signature)
	return carrying(req, body), nil
}

// carrying gives a request its body.
func carrying(req *http.Request, body []byte) *http.Request {
	req.ContentLength = int64(len(body))
	if len(body) == 0 {
		req.Body = http.NoBody
		return req
	}
	req.Body = reader(body)
	// A kept-alive connection may have been closed before anything was written; only then is the
	// body read again.
	req.GetBody = func() (io.ReadCloser, error) { return reader(body), nil }
	return req
}

// reader returns a type that net/http knows to be in memory. For others it flushes the headers
// first, which costs a system call each time.
func reader(body []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) }

func (r *route) header(a *attempt, d Delivery, contentType, signature string) http.Header {
	h := make(http.Header, len(r.static)+15)
	for _, f := range r.static {
		h[f.name] = f.values
	}
	for _, f := range r.filled {
		h[f.name] = []string{f.template.of(d)}
	}
	// The values share one array instead of having a slice each.
	n := 0
	set := func(name, value string) {
		a.headers[n] = value
		h[name] = a.headers[n : n+1 : n+1]
		n++
	}
	set(sign.HeaderID, d.Event.ID)
	set(sign.HeaderTimestamp, strconv.FormatInt(a.start.Unix(), 10))
	set(sign.HeaderSignature, signature)
	if r.endpoint.Signing == grapnel.SigningSvix {
		h["Svix-Id"], h["Svix-Timestamp"], h["Svix-Signature"] = h[sign.HeaderID], h[sign.HeaderTimestamp], h[sign.HeaderSignature]
	}
	set(headerAttempt, strconv.Itoa(d.Number))
	set(headerDelivery, d.ID)
	set(headerHops, strconv.Itoa(d.Event.Hops()+1))
	set(headerTrigger, string(d.Trigger))
	if d.Position > 0 {
		set(headerSequence, strconv.FormatInt(d.Position, 10))
	}
	if d.Epoch > 0 {
		set(headerEpoch, strconv.FormatInt(d.Epoch, 10))
	}
	if d.Trace != "" {
		set(headerTrace, d.Trace)
	}
	if contentType != grapnel.JSONType {
		h[headerContentType] = []string{contentType}
	}
	if r.endpoint.ShapeAt(d.Event.AcceptedAt).Format == grapnel.FormatCloudEvents && !structured(contentType) {
		cloudEvent(h, d.Event)
		if d.Trace != "" {
			h[headerEventTrace] = h[headerTrace]
		}
	}
	return h
}

// structured says whether data are one CloudEvent or several already: the HTTP binding decides by
// the beginning of the content type.
func structured(contentType string) bool {
	const begins = "application/cloudevents"
	return len(contentType) >= len(begins) && strings.EqualFold(contentType[:len(begins)], begins)
}

// cloudEvent adds the attributes of CloudEvents 1.0 in binary mode: the body is the data, the rest
// is headers.
func cloudEvent(h http.Header, e *grapnel.Event) {
	h["Ce-Specversion"] = []string{"1.0"}
	h["Ce-Id"] = []string{e.ID}
	h["Ce-Source"] = []string{"/grapnel/" + e.Tenant}
	h["Ce-Type"] = []string{e.Type}
	h["Ce-Time"] = []string{e.OccurredAt.UTC().Format(timeLayout)}
	if e.Key != "" {
		h["Ce-Partitionkey"] = []string{percentEncode(e.Key, `"%`)}
	}
}

// percentEncode writes text as printable ASCII without space and without the others: for a header
// of the HTTP binding of CloudEvents, or for the query of a request line.
func percentEncode(text, others string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(others, c) >= 0 {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// formatted returns the bytes of a format and their content type. Data are never decoded and
// encoded again.
func formatted(format grapnel.Format, e *grapnel.Event) (body []byte, contentType string) {
	if format == grapnel.FormatRaw || format == grapnel.FormatCloudEvents {
		return e.Data, dataType(e)
	}
	return envelope(e), grapnel.JSONType
}

// Formatted returns an event in a shape: the body, and the headers that describe it. The error is
// the reason for which the event has no body.
func Formatted(shape grapnel.Shape, e *grapnel.Event) (body []byte, header http.Header, err error) {
	body, contentType := formatted(shape.Format, e)
	if shape.Transform != "" {
		contentType = grapnel.JSONType
		t, err := transform.Compile(shape.Transform, bounds.Fill(transform.Bounds{}), time.Now)
		if err != nil {
			return nil, nil, err
		}
		if body, err = t.Apply(envelope(e)); err != nil {
			return nil, nil, err
		}
	}
	header = http.Header{headerContentType: {contentType}}
	if shape.Format == grapnel.FormatCloudEvents {
		cloudEvent(header, e)
	}
	return body, header, nil
}

func dataType(e *grapnel.Event) string {
	if e.ContentType == "" || !validHeaderValue(e.ContentType) {
		return octetStream
	}
	return e.ContentType
}

// envelope is the body of the standard format. An event's id and type need no escaping: see
// grapnel.ValidID and ValidType.
func envelope(e *grapnel.Event) []byte {
	isJSON := hasJSON(e)
	size := len(e.Data)
	if !isJSON {
		size = base64.StdEncoding.EncodedLen(size)
	}
	b := make([]byte, 0, len(e.ID)+len(e.Type)+size+len(`{"id":"","type":"","timestamp":"","data_base64":""}`)+len(timeLayout))
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

// field is a header that is the same for every delivery of an endpoint.
type field struct {
	name   string
	values []string
}

func (r *route) addStatic(name, value string) {
	r.static = append(r.static, field{name, []string{value}})
}

// filled is a header of the endpoint's own with placeholders.
type filled struct {
	name     string
	template template
}

func (r *route) addOwn(name, value string) {
	t, _ := parseTemplate(value) // a faulty part of it is sent literally
	r.hidden[name] = !t.bare()
	if value, fixed := t.fixed(); fixed {
		r.addStatic(name, value)
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
