package api

import (
	"slices"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/openapi"
	"github.com/grapnelhq/grapnel/policy"
)

// deliveryView is a delivery as it is shown.
type deliveryView struct {
	ID            string    `json:"id"`
	EventID       string    `json:"event_id"`
	EndpointID    string    `json:"endpoint_id"`
	Tenant        string    `json:"tenant"`
	Type          string    `json:"type"`
	Key           *string   `json:"key"`
	Sequence      *int64    `json:"sequence" doc:"position in the line of its key; null: it has no line, or joined it a moment ago"`
	Status        string    `json:"status" enum:"pending,held,delivered,failed,dropped,discarded,skipped"`
	ReasonCode    *string   `json:"reason_code" doc:"why it failed: exhausted, permanent, rejected, expired, endpoint_gone, damaged"`
	Reason        string    `json:"reason" doc:"one sentence: why it is where it is"`
	AttemptsMade  int       `json:"attempts_made"`
	NextAttemptAt *stamp    `json:"next_attempt_at" nullable:"true"`
	CreatedAt     stamp     `json:"created_at"`
	FinishedAt    *stamp    `json:"finished_at" nullable:"true"`
	ReplayOf      *string   `json:"replay_of" doc:"the delivery that this one repeats"`
	Last          *lastView `json:"last" nullable:"true" doc:"its last attempt; null: there was none"`
	Marks
	PurgeAt  *stamp        `json:"purge_at" nullable:"true" doc:"not kept after this; null: it is not over, or is kept for ever"`
	DaysLeft *int          `json:"days_left" nullable:"true" doc:"whole days until then"`
	Attempts []attemptView `json:"attempts,omitzero" nullable:"false" doc:"only when one delivery is asked for"`
	Planned  []plannedView `json:"planned,omitzero" nullable:"false" doc:"what comes if every attempt fails; only when one delivery is asked for"`
}

// lastView is what lists tell of a delivery's last attempt.
type lastView struct {
	StatusCode *int   `json:"status_code" doc:"null: there was no response"`
	ErrorClass string `json:"error_class"`
	Duration   span   `json:"duration"`
}

// Schema says how it looks; a reference could not say that it may be null.
func (lastView) Schema(huma.Registry) *huma.Schema {
	s := openapi.Object(map[string]*huma.Schema{
		"status_code": {Type: huma.TypeInteger, Nullable: true, Description: "null: there was no response"},
		"error_class": {Type: huma.TypeString},
		"duration":    durationSchema(),
	}, "status_code", "error_class", "duration")
	s.AdditionalProperties = nil
	return s
}

// Marks is what was noted on a delivery since it was over. It changes nothing about what became of it.
type Marks struct {
	Note          *string `json:"note"`
	DiscardedAt   *stamp  `json:"discarded_at" nullable:"true" doc:"it is no dead letter any more since then: somebody has looked at it"`
	DiscardReason *string `json:"discard_reason"`
	ReplayedAt    *stamp  `json:"replayed_at" nullable:"true" doc:"when it was last delivered again"`
	ReplayedBy    *string `json:"replayed_by" doc:"the replay; null: by hand"`
	ReplayedAs    *string `json:"replayed_as" doc:"the new delivery; null: there is none"`
	ReplayResult  *string `json:"replay_result" doc:"what became of the new delivery; pending: it is not over"`
}

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

// look shows deliveries to one caller. It asks for each endpoint's health and each repeated delivery's id only once.
type look struct {
	a      *api
	c      *call
	health map[string]grapnel.Health
	ids    map[int64]string
}

func (a *api) look(c *call) *look {
	return &look{a: a, c: c, health: map[string]grapnel.Health{}, ids: map[int64]string{}}
}

func (l *look) situation(d *grapnel.Delivery) situation {
	s := situation{delivery: d, now: l.c.now, ids: l.c.ids}
	if ep, ok := l.a.Engine.Endpoint(l.c.scope, d.EndpointID); ok {
		s.endpoint = &ep
	}
	if d.Status.Final() || s.endpoint == nil {
		return s
	}
	if _, known := l.health[d.EndpointID]; !known {
		l.ask([]grapnel.Delivery{*d})
	}
	s.health = l.health[d.EndpointID]
	return s
}

// ask learns at once how all endpoints are doing for which something of a list waits.
func (l *look) ask(list []grapnel.Delivery) {
	var ids []string
	for i := range list {
		if d := &list[i]; !d.Status.Final() {
			ids = append(ids, d.EndpointID)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return
	}
	for i, h := range l.a.Engine.Healths(ids) {
		l.health[ids[i]] = h
	}
}

// view shows a delivery as lists do, without attempts.
func (l *look) view(d *grapnel.Delivery) (deliveryView, error) {
	repeats, err := l.numbered(d.ReplayOf)
	if err != nil {
		return deliveryView{}, err
	}
	v := viewDelivery(l.situation(d), repeats)
	v.Marks = viewMarks(&d.Mark, l.c.ids)
	if kept := l.a.Keep.Of(d.Tenant, d.Type); kept > 0 && d.Status.Final() {
		end := d.FinishedAt.Add(kept)
		days := max(0, int(end.Sub(l.c.now)/day))
		v.PurgeAt, v.DaysLeft = stampOf(end), &days
	}
	return v, nil
}

func viewMarks(m *grapnel.Mark, ids *grapnel.IDs) Marks {
	v := Marks{
		Note: orNull(m.Note), DiscardedAt: stampOf(m.DiscardedAt), DiscardReason: orNull(m.DiscardReason),
		ReplayedAt: stampOf(m.ReplayedAt), ReplayedBy: orNull(m.ReplayedBy), ReplayResult: orNull(m.ReplayResult),
	}
	if m.ReplayedAs != 0 {
		id := ids.Delivery(m.ReplayedAt, m.ReplayedAs) // a delivery is accepted when it is made
		v.ReplayedAs = &id
	}
	return v
}

// whole shows a delivery with its attempts and its plan.
func (l *look) whole(d *grapnel.Delivery) (deliveryView, error) {
	v, err := l.view(d)
	if err != nil {
		return v, err
	}
	return v.with(l.situation(d)), nil
}

// numbered is the id of a delivery known by its number; null when it is gone.
func (l *look) numbered(seq int64) (*string, error) {
	if seq == 0 {
		return nil, nil
	}
	id, known := l.ids[seq]
	if !known {
		d, err := l.a.History.Delivery(l.c.Context(), l.c.scope, seq)
		switch {
		case err == nil:
			id = l.c.ids.Of(d)
		case grapnel.CodeOf(err) != grapnel.CodeNotFound:
			return nil, err
		}
		l.ids[seq] = id
	}
	return orNull(id), nil
}

func viewDelivery(s situation, replayOf *string) deliveryView {
	d := s.delivery
	return deliveryView{
		ID: s.ids.Of(d), EventID: d.EventID, EndpointID: d.EndpointID, Tenant: d.Tenant, Type: d.Type, Key: orNull(d.Key),
		Sequence: numberOrNull(d.Position), Status: string(s.status()), ReasonCode: orNull(d.ReasonCode), Reason: s.reason(),
		AttemptsMade: d.AttemptsMade, NextAttemptAt: stampOf(s.next()), CreatedAt: stamp(d.CreatedAt), FinishedAt: stampOf(d.FinishedAt),
		ReplayOf: replayOf, Last: viewLast(&d.Last),
	}
}

func viewLast(l *grapnel.Last) *lastView {
	if l.Class == "" {
		return nil
	}
	return &lastView{StatusCode: numberOrNull(l.StatusCode), ErrorClass: string(l.Class), Duration: span(l.Duration)}
}

// with adds the attempts that were made and those to come.
func (v deliveryView) with(s situation) deliveryView {
	v.Attempts, v.Planned = viewAttempts(s.delivery, s.ids), plan(s)
	return v
}

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

// delivery finds a delivery by the id in the path. A reading whose row id exists but whose time is another's is of an id that was guessed, or
// that another cell gave.
func (a *api) delivery(c *call, id string) (*grapnel.Delivery, error) {
	for _, reading := range a.Engine.Readings(id) {
		d, err := a.History.Delivery(c.Context(), c.scope, reading.Seq)
		switch {
		case grapnel.CodeOf(err) == grapnel.CodeNotFound:
		case err != nil:
			return nil, err
		case reading.Is(d):
			return d, nil
		}
	}
	return nil, grapnel.Errorf(grapnel.CodeNotFound, "there is no such delivery")
}
