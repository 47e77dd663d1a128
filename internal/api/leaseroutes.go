package api

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/queue"
)

const (
	longestDelay  = 24 * time.Hour // of a nack
	consumerField = "Grapnel-Consumer"
)

var consumerParam = param{name: "consumer", form: "consumer", doc: "who asks, up to 64 characters; also as the header " + consumerField + "; the API key's id if not given"}

// newAck is the body that acknowledges: it says nothing more.
type newAck struct{}

func leaseRoutes() []route {
	settle := func(verb queue.Verdict, takes any, summary, about string) route {
		return route{method: "POST", path: "/v1/leases/{lease}/" + string(verb), scope: grapnel.ScopeConsume,
			handle: func(a *api, c *call) (answer, error) { return settle(a, c, verb) },
			name:   string(verb) + "-lease", tag: "Queues", summary: summary, about: about + " A lease that is over, settled or not known answers 409.",
			body: &intake{types: []string{grapnel.JSONType}, optional: true}, takes: takes, gives: map[int]any{204: nil}}
	}
	next := []param{
		{name: "wait", bound: func(b *Bounds) strict.Form { return strict.Lasting(0, b.LongestWait, "20s") }, doc: "how long to wait for a message, 0s to 60s; 0s if not given"},
		{name: "max", bound: func(b *Bounds) strict.Form { return strict.WholeNumber(1, b.LeaseMost) }, doc: "how many messages at most, 1 to 100; 1 if not given. With it the answer is a list, whatever it is"},
		consumerParam, tenantParam,
	}
	return []route{
		{method: "GET", path: "/v1/queues/{name}/next", also: []string{"/queues/{name}/next"}, scope: grapnel.ScopeConsume, handle: leaseNext,
			name: "next", tag: "Queues", summary: "Lease the next message of a queue",
			about: "The body is the event's data as they were sent, with their content type; Grapnel-Meta is JSON: lease, event_id, delivery_id, type, key, attempt, " +
				"first_seen_at, lease_expires_at, ack_url, nack_url, reject_url. With max or Accept: application/json it is a list of messages. 204: there " +
				"was nothing. Until it is settled, or its lease is over, nobody else gets the message; what was not settled in time comes again, by the queue's policy.",
			query: next, gives: map[int]any{200: handedOut{}, 204: nil}},
		{method: "GET", path: "/v1/queues/{name}/stream", scope: grapnel.ScopeConsume, handle: stream,
			name: "stream", tag: "Queues", summary: "Lease messages of a queue as they come",
			about: "Server-sent events; the data of each is {\"meta\":…,\"body\":…}, and each has a lease to settle. At most max_leased are handed out before some are " +
				"settled. With Last-Event-ID, what was sent after it is handed out once more at once.",
			query: []param{consumerParam, tenantParam}, gives: map[int]any{200: streamed{}, 204: nil}},
		{method: "GET", path: "/v1/queues/{name}/peek", scope: grapnel.ScopeRead, handle: peek,
			name: "peek", tag: "Queues", summary: "Look at what a queue hands out next, without leasing it",
			about: "In the order in which it is due; what is leased or delayed has its place by when that ends. What waits behind its key is not among it.",
			query: []param{{name: "limit", bound: func(b *Bounds) strict.Form { return strict.WholeNumber(1, b.LeaseMost) }, doc: "how many at most, 1 to 100; 10 if not given"}, tenantParam}, gives: map[int]any{200: peekedList{}}},
		settle(queue.Ack, newAck{}, "Say that a message is dealt with", "Once it is answered the message never comes again, unless it is replayed."),
		settle(queue.Nack, newNack{}, "Give a message back", "It comes again after delay or, without one, when the queue's policy says. Its attempt counts: when there are none left it is a dead letter."),
		settle(queue.Reject, newReject{}, "Make a message a dead letter", "Trying again would not help."),
		{method: "POST", path: "/v1/leases/{lease}/extend", scope: grapnel.ScopeConsume, handle: extend,
			name: "extend-lease", tag: "Queues", summary: "Let a lease end later", about: "It ends that long from now. A lease that is over, settled or not known answers 409.",
			body: &intake{types: []string{grapnel.JSONType}, optional: true}, takes: newExtension{}, gives: map[int]any{200: leaseView{}}},
		{method: "POST", path: "/v1/leases/settle", scope: grapnel.ScopeConsume, handle: settleAll,
			name: "settle-leases", tag: "Queues", summary: "Settle several leases at once",
			about: "Up to 1000 together, in one commit. Those that are over, settled or not known are listed in stale and change nothing.",
			body:  &intake{types: []string{grapnel.JSONType}, limit: perSettle, verbatim: true}, takes: newSettlement{}, gives: map[int]any{200: settledView{}}},
	}
}

type newNack struct {
	Reason string  `json:"reason,omitempty" maxLength:"500" doc:"kept with the attempt"`
	Delay  *string `json:"delay,omitempty" form:"delay" doc:"when it comes again, 0s to 24h; by the policy if not given"`
}

type newReject struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"kept with the attempt"`
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
	Delay  *string `json:"delay,omitempty" form:"delay" doc:"when it comes again, 0s to 24h; by the policy if not given"`
}

type rejection struct {
	Lease  string `json:"lease" required:"true" maxLength:"64"`
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// settledView says how settling several leases went.
type settledView struct {
	Settled int      `json:"settled"`
	Stale   []string `json:"stale" nullable:"false" doc:"leases that were over, settled or not known"`
	Failed  []string `json:"failed" nullable:"false" doc:"leases of which it is not known whether they are settled: settle them again"`
}

// leaseView is a lease as it is.
type leaseView struct {
	Lease          string `json:"lease"`
	QueueID        string `json:"queue_id"`
	Consumer       string `json:"consumer"`
	DeliveryID     string `json:"delivery_id"`
	Attempt        int    `json:"attempt"`
	LeaseExpiresAt stamp  `json:"lease_expires_at"`
}

// consumer is who asks.
func (c *call) consumer() string {
	name, pointer := c.query.text("consumer"), "?consumer"
	if name == "" {
		name, pointer = c.Header.Get(consumerField), consumerField
	}
	if name == "" {
		return c.key.ID
	}
	if looks := forms["consumer"]; !looks.Fits(name) || !utf8.ValidString(name) {
		c.query.faults.Add(pointer, "%s", looks.Must)
	}
	return name
}

// patient keeps the server's limits on slow callers from ending an answer that takes so long on purpose.
func (c *call) patient(wait time.Duration) {
	until := time.Now().Add(wait + c.bounds.AnswerTime)
	_ = c.connection.SetReadDeadline(until) // what cannot be told to wait keeps the server's own limits
	_ = c.connection.SetWriteDeadline(until)
}

// lease leases messages, and gives them back if the key's right has ended meanwhile.
func (a *api) lease(ctx context.Context, c *call, room Queues, q *grapnel.Endpoint, consumer string, most int, wait time.Duration) (
	[]queue.Message, error,
) {
	messages, err := room.Next(ctx, q, consumer, most, wait)
	if lost := a.authenticate(c); lost != nil {
		room.Release(leasesOf(messages))
		return nil, lost
	}
	return messages, err
}

// leaseNext leases messages. HEAD, which looks the same to the multiplexer, must not lease what nobody would see.
func leaseNext(a *api, c *call) (answer, error) {
	wait, most, consumer := c.query.duration("wait"), c.query.number("max", 1), c.consumer()
	room, q, err := a.counter(c)
	if err != nil {
		return answer{}, err
	}
	if c.Method == http.MethodHead {
		return nothing(), nil
	}
	if wait > 0 {
		c.patient(wait)
	}
	messages, err := a.lease(c.Context(), c, room, &q, consumer, most, wait)
	if err != nil {
		return answer{}, err
	}
	if len(messages) == 0 {
		return nothing(), nil
	}
	plain := strings.HasPrefix(c.URL.Path, "/queues/")
	// A program that asks for as many as it has room for must not get another shape when that is one.
	if !plain && (c.query.text("max") != "" || wantsJSON(c.Header)) {
		size := 16
		for i := range messages {
			size += 1024 + len(messages[i].Event.Data)
		}
		out := append(make([]byte, 0, size), `{"data":[`...)
		for i := range messages {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendMessage(out, c.meta(&messages[i]), messages[i].Event)
		}
		return answer{status: http.StatusOK, body: append(out, "]}\n"...)}, nil
	}
	m := &messages[0]
	meta := c.meta(m)
	return answer{status: http.StatusOK, body: m.Event.Data, contentType: meta.ContentType, header: map[string]string{
		"Grapnel-Meta": headerJSON(meta), "X-Hooque-Meta": headerJSON(meta.seed()),
	}}, nil
}

// wantsJSON says whether the caller asks for JSON by name; whoever takes anything gets the bytes.
func wantsJSON(h http.Header) bool {
	for _, one := range strings.Split(h.Get("Accept"), ",") {
		media, _, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(media), grapnel.JSONType) {
			return true
		}
	}
	return false
}

func peek(a *api, c *call) (answer, error) {
	limit := c.query.number("limit", 10)
	room, q, err := a.counter(c)
	if err != nil {
		return answer{}, err
	}
	found, err := room.Peek(c.Context(), q.ID, limit)
	if err != nil {
		return answer{}, err
	}
	out := []byte(`{"data":[`)
	for i := range found {
		if i > 0 {
			out = append(out, ',')
		}
		h, ev := &found[i].Head, found[i].Event
		meta := peekedMeta{DeliveryID: c.ids.Delivery(h.CreatedAt, h.Delivery), Key: orNull(h.Lane), Attempt: h.Attempts + 1, FirstSeenAt: stamp(h.CreatedAt), DueAt: stamp(h.Due)}
		if ev != nil {
			meta.EventID, meta.Type, meta.Key, meta.ContentType, meta.FirstSeenAt = ev.ID, ev.Type, orNull(ev.Key), contentTypeOf(ev), stamp(ev.AcceptedAt)
		}
		out = appendMessage(out, meta, ev)
	}
	return answer{status: http.StatusOK, body: append(out, "],\"next\":null}\n"...)}, nil
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
	room, err := a.room()
	if err != nil {
		return answer{}, err
	}
	if err := room.SettleAll(c.Context(), c.scope, []queue.Settlement{s})[0]; err != nil {
		return answer{}, err
	}
	return nothing(), nil
}

// delay is what a nack asks for, if it does.
func delay(text *string) (time.Duration, bool) {
	if text == nil {
		return 0, false
	}
	return duration(*text), true
}

func extend(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newExtension](c.body, &f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	room, err := a.room()
	if err != nil {
		return answer{}, err
	}
	l, err := room.Extend(c.Context(), c.scope, c.PathValue("lease"), duration(in.By))
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, leaseView{l.Token, l.Queue, l.Consumer, c.ids.Delivery(l.CreatedAt, l.Delivery), l.Number, stamp(l.Until)}), nil
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
	room, err := a.room()
	if err != nil {
		return answer{}, err
	}
	out := settledView{Stale: []string{}, Failed: []string{}}
	var failure error
	for i, err := range room.SettleAll(c.Context(), c.scope, list) {
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

// readSettlements reads what leases are settled. It is a list that decode does not know: of objects, and long.
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
				s.Token = strict.DecodeText(e, forms, strict.JsonFields(reflect.TypeFor[newSettlement]())[v.Name])
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
