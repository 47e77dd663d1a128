package api

import (
	"cmp"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// A selection is what a list of deliveries or an export was asked for.
type selection struct {
	store.DeliveryQuery
	text string // in the event's data; empty: any
}

// classes are the error classes that an attempt can end in.
func classes() []string {
	var names []string
	for _, c := range []policy.Class{policy.ClassDNS, policy.ClassConnect, policy.ClassTLS, policy.ClassTimeout, policy.ClassReset,
		policy.ClassProtocol, policy.ClassRedirect, policy.ClassBlocked, policy.ClassStatus3xx, policy.ClassStatus4xx,
		policy.ClassStatus429, policy.ClassStatus5xx, policy.ClassNone} {
		names = append(names, string(c))
	}
	return names
}

func reasonCodes() []string {
	var names []string
	for _, r := range []grapnel.ReasonCode{grapnel.ReasonExhausted, grapnel.ReasonPermanent, grapnel.ReasonRejected, grapnel.ReasonExpired,
		grapnel.ReasonEndpointGone, grapnel.ReasonDamaged} {
		names = append(names, string(r))
	}
	return names
}

func statuses() []string {
	var names []string
	for _, s := range grapnel.Statuses() {
		names = append(names, string(s))
	}
	return names
}

var (
	endpointParam = param{name: "endpoint", form: "id", doc: "an endpoint's id"}
	statusParam   = param{name: "status", repeat: true, one: statuses(), doc: "one or more statuses, repeated or separated by commas"}
)

// deadLetterFilter are the parameters that choose among dead letters, and among deliveries of any
// status.
func deadLetterFilter() []param {
	return []param{
		typeParam, keyParam, tenantParam, fromParam, toParam,
		{name: "reason_code", one: reasonCodes(), doc: "why it failed"},
		{name: "error_class", one: classes(), doc: "error class of the last attempt; none: it succeeded"},
		{name: "status_code", bound: func(*Bounds) strict.Form { return strict.WholeNumber(100, 599) }, doc: "status of the last attempt's response: 100 to 599"},
		{name: "text", form: "text", doc: "exact text in the event's data, at most 256 bytes. There is no index for it, so a page searches a limited " +
			"number of events: it may be short or empty while next says that more can be searched"},
	}
}

// replayedParam shows more dead letters than there are by themselves.
var replayedParam = param{name: "replayed", one: []string{"true"}, doc: "include dead letters that were replayed with success"}

func deliveryFilter() []param { return append([]param{statusParam}, deadLetterFilter()...) }

// selection reads the filters of a request, without limit and cursor. Faults are in the query.
func (a *api) selection(c *call, endpoint string) selection {
	q := &c.query
	s := selection{text: q.text("text"), DeliveryQuery: store.DeliveryQuery{
		Endpoint: cmp.Or(endpoint, q.text("endpoint")), Type: q.text("type"), Key: q.text("key"), Tenant: q.text("tenant"),
		Class: policy.Class(q.text("error_class")), ReasonCode: grapnel.ReasonCode(q.text("reason_code")), StatusCode: q.number("status_code", 0),
	}}
	s.From, s.To = q.span()
	for _, status := range q.all("status") {
		s.Status = append(s.Status, grapnel.Status(status))
	}
	if slices.Contains(s.Status, grapnel.Held) || slices.Contains(s.Status, grapnel.Pending) {
		s.HeldEndpoints = a.Engine.Held()
	}
	return s
}

// find returns the next deliveries that a selection means, the newest first, and the number before
// which to go on; 0: nowhere, these were the last. While that is not 0 there may be fewer than
// limit.
func (a *api) find(c *call, s selection, before int64, limit int) (found []grapnel.Delivery, resume int64, err error) {
	q := s.DeliveryQuery
	q.Before, q.Limit = before, limit
	if s.text != "" {
		return a.History.DeliverySearch(c.Context(), c.scope, q, s.text)
	}
	q.Limit++
	found, err = a.History.DeliveryList(c.Context(), c.scope, q)
	if err != nil || len(found) <= limit {
		return found, 0, err
	}
	return found[:limit], found[limit-1].Seq, nil
}

// known says whether the caller can see an endpoint, or what became of one that is deleted: its
// history outlives it.
func (a *api) known(c *call, endpoint string) error {
	if _, ok := a.Engine.Endpoint(c.scope, endpoint); ok {
		return nil
	}
	past, err := a.History.DeliveryList(c.Context(), c.scope, store.DeliveryQuery{Endpoint: endpoint, Limit: 1})
	if err != nil || len(past) == 0 {
		return cmp.Or(err, store.ErrNotFound("endpoint"))
	}
	return nil
}
