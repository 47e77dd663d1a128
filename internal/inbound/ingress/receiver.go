package ingress

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	debts "github.com/grapnelhq/grapnel/internal/base/allowance"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/store"
)

// mostFar is the number of tenants beyond which those without a debt are forgotten.
const mostFar = 1024

// New makes a Receiver.
func New(o Options) *Receiver {
	if o.Problem == nil {
		o.Problem = problem
	}
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	if o.Origin == nil {
		o.Origin = func(*http.Request) string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Bounds = bounds.Fill(o.Bounds)
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	recv := &Receiver{o: o, far: debts.New(time.Duration(o.Bounds.FarBurst)*o.Bounds.FarPause, mostFar)}
	recv.busy = newAdmission(&recv.o)
	recv.metrics = newMetrics(recv)
	return recv
}

// Take answers one request for a source. Its caller is ingest of package api, whose route takes
// POST only.
func (recv *Receiver) Take(w http.ResponseWriter, r *http.Request, id string) {
	s := recv.source(id)
	if as, refused := recv.admit(r, s); refused != nil {
		recv.refuse(w, r, s, as, *refused)
		return
	}
	limit := recv.o.MaxBody
	if s.MaxBody > 0 {
		limit = min(limit, s.MaxBody)
	}
	held := recv.busy.enter(s.Tenant, r.RemoteAddr, s.meter.vouched(recv.o.Now(), recv.o.Bounds.VouchedFor), http.NewResponseController(w))
	if held == nil {
		recv.refuse(w, r, s, busy, overloaded(recv.o.Bounds.WaitBusy))
		return
	}
	defer held.leave()
	recv.take(w, r, s, limit, held)
}

// admit refuses a request by its source and its header, before it gets a slot.
func (recv *Receiver) admit(r *http.Request, s *source) (outcome, *Refusal) {
	b := &recv.o.Bounds
	switch {
	case s == nil:
		return unknown, &Refusal{Status: http.StatusNotFound, Code: grapnel.CodeNotFound, Detail: "Source not found."}
	case recv.o.Engine.Accepts(s.Tenant) != nil:
		refused := refusal(recv.o.Engine.Accepts(s.Tenant))
		refused.Err = nil // it is no fault
		return unknown, &refused
	case s.Paused:
		return paused, &Refusal{Status: http.StatusServiceUnavailable, Code: grapnel.CodeUnavailable,
			Detail: "The source is paused.", RetryAfter: b.WaitPaused}
	case s.fault != nil:
		return failed, &Refusal{Status: http.StatusServiceUnavailable, Code: grapnel.CodeUnavailable,
			Detail: "The source's settings cannot be used.", RetryAfter: b.WaitFault, Err: s.fault}
	}
	if refused := b.look(r); refused != nil {
		return unfit, refused
	}
	if n := hops(r.Header); n > b.Hops {
		return looping, &Refusal{Status: http.StatusUnprocessableEntity, Code: CodeLoop, Detail: fmt.Sprintf("The request has "+
			"come through %d servers like this one; %d are allowed. Find the endpoint that sends to a source it gets its events from.", n, b.Hops)}
	}
	return "", nil
}

// take reads a request and then accepts, sets aside or refuses it.
func (recv *Receiver) take(w http.ResponseWriter, r *http.Request, s *source, limit int64, held *slot) {
	body, refused := recv.o.Bounds.receive(w, r, limit, held)
	if refused != nil {
		as := unread
		if refused.Code == grapnel.CodeOverloaded {
			as = busy
		}
		recv.refuse(w, r, s, as, *refused)
		return
	}
	now := recv.o.Now()
	in := recv.incoming(r, s, body, now, now)
	if !in.verify() {
		recv.unverified(w, in)
		return
	}
	if s.how.Proof != scheme.ByNothing {
		s.meter.verified.Store(in.now.UnixNano())
	}
	// Only a verified request counts toward the provider's rate: otherwise an attacker could use it
	// up.
	if wait, ok := s.limit.take(in.now); !ok {
		recv.refuse(w, r, s, limited, Refusal{Status: http.StatusTooManyRequests, Code: grapnel.CodeRateLimited,
			Detail: "The source gets more requests than it may.", RetryAfter: wait})
		return
	}
	if reply, is := in.by().Greeting(); is { // it is not stored
		reply.Write(w)
		recv.metrics.count(s, greeted)
		return
	}
	if refused := recv.tooWide(in); refused != nil {
		recv.refuse(w, r, s, looping, *refused)
		return
	}
	recv.publish(w, in)
}

// tooWide refuses a verified request that has come from far if its tenant takes too many of these.
// A refusal uses nothing up, so a loop that has ended hinders others for as long as it was wide.
func (recv *Receiver) tooWide(in *incoming) *Refusal {
	b, n := &recv.o.Bounds, hops(in.header)
	tenant, now := in.source.Tenant, in.now
	if n < b.Far || recv.far.Within(tenant, now.Add(-b.FarPause)) && recv.far.Use(tenant, now, now, b.FarPause) {
		return nil
	}
	return &Refusal{Status: http.StatusUnprocessableEntity, Code: CodeLoop, Detail: fmt.Sprintf("Too many requests that have come through "+
		"%d servers like this one or more reach the tenant's sources. Find the endpoints that send to a source "+
		"they get their events from.", b.Far)}
}

func (recv *Receiver) incoming(r *http.Request, s *source, body []byte, now, taken time.Time) *incoming {
	return &incoming{
		r:      r,
		header: r.Header,
		body:   body,
		now:    now,
		taken:  taken,
		source: s,
		origin: recv.o.Origin(r),
		checks: make([]grapnel.Check, 0, 4),
	}
}

// publish makes an event of a verified request, unless the request was already received.
func (recv *Receiver) publish(w http.ResponseWriter, in *incoming) {
	ev, placed, err := recv.place(in, grapnel.NewID(grapnel.EventPrefix, in.now, recv.o.Random), true)
	if err != nil {
		recv.refuse(w, in.r, in.source, failed, refusal(err))
		return
	}
	switch {
	case placed.Conflict: // our new id is in use, which does not happen; the provider retries
		recv.refuse(w, in.r, in.source, failed, refusal(fmt.Errorf("the id %s is in use", ev.ID)))
	case placed.Differs:
		aside := recv.aside(in, ev.Intake, grapnel.AsideConflict)
		aside.Event = placed.ID
		if recv.setAside(w, in, in.source.meter.conflicts, aside) {
			recv.answered(in, conflicting)
			in.source.taken(w, http.StatusOK, placed.ID, isConflict)
		}
	case placed.Duplicate:
		recv.answered(in, repeated)
		in.source.taken(w, http.StatusOK, placed.ID, isDuplicate)
	default:
		recv.answered(in, accepted)
		in.source.taken(w, http.StatusAccepted, ev.ID, isNew)
	}
}

// place commits the event of a request under an id, or finds the one that it repeats. minted: the
// id is new.
func (recv *Receiver) place(in *incoming, id string, minted bool) (*grapnel.Event, store.Placed, error) {
	ev := in.event(id)
	ev.Intake = in.intake()
	known := in.known(ev.Intake, ev.Type)
	ev.Intake.Checks = in.checks // with those of the id
	events := []store.Incoming{{Event: ev, Known: known, Minted: minted}}
	done, err := recv.o.Engine.Publish(in.r.Context(), events, in.once(known))
	if err == nil && done.Answer != nil {
		placed, isNew, wrong := in.repeats(done.Answer, ev.Intake, known)
		if wrong != nil || !isNew {
			return ev, placed, wrong
		}
		done, err = recv.o.Engine.Publish(in.r.Context(), events, nil)
	}
	if err != nil {
		return ev, store.Placed{}, err
	}
	return ev, done.Events[0], nil
}

// unverified refuses a request or, if the source is set to quarantine or waits for its secret, sets
// it aside.
func (recv *Receiver) unverified(w http.ResponseWriter, in *incoming) {
	waits := in.waits()
	setAside := waits || in.source.OnUnverified == grapnel.Quarantine
	recv.logUnverified(in, setAside)
	if !waits {
		recv.metrics.signatures.WithLabelValues(string(cmp.Or(in.by().Reason, scheme.Malformed))).Inc()
	}
	if !setAside {
		if in.source.how.Proof == scheme.ByBasic {
			w.Header().Set("Www-Authenticate", `Basic realm="webhooks"`)
		}
		recv.refuse(w, in.r, in.source, unverified, Refusal{Status: http.StatusUnauthorized, Code: CodeUnverified,
			Detail: "The request cannot be verified: " + in.complaint() + "."})
		return
	}
	if most := recv.o.Bounds.AsideBody; len(in.body) > most && !waits {
		in.passed(fmt.Sprintf("of the body's %d bytes the first %d are stored", len(in.body), most))
		in.body = in.body[:most]
	}
	aside := recv.aside(in, in.intake(), grapnel.AsideUnverified)
	if recv.setAside(w, in, in.source.meter.aside, aside) {
		recv.answered(in, quarantined)
		in.source.taken(w, http.StatusAccepted, aside.ID, isQuarantined)
	}
}

// setAside stores a request, within the limits of its source. false: it is not stored, and
// answered.
func (recv *Receiver) setAside(w http.ResponseWriter, in *incoming, allowed *allowance, aside grapnel.Aside) bool {
	if wait, ok := allowed.take(in.now, &aside); !ok {
		recv.refuse(w, in.r, in.source, limited, Refusal{Status: http.StatusTooManyRequests, Code: grapnel.CodeRateLimited,
			Detail: "Too many requests of the source are stored already as " + string(aside.Why) + ".", RetryAfter: wait})
		return false
	}
	err := recv.o.Engine.Accepts(aside.Tenant) // it may have been ordered while the request came in
	if err == nil {
		err = recv.o.Store.SetAside(in.r.Context(), aside)
	}
	if err != nil {
		recv.refuse(w, in.r, in.source, failed, refusal(err))
		return false
	}
	return true
}

// logUnverified logs that a source gets requests that cannot be verified: a secret was rotated at
// the provider and not here, or someone tries to forge one. The log has a line for each TallyEvery
// at most, because anyone who reaches a source can send any number of them.
func (recv *Receiver) logUnverified(in *incoming, setAside bool) {
	requests, due := in.source.meter.unverified.Add(in.now, recv.o.Bounds.TallyEvery)
	if !due {
		return
	}
	message := "requests not verified; refused"
	if setAside {
		message = "requests not verified; quarantined"
	}
	recv.o.Log.LogAttrs(in.r.Context(), slog.LevelInfo, message, slog.String("source", in.source.ID), slog.String("tenant", in.source.Tenant),
		slog.Int("requests", requests), slog.String("reason", in.complaint()))
}

// aside is a stored request that is no event.
func (recv *Receiver) aside(in *incoming, how *grapnel.Intake, why grapnel.AsideReason) grapnel.Aside {
	return grapnel.Aside{
		ID: grapnel.NewID(grapnel.AsidePrefix, in.now, recv.o.Random), Tenant: in.source.Tenant, Why: why,
		ContentType: in.media(), Body: in.body, Size: len(in.body), Intake: *how,
	}
}

// refuse answers that a request was not accepted. Faults of the server, and refusals for what a
// tenant has too much of, are logged, a line for each TallyEvery, because anyone can send any
// number of requests. Overload, a full disk and the move of a tenant are not logged here: their own
// packages log when they begin and end.
func (recv *Receiver) refuse(w http.ResponseWriter, r *http.Request, s *source, as outcome, refused Refusal) {
	recv.metrics.count(s, as)
	recv.o.Refused(string(refused.Code))
	recv.judge(r, as, refused.Status)
	if s != nil {
		s.meter.refused.add(recv.o.Now(), &refused)
	}
	if refused.Err != nil && r.Context().Err() == nil && refused.Code != grapnel.CodeOverloaded && refused.Code != grapnel.CodeStorageFull {
		level, message, refusals := slog.LevelError, "receiving requests failed", &s.meter.faults
		if refused.Status < http.StatusInternalServerError { // the tenant has too much already: no fault of the server
			level, message, refusals = slog.LevelInfo, "requests over a limit of the tenant; refused", &s.meter.excess
		}
		if requests, due := refusals.Add(recv.o.Now(), recv.o.Bounds.TallyEvery); due {
			recv.o.Log.LogAttrs(r.Context(), level, message,
				slog.String("source", s.ID), slog.Int("requests", requests), slog.Any("error", refused.Err))
		}
	}
	recv.o.Problem(w, r, refused)
}

// answered counts a request that was taken, and judges the time from its body to now.
func (recv *Receiver) answered(in *incoming, as outcome) {
	recv.metrics.count(in.source, as)
	if recv.o.Promised != nil {
		took := recv.o.Now().Sub(in.now)
		recv.o.Promised(took <= promise.AnswerWithin, took)
	}
}

// judge judges a refusal by the promise of availability. Anyone can send a request that proves
// nothing, so such a one counts only if the server failed; a source that a person has paused, and
// a caller who has left, count for nothing.
func (recv *Receiver) judge(r *http.Request, as outcome, status int) {
	if recv.o.Promised == nil || r.Context().Err() != nil {
		return
	}
	switch {
	case as == busy, as == failed && status >= http.StatusInternalServerError:
		recv.o.Promised(false, -1)
	case as == limited, as == failed:
		recv.o.Promised(true, -1)
	}
}

// source finds a source, ready for use.
func (recv *Receiver) source(id string) *source {
	now, there := recv.o.Engine.Source(store.Everyone(), id)
	if !there || now.Outbox != nil || now.Broker != nil { // these receive no requests
		recv.sources.Delete(id)
		return nil
	}
	for {
		ready, _ := recv.sources.Load(id)
		before, _ := ready.(*source)
		if before != nil && before.Revision == now.Revision {
			return before
		}
		// If two requests meet a new revision at once, one prepares it for both, so that a source
		// has one set of counters.
		s := prepare(now, before, &recv.o.Bounds)
		if before == nil {
			if _, late := recv.sources.LoadOrStore(id, s); !late {
				recv.forget()
				return s
			}
		} else if recv.sources.CompareAndSwap(id, before, s) {
			return s
		}
	}
}

// forget removes deleted sources, each time that more were added than existed the last time. So
// memory has at most twice the sources that existed then, and adding one costs two looks at most.
func (recv *Receiver) forget() {
	if recv.fresh.Add(1) <= recv.stayed.Load() {
		return
	}
	recv.fresh.Store(0)
	stayed := int64(0)
	recv.sources.Range(func(id, _ any) bool {
		if _, there := recv.o.Engine.Source(store.Everyone(), id.(string)); there {
			stayed++
		} else {
			recv.sources.Delete(id)
		}
		return true
	})
	recv.stayed.Store(stayed)
}
