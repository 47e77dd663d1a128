package ingress

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/store"
)

// intake describes how the request arrived, without secrets.
func (in *incoming) intake() *grapnel.Intake {
	remote, _, err := net.SplitHostPort(in.r.RemoteAddr)
	if err != nil {
		remote = in.r.RemoteAddr
	}
	headers := make([]grapnel.Header, 0, len(in.header)+1)
	headers = append(headers, grapnel.Header{Name: "Host", Value: in.r.Host})
	for name, values := range in.header {
		for _, value := range values {
			if in.source.hides(name) {
				value = redacted
			}
			headers = append(headers, grapnel.Header{Name: name, Value: value})
		}
	}
	slices.SortStableFunc(headers[1:], func(a, b grapnel.Header) int { return cmp.Compare(a.Name, b.Name) })
	return &grapnel.Intake{
		Source: in.source.ID, At: in.now, Method: in.r.Method, Path: in.r.URL.RequestURI(), Remote: remote, Headers: headers, Checks: in.checks,
	}
}

// defaultType is the type of a request that names none.
const defaultType = "webhook"

// event is the event of a verified request.
func (in *incoming) event(id string) *grapnel.Event {
	s := in.source
	kind, key := in.find(s.how.Kind), in.find(s.how.Key)
	provider := in.request(kind, key)
	kind, key = in.told("type", s.typeOf, provider, kind), in.told("key", s.keyOf, provider, key)
	ev := &grapnel.Event{
		ID: id, Tenant: s.Tenant, Type: validType(kind), Key: validKey(key), Data: in.body, ContentType: in.media(),
		OccurredAt: in.now, AcceptedAt: in.taken, Source: s.ID,
	}
	if n := hops(in.header); n > 0 {
		ev.Metadata = map[string]string{grapnel.HopsKey: strconv.Itoa(n)}
	}
	if given := in.header.Values("Traceparent"); len(given) == 1 {
		if is, ok := trace.Parse(given[0]); ok {
			ev.SetTrace(is.String())
		}
	}
	return ev
}

// request is the request as expressions see it.
func (in *incoming) request(kind, key string) *match.Request {
	return &match.Request{Data: in.body, Headers: in.header, Type: kind, Key: key}
}

// hops is the number of servers like this one that a request has passed. Its sender may claim
// anything: the header ends loops by mistake, not on purpose.
func hops(h http.Header) int {
	n, err := strconv.Atoi(h.Get("Grapnel-Hops"))
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// FailedExpression begins a step of verification. The error that follows may quote the request.
const FailedExpression = "the source's "

// told is the result of an expression of the source. If the expression fails, the provider's value
// is used and the failure is noted, so no request is lost because of an expression.
func (in *incoming) told(what string, e *match.Expression, r *match.Request, otherwise string) string {
	if e == nil {
		return otherwise
	}
	text, err := e.Text(r)
	if err != nil {
		in.failed(FailedExpression + what + ": " + err.Error())
		return otherwise
	}
	return text
}

// eventID is the provider's id of the event; empty: the request has none. A source that says where
// the body has it takes no other: its places are then less trusted, or mean something else.
func (in *incoming) eventID() string {
	s := in.source
	if s.idOf == nil {
		return in.find(s.how.IDs.Event)
	}
	id, err := s.idOf.Text(in.request("", ""))
	switch {
	case err != nil:
	case id == "":
		err = errors.New("the text is empty")
	case len(id) > s.bounds.Found:
		err = fmt.Errorf("the text has %d bytes; an id has at most %d", len(id), s.bounds.Found)
	default:
		return id
	}
	in.failed(FailedExpression + "event_id: " + err.Error())
	return ""
}

// octets is the content type of bytes without a known format.
const octets = "application/octet-stream"

// media is the content type of the event: the request's own, even if the body does not match it. If
// it is missing, a JSON body gets that of JSON. Otherwise, and if it is invalid, it is that of
// bytes.
func (in *incoming) media() string {
	sent := in.contentType()
	if sent == grapnel.JSONType { // nearly all of them
		return sent
	}
	media, err := in.source.how.Media(sent)
	switch {
	case sent == "" && in.document().JSON:
		return grapnel.JSONType
	case err != nil || !strings.Contains(media, "/") || strings.ContainsFunc(sent, func(c rune) bool { return c < ' ' || c > '~' }):
		return octets
	}
	return sent
}

// validType makes a type of a provider's name: dotted segments of letters, digits, _ and -; other
// characters become _.
func validType(name string) string {
	if name == "" {
		return defaultType
	}
	if grapnel.IsAlert(name) { // only the server makes alerts
		name = "received." + name
	}
	if grapnel.ValidType(name) {
		return name
	}
	var segments []string
	for segment := range strings.SplitSeq(name, ".") {
		clean := []byte(segment)
		for i, c := range clean {
			if !grapnel.ValidID(string(c)) {
				clean[i] = '_'
			}
		}
		if len(clean) > 64 {
			clean = clean[:64]
		}
		segments = append(segments, cmp.Or(string(clean), "_"))
	}
	name = strings.Join(segments, ".")
	if len(name) > grapnel.MaxTypeLength {
		name = strings.TrimRight(name[:grapnel.MaxTypeLength], ".")
	}
	return name
}

// validKey makes a valid key of an event. A key that is too long becomes its hash, so equal keys
// stay equal.
func validKey(key string) string {
	if len(key) > grapnel.MaxKeyLength || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c == 0x7f || c == 0xfffd }) {
		return "sha256-" + hex.EncodeToString(identity("", "key", []byte(key)))
	}
	return key
}

// known is the identity by which the request is deduplicated: the first of the chain that the
// request has. nil: none, so it is always new. Types are part of it as the provider names them:
// the source's expression may give one type to several. Content also has the event's type, which
// the expression may have found in a header.
func (in *incoming) known(into *grapnel.Intake, kind string) *store.Known {
	s := in.source
	named := validType(in.find(s.how.Kind))
	window := cmp.Or(s.Dedupe.Window, grapnel.DefaultDedupeWindow)
	for _, by := range s.Dedupe.By {
		var parts [][]byte
		switch by {
		case grapnel.ByEventID, grapnel.ByDeliveryID:
			var id string
			if by == grapnel.ByDeliveryID {
				id = in.find(s.how.IDs.Delivery)
			} else {
				id = in.eventID()
			}
			if id == "" {
				continue
			}
			into.Known, parts = id, [][]byte{[]byte(id)}
			if by == grapnel.ByEventID && s.how.PerType {
				parts = append(parts, []byte(named))
			}
		case grapnel.ByContent:
			sum := in.document().Sum
			if into.Known, parts = hex.EncodeToString(sum[:]), [][]byte{sum[:], []byte(kind)}; named != kind {
				parts = append(parts, []byte(named))
			}
		default:
			continue
		}
		into.By = by
		return &store.Known{Source: s.ID, By: identity(s.ID, by, parts...), Sum: in.document().Sum, Until: in.taken.Add(window)}
	}
	return nil
}

// identity is the hash by which a source deduplicates a request: over the kind of the value, the
// source and the value.
func identity(source string, by grapnel.DedupeBy, parts ...[]byte) []byte {
	var space [256]byte
	all := space[:0]
	add := func(part []byte) {
		// lengths keep ("ab", "c") and ("a", "bc") apart
		all = append(strconv.AppendInt(all, int64(len(part)), 10), ':')
		all = append(all, part...)
	}
	add([]byte(source))
	add([]byte(by))
	for _, part := range parts {
		add(part)
	}
	sum := sha256.Sum256(all)
	return sum[:]
}
