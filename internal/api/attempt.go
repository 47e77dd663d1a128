package api

import (
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// attemptView is an attempt as it is shown.
type attemptView struct {
	ID              string            `json:"id"`
	Number          int               `json:"number"`
	Trigger         string            `json:"trigger" enum:"schedule,manual,replay,probe,test"`
	ScheduledFor    stamp             `json:"scheduled_for"`
	StartedAt       stamp             `json:"started_at"`
	Duration        span              `json:"duration"`
	Phases          phasesView        `json:"phases"`
	StatusCode      *int              `json:"status_code" doc:"null: there was no response"`
	ErrorClass      string            `json:"error_class"`
	Error           *string           `json:"error"`
	RequestHeaders  map[string]string `json:"request_headers" nullable:"true" doc:"what was sent; values of the endpoint's own headers, but for lone names in braces, are [redacted]; null: nothing was sent, or by an earlier version"`
	ResponseHeaders map[string]string `json:"response_headers"`
	ResponseBody    string            `json:"response_body" doc:"the first 16 KiB, as text"`
	ResponseBase64  []byte            `json:"response_body_base64,omitempty" doc:"the bytes themselves, when they are not text"`
	Decision        string            `json:"decision" enum:"deliver,retry,fail,throttle,disable"`
	NextAttemptAt   *stamp            `json:"next_attempt_at" nullable:"true"`
	PolicyRevision  int64             `json:"policy_revision" doc:"the endpoint's revision whose policy decided"`
}

// phasesView are the parts of an attempt's time; what did not happen is absent.
type phasesView struct {
	DNS       span `json:"dns,omitzero"`
	Connect   span `json:"connect,omitzero"`
	TLS       span `json:"tls,omitzero"`
	FirstByte span `json:"first_byte,omitzero" doc:"from the request written to the first byte of the response"`
	Body      span `json:"body,omitzero"`
	Reused    bool `json:"reused" doc:"on a connection that was open already"`
}

// plannedView is an attempt still to come.
type plannedView struct {
	Number int   `json:"number"`
	At     stamp `json:"at"`
	Latest stamp `json:"latest" doc:"the latest that jitter can put it"`
}

// mostPlanned is how many attempts a delivery's plan shows.
const mostPlanned = 50

func viewAttempts(d *grapnel.Delivery, ids *grapnel.IDs) []attemptView {
	id := ids.Of(d)
	views := make([]attemptView, len(d.Attempts))
	for i := range d.Attempts {
		at := &d.Attempts[i]
		views[i] = attemptView{
			ID: ids.Attempt(d.CreatedAt, d.Seq, at.Number), Number: at.Number, Trigger: string(at.Trigger),
			ScheduledFor: stamp(at.ScheduledFor), StartedAt: stamp(at.StartedAt), Duration: span(at.Duration),
			Phases: phasesView{
				DNS: span(at.Phases.DNS), Connect: span(at.Phases.Connect), TLS: span(at.Phases.TLS),
				FirstByte: span(at.Phases.FirstByte), Body: span(at.Phases.Body), Reused: at.Phases.Reused,
			},
			StatusCode: numberOrNull(at.StatusCode), ErrorClass: string(at.Class), Error: orNull(at.Error),
			RequestHeaders: d.Sent(at, id), ResponseHeaders: at.ResponseHeaders, ResponseBody: string(at.ResponseBody), Decision: string(at.Decision),
			NextAttemptAt: stampOf(at.NextAttemptAt), PolicyRevision: at.PolicyRevision,
		}
		if !utf8.Valid(at.ResponseBody) {
			views[i].ResponseBase64 = at.ResponseBody
		}
		if views[i].ResponseHeaders == nil {
			views[i].ResponseHeaders = map[string]string{}
		}
	}
	return views
}

// plan is what the endpoint's policy would do from here, computed by the very functions that do it. A breaker that is open changes
// nothing about it.
func plan(s situation) []plannedView {
	next := s.next()
	if s.tripped() {
		next = s.scheduled()
	}
	if next.IsZero() {
		return []plannedView{}
	}
	d := s.delivery
	progress := policy.Progress{Attempts: d.AttemptsMade, Anchor: d.Waiting.Anchor, Seed: s.ids.Seed(d.Seq)}
	planned := s.endpoint.Policy.Plan(progress, next, mostPlanned)
	views := make([]plannedView, len(planned))
	for i, p := range planned {
		views[i] = plannedView{Number: p.Number, At: stamp(p.At), Latest: stamp(p.Latest)}
	}
	return views
}
