package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/policy"
)

// began checks an endpoint's rate limit: in any second the burst and the rate are allowed, and one
// more for each start of the node, whose bucket starts with one token.
func (r *receiver) began(at time.Duration) {
	for len(r.begun) > 0 && r.begun[0] < at-time.Second {
		r.begun = r.begun[1:]
	}
	r.begun = append(r.begun, at)
	w, limit := r.w, r.config.RateLimit
	if limit == nil || w.plan.clockJump > 0 {
		return
	}
	starts := 0
	for _, f := range w.history.Faults {
		if f.End >= at-2*time.Second {
			starts++
		}
	}
	if most := float64(limit.Burst) + limit.PerSecond + 1 + float64(starts); float64(len(r.begun)) > most {
		w.excess("%d attempts of %s in a second, limit %+v", len(r.begun), r.config.ID, *limit)
	}
}

const policyFrame = `{"timeout":"5s",%s,"jitter":0.2,"success":["2xx"],"classify":{"404":"fail","410":"disable","429":"throttle"},"limits":[],
	"retry_after":"extend","breaker":false,"disable":{"consecutive":null,"after":null,"pending":"%s"},%s}`

// healthFrame is a policy with a circuit and with rules for disabling.
const healthFrame = `{"timeout":"5s","schedule":{"mode":"since_previous","delays":[%s],"tail":"repeat"},"jitter":0.2,"success":["2xx"],
	"classify":{"404":"fail","410":"disable","429":"throttle"},"limits":[],"retry_after":"extend","max_attempts":%d,
	"breaker":{"failures":%d,"ratio":1,"window":"5s","probe":"1s","probe_max":"4s"},"disable":%s,%s}`

func kinds() []kind {
	s := time.Second
	return []kind{
		{fmt.Sprintf(policyFrame, `"schedule":{"mode":"since_previous","delays":["0s","1s","3s","10s","30s"],"tail":"stop"}`,
			"hold", `"max_attempts":5,"max_age":null,"on_exhausted":"dead_letter","then":"advance"`),
			history.Endpoint{MaxAttempts: 5, Delays: []time.Duration{s, 3 * s, 10 * s, 30 * s}}},
		{fmt.Sprintf(policyFrame, `"schedule":{"mode":"since_previous","delays":["0s","2s","5s"],"tail":"repeat"}`,
			"drop", `"max_attempts":9,"max_age":null,"on_exhausted":"dead_letter","then":"advance"`),
			history.Endpoint{MaxAttempts: 9, Delays: []time.Duration{2 * s, 5 * s}}},
		{fmt.Sprintf(policyFrame, `"schedule":{"mode":"since_first","delays":["0s","2s","6s","20s","40s"],"tail":"stop"}`,
			"hold", `"max_attempts":5,"max_age":"45s","on_exhausted":"dead_letter","then":"advance"`),
			history.Endpoint{MaxAttempts: 5, MaxAge: 45 * s, SinceFirst: true, Delays: []time.Duration{2 * s, 6 * s, 20 * s, 40 * s}}},
		{fmt.Sprintf(policyFrame, `"schedule":{"mode":"exponential","base":"1s","factor":2,"max":"20s"}`,
			"hold", `"max_attempts":7,"max_age":null,"on_exhausted":"discard","then":"advance"`),
			history.Endpoint{MaxAttempts: 7, Discards: true, Delays: []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 20 * s}}},
		{fmt.Sprintf(policyFrame, `"schedule":{"mode":"since_previous","delays":["0s","1s","2s"],"tail":"stop"}`,
			"hold", `"max_attempts":3,"max_age":null,"on_exhausted":"dead_letter","then":"block"`),
			history.Endpoint{MaxAttempts: 3, Blocks: true, Delays: []time.Duration{s, 2 * s}}},
		{fmt.Sprintf(healthFrame, `"0s","1s","15m"`, 9, 3, `{"consecutive":null,"after":null,"pending":"hold"}`,
			`"max_age":null,"on_exhausted":"dead_letter","then":"advance"`),
			history.Endpoint{MaxAttempts: 9, Breaker: true, Delays: []time.Duration{s, 15 * time.Minute}}},
		{fmt.Sprintf(healthFrame, `"0s","1s","10s"`, 9, 2, `{"consecutive":null,"after":null,"pending":"hold"}`,
			`"max_age":"30s","on_exhausted":"dead_letter","then":"advance"`),
			history.Endpoint{MaxAttempts: 9, MaxAge: 30 * s, Breaker: true, Delays: []time.Duration{s, 10 * s}}},
		{fmt.Sprintf(healthFrame, `"0s","1s","4s"`, 9, 4, `{"consecutive":3,"of":"status_4xx","after":null,"pending":"drop"}`,
			`"max_age":null,"on_exhausted":"discard","then":"advance"`),
			history.Endpoint{MaxAttempts: 9, Discards: true, Breaker: true, Delays: []time.Duration{s, 4 * s}}},
		{fmt.Sprintf(healthFrame, `"0s","1s","8m"`, 9, 2, `{"consecutive":4,"of":"status_4xx","after":"25s","pending":"hold"}`,
			`"max_age":null,"on_exhausted":"dead_letter","then":"block"`),
			history.Endpoint{MaxAttempts: 9, Blocks: true, Breaker: true, Delays: []time.Duration{s, 8 * time.Minute}}},
	}
}

// attempt sends a request.
func (n *node) attempt(a core.Attempt) {
	w := n.w
	r := w.receiver(a.Config.ID)
	r.began(w.agenda.now)
	r.starts(a)
	n.later(w.between(0, time.Millisecond), func() {
		if r.config.Status != grapnel.EndpointEnabled || !r.config.DeletedAt.IsZero() {
			// As in package engine: an operator stopped the endpoint between the core's decision
			// and the request.
			n.finish(a, internal, w.now())
			return
		}
		event, fate := n.event(a)
		if event == nil {
			n.vacate(a)
			r.ends(a, internal)
			n.step(fate)
			return
		}
		started := w.now()
		if w.chance(0.01) {
			n.later(w.between(0, 20*time.Millisecond), func() { n.finish(a, internal, started) })
			return
		}
		times := 1
		if w.options.Mutant == SendsTwice && w.rand.IntN(20) == 0 {
			times = 2
		}
		for range times {
			req := &request{from: n, attempt: a, event: event}
			w.agenda.in(w.between(0, 20*time.Millisecond), func() { r.arrive(req, started) })
			n.later(5*time.Second, func() { r.giveUp(req, started) })
		}
	})
}

func (n *node) finish(a core.Attempt, o policy.Outcome, started time.Time) {
	if n.w.options.Mutant == CallsFailureSuccess && o.Class == policy.ClassStatus5xx {
		o = policy.Outcome{Status: 200, Class: policy.ClassNone}
	}
	n.vacate(a)
	n.w.receiver(a.Config.ID).ends(a, o)
	n.step(&core.Finished{Endpoint: a.Config.ID, Delivery: a.Head.Delivery, Outcome: o,
		Attempt: grapnel.Attempt{StartedAt: started, Duration: n.w.now().Sub(started), StatusCode: o.Status, Class: o.Class,
			ResponseHeaders: wished(o)}})
}

// arrive is a request reaching its receiver, or a refused connection.
func (r *receiver) arrive(req *request, started time.Time) {
	w := r.w
	if req.over {
		return
	}
	if r.down {
		w.agenda.in(w.between(0, 10*time.Millisecond), func() {
			r.answer(req, policy.Outcome{Class: policy.ClassConnect}, started)
		})
		return
	}
	req.receipt = history.Receipt{
		Event: req.event.ID, Endpoint: r.config.ID, Position: req.attempt.Head.Position,
		Delivery: grapnel.PlainDeliveryID(req.attempt.Head.CreatedAt, req.attempt.Head.Delivery),
		Hash:     w.bytes(req), Start: w.agenda.now, Attempt: req.attempt.Number, Trigger: req.attempt.Trigger,
	}
	req.receipt.Remembered = w.options.Back && !w.stands(&req.attempt.Head)
	if w.node != req.from {
		// The sender died with the request on the wire.
		req.receipt.Status, req.receipt.AnswerLost = 200, true
		r.close(req)
		return
	}
	r.open = append(r.open, req)
	if len(r.open) > r.config.MaxConcurrency && w.options.Mutant != SendsTwice {
		w.excess("%d requests at once at %s", len(r.open), r.config.ID)
	}
	work := w.between(0, 30*time.Millisecond)
	if r.slow {
		work = w.between(0, 7*time.Second)
	}
	w.agenda.in(work, func() {
		if !req.over {
			r.reply(req, started)
		}
	})
}

// reply is the receiver answering.
func (r *receiver) reply(req *request, started time.Time) {
	w := r.w
	o := r.verdict(req)
	req.receipt.Status, req.receipt.Wish = o.Status, o.Wish
	if w.chance(w.plan.answerLost) {
		req.receipt.AnswerLost = true
		o = policy.Outcome{Class: policy.ClassReset}
	}
	req.receipt.End = w.agenda.now
	sender := req.from
	// The request has ended for the receiver, but the sender does not know yet.
	r.open = slices.DeleteFunc(r.open, func(q *request) bool { return q == req })
	w.history.Receipts = append(w.history.Receipts, req.receipt)
	at := len(w.history.Receipts) - 1
	w.trace("%s answers %d to %s", r.config.ID, req.receipt.Status, req.receipt.Delivery)
	w.agenda.in(w.between(0, 10*time.Millisecond), func() {
		if req.over {
			w.history.Receipts[at].AnswerLost = true // the sender had given up
			return
		}
		if w.node != sender {
			w.history.Receipts[at].AnswerLost = true
		}
		r.answer(req, o, started)
	})
}

// verdict is the receiver's outcome for a request.
func (r *receiver) verdict(req *request) policy.Outcome {
	w := r.w
	switch {
	case w.byID[req.event.ID].poison && !w.healing:
		return policy.Outcome{Status: 404, Class: policy.ClassStatus4xx}
	case w.healing && w.agenda.now < chaosTime+100*time.Second && w.rand.IntN(3) == 0:
		return broken // so that retries happen whose times can be checked
	case !w.chance(w.plan.receiverDown):
		return w.wishing(policy.Outcome{Status: 200, Class: policy.ClassNone})
	}
	return w.wishing(w.refusal(5*time.Second, broken))
}

// answer reaches the sender, if it still lives.
func (r *receiver) answer(req *request, o policy.Outcome, started time.Time) {
	if req.over {
		return
	}
	req.over = true
	if n := req.from; r.w.node == n {
		n.finish(req.attempt, o, started)
	}
}

// giveUp is the sender's timeout.
func (r *receiver) giveUp(req *request, started time.Time) {
	if req.over {
		return
	}
	if slices.Contains(r.open, req) {
		req.receipt.AnswerLost = true
		r.close(req)
	}
	req.over = true
	req.from.finish(req.attempt, policy.Outcome{Class: policy.ClassTimeout}, started)
}

// hangUp ends the receiver's requests when the sender dies.
func (r *receiver) hangUp() {
	for _, req := range slices.Clone(r.open) {
		req.receipt.AnswerLost = true
		if r.w.rand.IntN(2) == 0 {
			req.receipt.Status = 200 // the receiver had done the work
		}
		r.close(req)
	}
}

// close ends a request from the receiver's side.
func (r *receiver) close(req *request) {
	req.over = true
	req.receipt.End = r.w.agenda.now
	r.open = slices.DeleteFunc(r.open, func(q *request) bool { return q == req })
	r.w.history.Receipts = append(r.w.history.Receipts, req.receipt)
}

// bytes is the fingerprint of the received body.
func (w *world) bytes(req *request) string {
	if w.options.Mutant == ChangesBytes && w.rand.IntN(50) == 0 {
		return string(req.event.Data) + " "
	}
	return string(req.event.Data)
}

// later plans a step that runs only if this life still lasts.
func (n *node) later(d time.Duration, do func()) {
	n.w.agenda.in(d, func() {
		if n.w.node == n {
			do()
		}
	})
}

// vacate counts a finished attempt.
func (n *node) vacate(a core.Attempt) {
	n.flying--
	n.hosts[destination(a)]--
	if a.Number > 1 {
		n.again--
		n.againOf[a.Config.Tenant]--
	}
}
