package egress

import (
	"context"
	"net/http"
	"strconv"

	"github.com/grapnelhq/grapnel/policy"
)

// Send makes one attempt. It returns when the answer has been read, the endpoint's timeout is over, or ctx is done, which is
// our own doing and not the receiver's: policy.ClassInternal.
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
	r.Outcome.Class, r.Error = class, text
}

func (s *Sender) send(outer context.Context, r *route, d Delivery, result *Result) {
	if r.class != "" {
		result.fail(r.class, r.problem)
		return
	}
	ctx, cancel := context.WithTimeout(outer, r.timeout)
	defer cancel()
	a := &attempt{sender: s, start: result.StartedAt}
	a.deadline, _ = ctx.Deadline()
	req, err := r.request(a.watch(ctx), a, d)
	if err != nil {
		result.fail(policy.ClassInternal, err.Error())
		return
	}
	resp, err := s.roundTrip(ctx, r.transport, req, a)
	if err == nil {
		err = s.receive(resp, result)
	}
	if err != nil {
		s.explain(outer, ctx, r, a, err, result)
	}
	result.Phases = a.phases(s.opts.Now().Sub(a.start))
	if a.reused {
		s.counters.reused.Add(1)
	} else if a.stage.Load() >= int32(stageSend) {
		s.counters.fresh.Add(1)
	}
}

const maxStale = 3

// roundTrip sends the request: RoundTrip and not a Client, for there is no redirect to follow and no cookie to keep. A
// receiver may close an idle connection in the moment in which it is chosen. net/http then gives up on a POST even though
// nothing of it was written; as long as that is so, another connection is tried.
func (s *Sender) roundTrip(ctx context.Context, t *http.Transport, req *http.Request, a *attempt) (*http.Response, error) {
	for stale := 0; ; stale++ {
		resp, err := t.RoundTrip(req)
		if err == nil || !a.reused || a.wroteAt.Load() != 0 || ctx.Err() != nil || stale == maxStale {
			return resp, err
		}
		a.reused = false
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// receive reads an answer. A body that breaks off matters only when the status says success: then the receiver has not
// finished saying so.
func (s *Sender) receive(resp *http.Response, result *Result) error {
	result.Outcome.Status = resp.StatusCode
	result.Outcome.Class = classOf(resp.StatusCode)
	result.Headers = keptHeaders(resp.Header)
	if resp.StatusCode < 200 { // 101: what follows is not HTTP
		_ = resp.Body.Close()
		result.Error = "the answer is not valid HTTP: it switches to another protocol"
		return nil
	}
	body, err := s.readBody(resp.Body)
	result.Body = body
	if result.Outcome.Class == policy.ClassNone {
		return err
	}
	result.Error = strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode)
	if result.Outcome.Class == policy.ClassRedirect {
		result.Error += ": redirects are not followed"
	}
	if text := resp.Header.Get("Retry-After"); text != "" {
		now := s.opts.Now()
		if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
			now = date
		}
		result.Outcome.RetryAfter, result.Outcome.HasRetryAfter = policy.ParseRetryAfter(text, now)
	}
	return nil
}

// explain turns an error into a class and a text. Our own reasons to stop come first, then the deadline: both make the
// connection fail in ways that look like the receiver's.
func (s *Sender) explain(outer, ctx context.Context, r *route, a *attempt, err error, result *Result) {
	switch {
	case outer.Err() != nil || s.closing.Err() != nil:
		result.fail(policy.ClassInternal, "interrupted: the server is shutting down")
	case ctx.Err() != nil:
		result.fail(policy.ClassTimeout, "no complete answer within "+r.timeout.String()+", "+stage(a.stage.Load()).String())
	default:
		result.fail(classify(err))
	}
}
