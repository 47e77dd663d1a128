package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// The inbox has the requests to sources that became events, and those that were set aside for a
// person. Refused and repeated requests are not in it.

// accepted is the outcome of a request that became an event; the others are the reasons for setting
// one aside.
const accepted = "accepted"

func inboxRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/inbox", scope: grapnel.ScopeRead, handle: listInbox,
			name: "list-inbox", tag: sourceTag, summary: "List requests to sources, the newest first",
			about: "accepted: it became an event; unverified: it is quarantined; conflict: it was received before with another " +
				"body; refused: it came from an outbox or a broker and cannot be an event. If requests are large, or matches are rare, " +
				"a page ends before limit; next says whether there are more.",
			query: pageOf(sourceParam, param{name: "outcome", doc: "only these", one: []string{accepted,
				string(grapnel.AsideUnverified), string(grapnel.AsideConflict), string(grapnel.AsideRefused)}},
				tenantParam, param{name: "from", form: "time", doc: "received then or later"}, param{name: "to", form: "time", doc: "received before then"}),
			gives: map[int]any{200: list[wire.InboxRequest]{}}},
		{method: "GET", path: "/v1/inbox/{id}", scope: grapnel.ScopeRead, handle: getInbox,
			name: "get-inbox", tag: sourceTag, summary: "Get a request with its headers, verification and dedupe key",
			about: "The id of an event, or of a request that was set aside (req_…). Secret headers are redacted.",
			query: []param{tenantParam}, gives: map[int]any{200: wire.Intake{}}},
	}
}

func inboxEvent(ev *grapnel.Event) wire.InboxRequest {
	return wire.InboxRequest{ID: ev.ID, SourceID: ev.Source, Tenant: ev.Tenant, Outcome: wire.IntakeAccepted,
		Reason: "accepted as an event", ReceivedAt: ev.AcceptedAt,
		EventID: ev.ID, Type: ev.Type, Key: ev.Key, ContentType: ev.ContentType, Size: len(ev.Data)}
}

func inboxAside(s *grapnel.Aside) wire.InboxRequest {
	v := wire.InboxRequest{ID: s.ID, SourceID: s.Source, Tenant: s.Tenant, Outcome: wire.IntakeOutcome(s.Why),
		ReceivedAt: s.At, EventID: s.Event,
		ContentType: s.ContentType, Size: cmp.Or(s.Size, len(s.Body))}
	switch s.Why {
	case grapnel.AsideConflict:
		if s.By == "" {
			v.Reason = fmt.Sprintf("with the signature of %s, under another id or type", s.Event)
			break
		}
		v.Reason = fmt.Sprintf("the %s of %s, with another body", strings.ReplaceAll(string(s.By), "_", " "), s.Event)
	default:
		v.Reason = "not verified"
		if s.Why == grapnel.AsideRefused {
			v.Reason = "cannot be an event"
		}
		for _, check := range s.Checks {
			if !check.Passed {
				v.Reason += ": " + check.Text
				break
			}
		}
	}
	return v
}

// ofSource adds the name of the source.
func (a *api) ofSource(c *call, v wire.InboxRequest) wire.InboxRequest {
	v.SourceName = a.sourceName(c, v.SourceID)
	return v
}

// withIntake adds how a request came in.
func withIntake(c *call, v wire.InboxRequest, in *grapnel.Intake, body []byte, erased bool) wire.Intake {
	full := wire.Intake{InboxRequest: v, Erased: erased}
	if in != nil {
		full.Method, full.Path, full.Remote, full.Headers, full.Checks = in.Method, in.Path, in.Remote, in.Headers, in.Checks
		if in.Known != "" {
			full.KnownBy = &wire.KnownBy{By: in.By, Value: in.Known}
		}
	}
	if erased {
		return full
	}
	if !c.mayReadPayloads() {
		full.Path, _, _ = strings.Cut(full.Path, "?") // some providers put secrets and data into the query
		full.Headers = slices.Clone(full.Headers)
		for i := range full.Headers {
			full.Headers[i].Value = hidden
		}
		full.Checks = slices.Clone(full.Checks)
		for i := range full.Checks {
			if check := &full.Checks[i]; strings.HasPrefix(check.Text, ingress.FailedExpression) {
				what, _, _ := strings.Cut(check.Text, ":")
				check.Text = what + ": " + hidden
			}
		}
		full.PayloadHidden = true
		return full
	}
	media, _, _ := mime.ParseMediaType(v.ContentType)
	switch {
	case (media == grapnel.JSONType || strings.HasSuffix(media, "+json")) && utf8.Valid(body) && json.Valid(body):
		full.Body = body
		var short bytes.Buffer // as the answer has it
		_ = json.Compact(&short, body)
		if short.Len() < len(body) {
			full.BodyBase64 = body
		}
	case utf8.Valid(body) && bytes.IndexByte(body, 0) < 0:
		full.BodyText = new(string(body))
	default:
		full.BodyBase64 = body
	}
	return full
}

func getInbox(a *api, c *call) (answer, error) {
	id, tenant := c.PathValue("id"), c.query.text("tenant")
	if !grapnel.ValidID(id) {
		return answer{}, store.ErrNotFound("request")
	}
	if strings.HasPrefix(id, grapnel.AsidePrefix+"_") {
		s, err := a.History.Aside(c.Context(), c.scope, id)
		if err == nil && tenant != "" && s.Tenant != tenant {
			err = store.ErrNotFound("request")
		}
		if err != nil {
			return answer{}, err
		}
		return jsonAnswer(http.StatusOK, withIntake(c, a.ofSource(c, inboxAside(&s)), &s.Intake, s.Body, s.Erased)), nil
	}
	ev, _, err := a.History.Event(c.Context(), c.scope, tenant, id)
	if grapnel.CodeOf(err) == grapnel.CodeNotFound || err == nil && ev.Source == "" {
		err = store.ErrNotFound("request")
	}
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, withIntake(c, a.ofSource(c, inboxEvent(ev)), ev.Intake, ev.Data, ev.Erased)), nil
}

// inboxQuery is the query for both halves of the inbox, and the position of each.
type inboxQuery struct {
	store.EventQuery
	why         grapnel.AsideReason
	events      bool // those that were accepted are wanted
	asides      bool // those that were set aside are
	beforeAside string
}

// listInbox merges events and requests set aside, by time.
func listInbox(a *api, c *call) (answer, error) {
	outcome := c.query.text("outcome")
	q := inboxQuery{why: grapnel.AsideReason(outcome), events: outcome == "" || outcome == accepted, asides: outcome != accepted}
	q.Source, q.Tenant = c.query.text("source"), c.query.text("tenant")
	q.From, q.To = c.query.span()
	if at := c.position(); at != "" {
		number, aside, _ := strings.Cut(at, " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 {
			c.query.faults.Add("?cursor", "must be the next of an answer to the same request")
		}
		q.Before, q.beforeAside = n, aside
	}
	limit := c.query.limit()
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	events, scanned, err := inboxEvents(a, c, q, limit)
	if err != nil {
		return answer{}, err
	}
	asides, err := inboxAsides(a, c, q, limit)
	if err != nil {
		return answer{}, err
	}
	out := list[wire.InboxRequest]{Data: []wire.InboxRequest{}}
	e, s := 0, 0
	for len(out.Data) < limit && (e < len(events) || s < len(asides)) {
		if s == len(asides) || e < len(events) && !events[e].AcceptedAt.Before(asides[s].At) {
			out.Data = append(out.Data, a.ofSource(c, inboxEvent(&events[e])))
			e++
			continue
		}
		if e == len(events) && scanned != nil && asides[s].At.Before(scanned.AcceptedAt) {
			break // there may be events before it that were not looked at
		}
		out.Data = append(out.Data, a.ofSource(c, inboxAside(&asides[s])))
		s++
	}
	if e < len(events) || s < len(asides) || scanned != nil {
		out.Next = c.cursor(q.after(events, e, scanned) + " " + q.afterAsides(asides, s))
	}
	return jsonAnswer(http.StatusOK, out), nil
}

// after is where the next page goes on among events, of which n were shown. It is below everything
// that comes in meanwhile.
func (q *inboxQuery) after(events []grapnel.Event, n int, scanned *grapnel.Event) string {
	at := q.Before
	switch {
	case n < len(events):
		at = events[n].Seq + 1
	case scanned != nil:
		at = scanned.Seq
	case n > 0:
		at = events[n-1].Seq
	case at == 0:
		at = 1
	}
	return strconv.FormatInt(at, 10)
}

// afterAsides is the same for requests that were set aside.
func (q *inboxQuery) afterAsides(asides []grapnel.Aside, n int) string {
	switch {
	case n < len(asides):
		return asides[n].ID + "0"
	case n > 0:
		return asides[n-1].ID
	case q.beforeAside == "":
		return grapnel.AsidePrefix
	}
	return q.beforeAside
}

// inboxEvents are accepted requests, at most one more than fit. scanned is the last event that was
// looked at, if there may be more behind it.
func inboxEvents(a *api, c *call, q inboxQuery, limit int) (found []grapnel.Event, scanned *grapnel.Event, err error) {
	if !q.events {
		return nil, nil, nil
	}
	one := q.EventQuery
	atOnce := a.eventsRead()
	for looked, size := 0, 0; len(found) <= limit; {
		one.Limit = atOnce
		some, err := a.History.EventList(c.Context(), c.scope, one)
		if err != nil {
			return nil, nil, err
		}
		for i := range some {
			ev := &some[i]
			looked++
			size += len(ev.Data)
			one.Before, scanned = ev.Seq, ev
			if ev.Source != "" {
				found = append(found, *ev)
			}
		}
		if len(some) < atOnce {
			return found, nil, nil
		}
		if looked >= a.Bounds.InboxScan || size >= int(a.Bounds.PageData) {
			break
		}
	}
	return found, scanned, nil
}

// inboxAsides are requests that were set aside, at most one more than fit.
func inboxAsides(a *api, c *call, q inboxQuery, limit int) ([]grapnel.Aside, error) {
	if !q.asides {
		return nil, nil
	}
	before := q.beforeAside
	if !q.To.IsZero() {
		// Ids sort by time: this one is the lowest that a request of that instant can have.
		if first := grapnel.NewID(grapnel.AsidePrefix, q.To, bytes.NewReader(make([]byte, 16))); before == "" || first < before {
			before = first
		}
	}
	found, err := a.History.AsideList(c.Context(), c.scope, store.AsideQuery{Tenant: q.Tenant, Source: q.Source,
		Why: q.why, Before: before, Limit: limit + 1})
	if err != nil {
		return nil, err
	}
	for i := range found {
		if found[i].At.Before(q.From) {
			return found[:i], nil
		}
	}
	return found, nil
}
