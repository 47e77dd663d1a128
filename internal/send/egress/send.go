package egress

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// Send makes one attempt. It returns when the answer was read, the endpoint's timeout has passed,
// or ctx is done. The last is our own doing and not the receiver's: policy.ClassInternal.
func (s *Sender) Send(ctx context.Context, d Delivery) Result {
	result := Result{StartedAt: s.opts.Now()}
	r, open := s.route(d.Endpoint, result.StartedAt)
	if open {
		s.counters.inFlight.Add(1)
		s.send(ctx, r, d, &result)
		s.counters.inFlight.Add(-1)
		s.sends.Done()
	} else {
		result.fail(policy.ClassInternal, "the server is shutting down")
	}
	result.Duration = s.opts.Now().Sub(result.StartedAt)
	s.counters.attempts.Add(1)
	if result.Outcome.Class == policy.ClassBlocked {
		s.counters.blocked.Add(1)
	}
	return result
}

func (r *Result) fail(class policy.Class, text string) {
	r.Outcome.Class, r.Error = class, clean(text)
}

func (s *Sender) send(ctx context.Context, r *route, d Delivery, result *Result) {
	if r.class != "" {
		result.fail(r.class, r.problem)
		return
	}
	m := s.message()
	defer s.forget(m)
	body, contentType, err := s.bodyOf(ctx, r, m, d)
	if err != nil {
		s.bodiless(ctx, err, result)
		return
	}
	a := &attempt{sender: s, start: result.StartedAt, deadline: time.Now().Add(r.timeout), still: d.Still}
	if r.target != nil && r.target.Mail != nil {
		s.sendMail(ctx, r, a, d, body, result)
		return
	}
	if err := r.request(m, a.start, d, body, contentType); err != nil {
		result.fail(policy.ClassInternal, err.Error())
		return
	}
	m.render(body, s.bounds.LongBody)
	if err := s.perform(ctx, r, a, m, result); err != nil {
		s.explain(ctx, r, a, err, result)
	}
	if a.wroteAt.Load() != 0 {
		result.Sent = r.sent(m.fields)
	}
	if r.target != nil {
		s.judge(r, result)
	}
	result.Phases, result.Peer = a.phases(s.opts.Now().Sub(a.start)), a.peer
	if a.reused {
		s.counters.reused.Add(1)
	} else if a.stage.Load() >= int32(stageSend) {
		s.counters.fresh.Add(1)
	}
}

// bodiless records why the event has no body to send.
func (s *Sender) bodiless(ctx context.Context, err error, result *Result) {
	never, is := (*unsendable)(nil), false
	switch {
	case errors.As(err, &never):
		result.Unsendable = clean(never.reason)
		s.counters.unsendable.Add(1)
	case errors.As(err, new(deferred)):
		is = true
		s.counters.deferred.Add(1)
	case ctx.Err() != nil || s.closing.Err() != nil:
		err = errors.New("interrupted: the server is shutting down")
	}
	result.Deferred = is
	result.fail(policy.ClassInternal, err.Error())
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
			is.Value = "[redacted]"
		}
		kept = append(kept, is)
	}
	return kept
}

// receive reads an answer into the result of Send; the engine makes core.Finished of it. A body
// that breaks off matters only if the status says success: the receiver had not finished saying
// so.
func (s *Sender) receive(c *conn, result *Result) (ended bool, err error) {
	is, err := s.answer(c)
	if err != nil {
		return false, err
	}
	result.Outcome.Status = is.status
	result.Outcome.Class = policy.ClassOf(is.status)
	result.Headers, result.Body = is.headers, is.body
	if is.status < 200 { // 101, after which another protocol follows, or no valid status
		result.Error = "the answer is not valid HTTP: status " + strconv.Itoa(is.status) + " switches to another protocol or means nothing"
		return false, nil
	}
	ended = is.ended && c.reader.Buffered() == 0
	if result.Outcome.Class == policy.ClassNone {
		return ended, is.broken
	}
	result.Error = strconv.Itoa(is.status) + " " + http.StatusText(is.status)
	if result.Outcome.Class == policy.ClassRedirect {
		result.Error += ": redirects are not followed"
	}
	if is.retryAfter != "" {
		now := s.opts.Now()
		if date, err := http.ParseTime(is.date); err == nil {
			now = date
		}
		result.Outcome.RetryAfter, result.Outcome.HasRetryAfter = policy.ParseRetryAfter(is.retryAfter, now)
	}
	return ended, nil
}

// explain turns an error into a class and a text. Our own reasons to stop come first, then the
// deadline: both make the connection fail in ways that look like the receiver's.
func (s *Sender) explain(ctx context.Context, r *route, a *attempt, err error, result *Result) {
	switch {
	case ctx.Err() != nil || s.closing.Err() != nil:
		result.fail(policy.ClassInternal, "interrupted: the server is shutting down")
	case errors.Is(err, errWithdrawn):
		result.Deferred = true
		result.fail(policy.ClassInternal, err.Error())
	case time.Until(a.deadline) <= 0:
		result.fail(policy.ClassTimeout, "no complete answer within "+r.timeout.String()+", "+stage(a.stage.Load()).String())
	default:
		result.fail(classify(err))
	}
}
