package api

import (
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// The fields of attempts that answers copy.
var (
	attemptFields = pairOf[grapnel.Attempt, wire.Attempt]("ID", "PayloadHidden", "Phases", "Peer", "ErrorClass", "RequestHeaders", "ResponseBody", "ResponseBase64")
	phaseFields   = pairOf[grapnel.Phases, wire.Phases]()
	peerFields    = pairOf[grapnel.Peer, wire.Peer]()
)

// mostPlanned is how many attempts a delivery's plan shows.
const mostPlanned = 50

func viewAttempts(d *grapnel.Delivery, ids *grapnel.IDs, payloads bool) []wire.Attempt {
	id := ids.Of(d)
	views := make([]wire.Attempt, len(d.Attempts))
	for i := range d.Attempts {
		at, v := &d.Attempts[i], &views[i]
		*v = wire.Attempt{ID: ids.Attempt(d.CreatedAt, d.Seq, at.Number), ErrorClass: at.Class,
			RequestHeaders: d.Sent(at, id), ResponseBody: string(at.ResponseBody)}
		attemptFields.show(at, v)
		phaseFields.show(&at.Phases, &v.Phases)
		peerFields.show(&at.Peer, &v.Peer)
		if !utf8.Valid(at.ResponseBody) {
			v.ResponseBase64 = at.ResponseBody
		}
	}
	if !payloads {
		hideAttempts(views)
	}
	return views
}

// hideAttempts leaves out bodies and the values of headers.
func hideAttempts(views []wire.Attempt) {
	for i := range views {
		v := &views[i]
		v.RequestHeaders, v.ResponseHeaders = hideHeaders(v.RequestHeaders), hideHeaders(v.ResponseHeaders)
		v.ResponseBody, v.ResponseBase64, v.PayloadHidden = "", nil, true
	}
}

func hideHeaders(headers map[string]string) map[string]string {
	if headers == nil {
		return nil
	}
	names := make(map[string]string, len(headers))
	for name := range headers {
		names[name] = hidden
	}
	return names
}

// plan is what the endpoint's policy would do from here, computed by the very functions that do it.
// A breaker that is open changes nothing about it.
func plan(s situation) []policy.Planned {
	next := s.next()
	if s.tripped() {
		next = s.scheduled()
	}
	if next.IsZero() {
		return []policy.Planned{}
	}
	d := s.delivery
	progress := policy.Progress{Attempts: d.AttemptsMade, Anchor: d.Waiting.Anchor, Seed: s.ids.Seed(d.Seq),
		Last: policy.Outcome{Status: d.Last.StatusCode, Class: d.Last.Class}}
	most := mostPlanned
	if d.Test() {
		most = 1
	}
	return append([]policy.Planned{}, s.endpoint.Policy.Plan(progress, next, most)...)
}
