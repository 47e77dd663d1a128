package engine

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// refused says whether a store refuses a write however often it is repeated. After an error without
// a code the written part is unknown. Codes that are not listed here pass by themselves.
func refused(err error) bool {
	switch grapnel.CodeOf(err) {
	case grapnel.CodeInvalid, grapnel.CodeMalformed, grapnel.CodeTooLarge, grapnel.CodeUnsupported, grapnel.CodeNotFound, grapnel.CodeConflict:
		return true
	}
	return false
}

// Texts that replace those which a store has refused.
const (
	withoutTexts = "the outcome was recorded without its texts: the store refused them"
	endedDamaged = "failed: the store refused the record of the last outcome"
)

// textless is the change without texts that come from outside.
func textless(ch core.Change) core.Change {
	ch.Reason = withoutTexts
	if ch.Attempt != nil {
		a := *ch.Attempt
		a.Error, a.RequestHeaders, a.ResponseHeaders, a.ResponseBody = "", nil, nil, nil
		ch.Attempt = &a
	}
	if ch.Standing != nil {
		st := *ch.Standing
		st.Cause = ""
		if st.Sentence != "" {
			st.Sentence = withoutTexts
		}
		ch.Standing = &st
	}
	if ch.Audit != nil {
		entry := *ch.Audit
		entry.Reason = withoutTexts
		ch.Audit = &entry
	}
	news := make([]core.News, len(ch.News))
	for i, n := range ch.News {
		n.Reason = withoutTexts
		news[i] = n
	}
	ch.News = news
	return ch
}

// ended is a change that finishes the delivery of another change as damaged.
func ended(ch core.Change) core.Change {
	is := ch
	is.Change = store.Change{Delivery: ch.Delivery, Tenant: ch.Tenant, Expect: store.AnyAttempts, At: ch.At, Lease: ch.Lease, NextDelay: ch.NextDelay,
		Status: grapnel.Failed, ReasonCode: grapnel.ReasonDamaged, Reason: endedDamaged, Answer: ch.Answer}
	is.News = []core.News{{Type: grapnel.EventDeliveryFailed, Reason: endedDamaged}}
	return is
}

// named is the id of a change's delivery, or its row id if the change does not carry the creation
// time.
func named(ch *core.Change, ids *grapnel.IDs) any {
	switch {
	case !ch.Subject.CreatedAt.IsZero():
		return ids.Delivery(ch.Subject.CreatedAt, ch.Delivery)
	case ch.Audit != nil && ch.Audit.Delivery != "":
		return ids.FromPlain(ch.Audit.Delivery)
	}
	return ch.Delivery
}
