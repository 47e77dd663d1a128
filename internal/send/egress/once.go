package egress

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// once makes one request, with the body and headers of a delivery or of a batch. Its deadline
// counts from here.
func (r *route) once(ctx context.Context, s *Sender, m *message, d Delivery, body []byte, contentType string, result *Result) {
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
