package api

import (
	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// Dead letters are failed deliveries, until they are purged, are redelivered with success, or a
// person discards them. Notes and discards are stored next to the outcome, which never changes.

func deadLetterRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/dead-letters", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: listDeadLetters,
			name: "list-dead-letters", tag: "Dead letters", summary: "List failed deliveries that are neither redelivered nor discarded, the newest first",
			about: "Discarded ones are left out, and those that a replay or a retry has delivered since; replayed shows the latter.",
			query: pageOf(append(deadLetterFilter(), endpointParam, replayedParam)...), gives: map[int]any{200: list[wire.Delivery]{}}},
		{method: "PATCH", path: "/v1/deliveries/{id}", scope: grapnel.ScopeReplay, portal: grapnel.ScopeReplay, handle: reading(noteDelivery),
			name: "note-delivery", tag: "Dead letters", summary: "Put a note on a finished delivery",
			about: "It replaces the note before; null removes it. 409 for a pending delivery.",
			body:  patchBody, takes: deliverySettings{}, gives: map[int]any{200: wire.Delivery{}}},
		{method: "POST", path: "/v1/deliveries/{id}/discard", scope: grapnel.ScopeReplay, portal: grapnel.ScopeReplay,
			handle: reading(discardDelivery),
			name:   "discard-delivery", tag: "Dead letters", summary: "Discard a dead letter",
			about: "It is in no list of dead letters any more and replays leave it out. Its status stays failed. A pending delivery, as one that is exhausted and blocks its key, ends as discarded, and its key moves on. 409 for a finished delivery that did not fail, and for a dead letter that is already discarded for another reason.",
			body:  jsonBody, takes: newDiscard{}, gives: map[int]any{200: wire.Delivery{}}},
	}
}

func listDeadLetters(a *api, c *call) (answer, error) {
	s, limit, before := a.selection(c, ""), c.query.limit(), c.number()
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	s.DeadLetters, s.Replayed = true, c.query.text("replayed") != ""
	return result(a.some(c, s, before, limit))
}

// deliverySettings are the settings of a delivery that can change: its note.
type deliverySettings struct {
	Note *string `json:"note" maxLength:"2000" doc:"for the next person who looks at it"`
}

func noteDelivery(a *api, c *call, in *deliverySettings) (answer, error) {
	d, err := a.delivery(c, c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if given := gjson.GetBytes(c.body, "note"); !given.Exists() {
		return a.showDelivery(c, d) // a patch of nothing
	} else if in.Note == nil {
		in.Note = new(string)
	}
	return annotate(a, c, store.Annotation{Delivery: d.Seq, Note: in.Note, At: c.now, Audit: c.about(grapnel.VerbNote, d, "")})
}

// newDiscard is the body that discards a dead letter.
type newDiscard struct {
	Reason string `json:"reason" required:"true" minLength:"1" maxLength:"500" doc:"reason, stored with the delivery and in the audit"`
}

func discardDelivery(a *api, c *call, in *newDiscard) (answer, error) {
	d, err := a.delivery(c, c.PathValue("id"))
	switch {
	case err != nil:
		return answer{}, err
	case !d.Status.Final():
		if err := a.Engine.Discard(c.Context(), c.scope, d.Seq, c.by(in.Reason)); err != nil {
			return answer{}, err
		}
		return getDelivery(a, c)
	case d.Status != grapnel.Failed:
		return answer{}, grapnel.Errorf(grapnel.CodeConflict, "The delivery is not a dead letter: its status is %s.", d.Status)
	case !d.Mark.DiscardedAt.IsZero() && d.Mark.DiscardReason == in.Reason:
		return a.showDelivery(c, d) // a repetition, whose first answer may have been lost
	case !d.Mark.DiscardedAt.IsZero():
		return answer{}, grapnel.Errorf(grapnel.CodeConflict, "The dead letter is already discarded: %s", d.Mark.DiscardReason)
	}
	return annotate(a, c, store.Annotation{Delivery: d.Seq, Discard: in.Reason, At: c.now, Audit: c.about(grapnel.VerbDiscard, d, in.Reason)})
}

// annotate notes something on a delivery and shows how it is then.
func annotate(a *api, c *call, n store.Annotation) (answer, error) {
	if err := a.History.Annotate(c.Context(), c.scope, n); err != nil {
		return answer{}, err
	}
	return getDelivery(a, c)
}
