package egress

import (
	"bytes"
	"cmp"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// message is a request as bytes. net/http's Request.Write makes the same ones, with a map, a writer
// and a reader for each request; TestMessagesAreThoseOfNetHTTP compares the two. A message is used
// again for other requests, so nothing may keep a part of it.
type message struct {
	lines    string // the request line and Host
	fields   fields
	bytes    []byte // the head, and a body below Bounds.LongBody
	body     []byte // a longer one
	envelope []byte // memory for a body of the standard format
}

// mostKept is the size up to which a message's bytes are kept for other requests.
const mostKept = 64 << 10

func (f *fields) set(name, value string) {
	for i := range *f {
		if (*f)[i].Name == name {
			(*f)[i].Value = value
			return
		}
	}
	*f = append(*f, grapnel.Header{Name: name, Value: value})
}

func (f fields) sort() {
	slices.SortFunc(f, func(a, b grapnel.Header) int { return cmp.Compare(a.Name, b.Name) })
}

func (f fields) header() http.Header {
	h := make(http.Header, len(f))
	for _, is := range f {
		h[is.Name] = []string{is.Value}
	}
	return h
}

// firstLines are the request line and the Host header of requests to a URL. net/http writes them,
// once for a route: it knows how paths are escaped and which hosts are none.
func firstLines(method string, u *url.URL) (string, error) {
	req := &http.Request{Method: method, URL: u, Host: u.Host, Header: http.Header{headerUserAgent: {""}}}
	var b bytes.Buffer
	if err := req.Write(&b); err != nil {
		return "", err
	}
	const crlf = "\r\n"
	text := b.String()
	line := strings.Index(text, crlf) + len(crlf)
	return text[:line+strings.Index(text[line:], crlf)+len(crlf)], nil
}

// render makes the bytes from the lines, the fields, which it sorts, and a body.
func (m *message) render(body []byte, long int64) {
	m.fields.sort()
	b := append(m.bytes[:0], m.lines...)
	for i := range m.fields {
		if m.fields[i].Name == headerUserAgent {
			b = appendField(b, headerUserAgent, m.fields[i].Value)
		}
	}
	b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(body)), 10)
	b = append(b, '\r', '\n')
	for i := range m.fields {
		if m.fields[i].Name != headerUserAgent {
			b = appendField(b, m.fields[i].Name, m.fields[i].Value)
		}
	}
	b = append(b, '\r', '\n')
	m.body = body
	if int64(len(body)) <= long {
		b, m.body = append(b, body...), nil
	}
	m.bytes = b
}

// appendField writes a header line. No value has a line break: values are checked or encoded where
// they come from. A break that got here all the same must not begin another header.
func appendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ':', ' ')
	value = strings.Trim(value, " \t\r\n")
	if strings.ContainsAny(value, "\r\n") {
		value = strings.NewReplacer("\r", " ", "\n", " ").Replace(value)
	}
	return append(append(b, value...), '\r', '\n')
}

// message returns an unused message.
func (s *Sender) message() *message { return s.messages.Get().(*message) }

// forget takes a message back whose bytes were written.
func (s *Sender) forget(m *message) {
	if cap(m.bytes) > mostKept {
		m.bytes = nil
	}
	if cap(m.envelope) > mostKept {
		m.envelope = nil
	}
	clear(m.fields)
	m.fields, m.body, m.lines = m.fields[:0], nil, ""
	s.messages.Put(m)
}

// Header names in net/http's canonical form.
const (
	headerContentType   = "Content-Type"
	headerUserAgent     = "User-Agent"
	headerAttempt       = "Grapnel-Attempt"
	headerBatch         = "Grapnel-Batch"
	headerDelivery      = "Grapnel-Delivery"
	headerHops          = "Grapnel-Hops"
	headerSequence      = "Grapnel-Sequence"
	headerTrigger       = "Grapnel-Trigger"
	headerNode          = "Grapnel-Node"
	headerEpoch         = "Grapnel-Epoch"
	headerTrace         = "Traceparent"
	headerSvixSignature = "Svix-Signature"
	headerEventTrace    = "Ce-Traceparent" // CloudEvents' extension for distributed tracing
)

// prepareRequest notes where requests go.
func (r *route) prepareRequest(s *Sender, method string, u *url.URL) (err error) {
	r.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80"))
	if u.Scheme == "https" {
		r.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
		r.tls = s.tls.Clone()
		r.tls.ServerName = u.Hostname()
	}
	r.method, r.host = method, u.Host
	r.lines, err = firstLines(method, u)
	return err
}
