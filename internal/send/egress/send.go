package egress

import (
	"context"
	"errors"
	"time"

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
	if err != nil {
		s.bodiless(ctx, err, result)
		return
	}
	key, err := s.token(ctx, r)
	if err != nil {
		r.tokenless(ctx, s, err, result)
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
	if r.broker != nil {
		r.broker.send(ctx, s, r, a, m, d, body, result)
		return
	}
	if key != nil {
		m.fields.set(headerAuth, key.header)
	}
	m.render(body, s.bounds.LongBody)
	if err := s.perform(ctx, r, a, m, result); err != nil {
		s.explain(ctx, r, a, err, result)
	}
	if key != nil {
		key.judge(s.opts.Now(), s.bounds.TokenRest, result)
	}
	if a.wroteAt.Load() != 0 {
		result.Sent = r.sent(m.fields)
	}
	if r.target != nil {
		s.judge(r, d.Link, result)
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
