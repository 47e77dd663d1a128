package egress

import (
	"context"
	"errors"

	"github.com/grapnelhq/grapnel/policy"
)

// Send makes one attempt. It returns when the answer was read, the endpoint's timeout has passed,
// or ctx is done. The last is our own doing and not the receiver's: policy.ClassInternal.
func (s *Sender) Send(ctx context.Context, d Delivery) Result {
	result := Result{StartedAt: s.opts.Now()}
	r, open := s.route(d.Endpoint, d.through(), result.StartedAt)
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

// through is what the operator's settings say of the way to the receiver: the URL of the tenant's
// proxy, or, of a contact with a mail address, that of the mail server.
func (d *Delivery) through() string {
	if d.Endpoint.Channel.Mailed() {
		return d.Mailer
	}
	return d.Proxy
}

func (s *Sender) send(ctx context.Context, r *route, d Delivery, result *Result) {
	if r.class != "" {
		result.fail(r.class, r.problem)
		return
	}
	m := s.message()
	defer s.forget(m)
	body, contentType, err := s.bodyOf(ctx, r, m, d)
	switch {
	case err != nil:
		s.bodiless(ctx, err, result)
	case r.shares(&d):
		r.together(ctx, s, m, d, body, result)
	default:
		r.once(ctx, s, m, d, body, contentType, result)
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
