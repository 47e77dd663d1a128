package api

import (
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/inbound/queue"
	"github.com/grapnelhq/grapnel/wire"
)

func settlementRoutes() []route {
	settle := func(verb queue.Verdict, takes any, summary, about string) route {
		return route{method: "POST", path: "/v1/leases/{lease}/" + string(verb), scope: grapnel.ScopeConsume,
			handle: func(a *api, c *call) (answer, error) { return settle(a, c, verb) },
			name:   string(verb) + "-lease", tag: "Queues", summary: summary, about: about + " 409 for a lease that has expired, is settled or is unknown.",
			body: optionalBody, takes: takes, gives: map[int]any{204: nil}}
	}
	return []route{
		settle(queue.Ack, newAck{}, "Acknowledge a message", "Once answered the message never comes again, unless it is replayed."),
		settle(queue.Nack, newNack{}, "Return a message (nack)", "It comes again after delay, or by the queue's policy. The attempt counts: a message with no attempts left is a dead letter."),
		settle(queue.Reject, newReject{}, "Reject a message: it becomes a dead letter", "For messages that no retry can process."),
		{method: "POST", path: "/v1/leases/{lease}/extend", scope: grapnel.ScopeConsume, handle: reading(extend),
			name: "extend-lease", tag: "Queues", summary: "Extend a lease", about: "It ends that long from now. 409 for a lease that has expired, is settled or is unknown.",
			body: optionalBody, takes: newExtension{}, gives: map[int]any{200: wire.Lease{}}},
		{method: "POST", path: "/v1/leases/settle", scope: grapnel.ScopeConsume, handle: settleAll,
			name: "settle-leases", tag: "Queues", summary: "Settle several leases at once",
			about: "Up to 1000 together, in one commit. Leases that have expired, are settled or are unknown are listed in stale " +
				"and change nothing.",
			body:  &intake{types: []string{grapnel.JSONType}, limit: perSettle, verbatim: true},
			takes: newSettlement{}, gives: map[int]any{200: settledView{}}},
	}
}

// newAck is the body that acknowledges: it says nothing more.
type newAck struct{}

type newNack struct {
	Reason string  `json:"reason,omitempty" maxLength:"500" doc:"stored with the attempt"`
	Delay  *string `json:"delay,omitempty" form:"delay" doc:"time until it can be leased again, 0s to 24h; by the policy if not given"`
}

type newReject struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"stored with the attempt"`
}

type newExtension struct {
	By string `json:"by,omitempty" form:"lease" doc:"1s to 12h from now; the queue's lease if not given"`
}

// newSettlement settles several leases.
type newSettlement struct {
	Acks    []string     `json:"acks,omitempty" maxItems:"1000" maxLength:"64" doc:"leases; at most 1000 in all"`
	Nacks   []settlement `json:"nacks,omitempty" maxItems:"1000"`
	Rejects []rejection  `json:"rejects,omitempty" maxItems:"1000"`
}

type settlement struct {
	Lease  string  `json:"lease" required:"true" maxLength:"64"`
	Reason string  `json:"reason,omitempty" maxLength:"500"`
	Delay  *string `json:"delay,omitempty" form:"delay" doc:"time until it can be leased again, 0s to 24h; by the policy if not given"`
}

type rejection struct {
	Lease  string `json:"lease" required:"true" maxLength:"64"`
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// settledView says how settling several leases went.
type settledView struct {
	Settled int      `json:"settled"`
	Stale   []string `json:"stale" nullable:"false" doc:"leases that had expired, were settled or are unknown"`
	Failed  []string `json:"failed" nullable:"false" doc:"leases whose outcome is unknown: settle them again"`
}

// settle settles the lease that the path names.
func settle(a *api, c *call, verb queue.Verdict) (answer, error) {
	var f strict.Faults
	s := queue.Settlement{Token: c.PathValue("lease"), Answer: queue.Answer{Verdict: verb}}
	switch verb {
	case queue.Ack:
		decode[struct{}](c.body, &f)
	case queue.Nack:
		in := decode[newNack](c.body, &f)
		s.Reason = in.Reason
		s.Delay, s.HasDelay = delay(in.Delay)
	case queue.Reject:
		s.Reason = decode[newReject](c.body, &f).Reason
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	broker, err := a.broker()
	if err != nil {
		return answer{}, err
	}
	s.Reply = withEffect(c, func(struct{}) answer { return nothing() }).Known(struct{}{})
	return nothing(), broker.SettleAll(c.Context(), c.scope, []queue.Settlement{s})[0]
}

// delay is what a nack asks for, if it does.
func delay(text *string) (time.Duration, bool) {
	if text == nil {
		return 0, false
	}
	return duration(*text), true
}

func extend(a *api, c *call, in *newExtension) (answer, error) {
	broker, err := a.broker()
	if err != nil {
		return answer{}, err
	}
	l, err := broker.Extend(c.Context(), c.scope, c.PathValue("lease"), duration(in.By))
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, wire.Lease{Lease: l.Token, QueueID: l.Queue, Consumer: l.Consumer,
		DeliveryID: c.ids.Delivery(l.CreatedAt, l.Delivery), Attempt: l.Number, LeaseExpiresAt: l.Until}), nil
}

// settleAll settles several leases together.
func settleAll(a *api, c *call) (answer, error) {
	if err := strict.Check(c.body, grapnel.MaxDepth); err != nil {
		return answer{}, err
	}
	var f strict.Faults
	list := readSettlements(gjson.ParseBytes(c.body), a.Bounds.SettleMost, &f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	broker, err := a.broker()
	if err != nil {
		return answer{}, err
	}
	out := settledView{Stale: []string{}, Failed: []string{}}
	var failure error
	for i, err := range broker.SettleAll(c.Context(), c.scope, list) {
		switch {
		case err == nil:
			out.Settled++
		case grapnel.CodeOf(err) == grapnel.CodeConflict:
			out.Stale = append(out.Stale, list[i].Token)
		default:
			out.Failed, failure = append(out.Failed, list[i].Token), err
		}
	}
	if failure != nil && out.Settled == 0 && len(out.Stale) == 0 {
		return answer{}, failure
	}
	return jsonAnswer(http.StatusOK, out), nil
}

// readSettlements reads what leases are settled. It is a list that decode does not know: of
// objects, and long.
func readSettlements(body gjson.Result, most int, f *strict.Faults) (all []queue.Settlement) {
	if !body.IsObject() {
		f.Add("", "must be an object")
		return nil
	}
	verdicts := map[string]queue.Verdict{"acks": queue.Ack, "nacks": queue.Nack, "rejects": queue.Reject}
	strict.Members(body, "/", f, func(v strict.Value) bool {
		verdict, known := verdicts[v.Name]
		if !known || v.Absent() {
			return known
		}
		if !v.IsArray() {
			v.Wrong("must be a list")
			return true
		}
		n := 0
		v.ForEach(func(_, result gjson.Result) bool {
			e := strict.Value{Result: result, Base: v.Pointer() + "/", Name: strconv.Itoa(n), Faults: f}
			n++
			if len(all) == most {
				v.Wrong("is too long: at most %d leases are settled together", most)
				return false
			}
			s := queue.Settlement{Answer: queue.Answer{Verdict: verdict}}
			switch verdict {
			case queue.Ack:
				s.Token = strict.DecodeText(e, forms, strict.FieldNamed(reflect.TypeFor[newSettlement](), v.Name))
			case queue.Nack:
				in := decodeInto[settlement](e)
				s.Token, s.Reason = in.Lease, in.Reason
				s.Delay, s.HasDelay = delay(in.Delay)
			case queue.Reject:
				in := decodeInto[rejection](e)
				s.Token, s.Reason = in.Lease, in.Reason
			}
			all = append(all, s)
			return !f.Full()
		})
		return true
	})
	if len(all) == 0 && f.Err() == nil {
		f.Add("", "must name at least one lease, in acks, nacks or rejects")
	}
	return all
}

// decodeInto reads one member of a document.
func decodeInto[T any](v strict.Value) T {
	var out T
	strict.DecodeObject(v, forms, reflect.ValueOf(&out).Elem())
	return out
}
