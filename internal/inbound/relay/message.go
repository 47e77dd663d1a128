package relay

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
)

// reader makes rows of a broker's messages, by the expressions of a source.
type reader struct {
	source              *grapnel.Source
	hops                int
	typeOf, keyOf, idOf *match.Expression // nil: there is none
}

func newReader(s *grapnel.Source, hops int) (*reader, error) {
	r := &reader{source: s, hops: hops}
	for _, e := range []struct {
		name, text string
		into       **match.Expression
	}{{"type", s.Type, &r.typeOf}, {"key", s.Key, &r.keyOf}, {"event_id", s.EventID, &r.idOf}} {
		if e.text == "" {
			continue
		}
		is, err := match.CompileExpression(e.text)
		if err != nil {
			return nil, fmt.Errorf("the source's %s: %w", e.name, err)
		}
		*e.into = is
	}
	return r, nil
}

// row is a message as a row. A fault is noted, for the row to be set aside.
func (r *reader) row(m *brokers.Received, serial int64, now time.Time) row {
	header := http.Header{}
	sorted := slices.Clone(m.Headers) // else one of two names that differ in case would count at random
	slices.SortStableFunc(sorted, func(a, b grapnel.Header) int { return strings.Compare(a.Name, b.Name) })
	for _, h := range sorted {
		header.Add(h.Name, h.Value)
	}
	if m.At.IsZero() {
		m.At = now
	}
	is := row{id: serial, data: m.Body, size: int64(len(m.Body)), occurredAt: &m.At, headers: shownHeaders(m.Headers),
		media: mediaOf(header, m.Body)}
	if m.At.Year() < 1 || m.At.Year() > 9999 {
		is.occurredAt = &now
	}
	if is.data == nil {
		is.data = []byte{}
	}
	if n, err := strconv.Atoi(header.Get("Grapnel-Hops")); err == nil && n > 0 {
		is.metadata = map[string]string{grapnel.HopsKey: strconv.Itoa(n)}
		if n > r.hops {
			is.wrong = fmt.Sprintf("it has passed %d servers like this one; %d are allowed. Find the endpoint that sends to a source "+
				"it gets its events from", n, r.hops)
		}
	}
	if given, ok := trace.Parse(header.Get("Traceparent")); ok {
		is.trace = given.String()
	}
	see := &match.Request{Data: m.Body, Headers: header, Type: cmp.Or(m.Type, header.Get("Ce-Type")), Key: m.Key}
	is.kind = is.told("type", r.typeOf, see, see.Type)
	is.key = is.told("key", r.keyOf, see, m.Key)
	is.event = is.told("event_id", r.idOf, see, cmp.Or(header.Get("Webhook-Id"), m.ID, r.made(m.Place),
		grapnel.NewID(grapnel.EventPrefix, now, rand.Reader)))
	if is.kind == "" && is.wrong == "" {
		is.wrong = "it has no type; set type of the source to an expression such as event.headers[\"type\"]"
	}
	return is
}

// told is the result of an expression, or the broker's own value. An expression that fails is a
// fault: an event with another id or key would be repeated, or out of order.
func (is *row) told(what string, e *match.Expression, r *match.Request, otherwise string) string {
	if e == nil {
		return otherwise
	}
	text, err := e.Text(r)
	if err != nil && is.wrong == "" {
		is.wrong = "the source's " + what + ": " + err.Error()
	}
	return text
}

// made is the id of a message that has none, by its place in the broker, so that a repeated message
// has the same one. Sources have different ids for the same message. Empty: it has no place.
func (r *reader) made(place string) string {
	if place == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(r.source.ID + "\n" + place))
	return "msg_" + hex.EncodeToString(sum[:16])
}

const octets = "application/octet-stream"

// mediaOf is the content type of a message: that of its header, else of what its body is.
func mediaOf(h http.Header, body []byte) string {
	sent := h.Get("Content-Type")
	switch {
	case sent == "" && json.Valid(body):
		return grapnel.JSONType
	case !strings.Contains(sent, "/"), len(sent) > longestMedia, strings.ContainsFunc(sent, func(c rune) bool { return c < ' ' || c > '~' }):
		return octets
	}
	return sent
}

const (
	longestMedia = 256
	mostHeaders  = 64 // that are stored with a message that is set aside
	longestValue = 4096
)

// shownHeaders are the headers of a message as they are stored with it, if it is set aside.
func shownHeaders(all []grapnel.Header) []grapnel.Header {
	shown := make([]grapnel.Header, 0, min(len(all), mostHeaders))
	for _, h := range all[:min(len(all), mostHeaders)] {
		if scheme.IsSecret(h.Name) {
			h.Value = "[redacted]"
		}
		shown = append(shown, grapnel.Header{Name: plainText(h.Name), Value: plainText(h.Value)})
	}
	return shown
}

// plainText is a text that every store takes.
func plainText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), longestValue)], "\uFFFD"), "\x00", "\uFFFD")
}
