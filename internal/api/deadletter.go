package api

import (
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/openapi"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// Dead letters are deliveries that failed, until they are purged, were delivered again with success, or a person has looked at them and put them away. What becomes of them
// here is noted beside them: that they failed never changes.

func deadLetterRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/dead-letters", scope: grapnel.ScopeRead, handle: listDeadLetters,
			name: "list-dead-letters", tag: "Dead letters", summary: "List deliveries that failed and that nothing has been done about, the newest first",
			about: "What was discarded since is left out, and what was delivered since by a replay or a retry; replayed shows the latter.",
			query: pageOf(append(deadLetterFilter(), endpointParam, replayedParam)...), gives: map[int]any{200: list[wire.Delivery]{}}},
		{method: "PATCH", path: "/v1/deliveries/{id}", scope: grapnel.ScopeReplay, handle: noteDelivery,
			name: "note-delivery", tag: "Dead letters", summary: "Put a note on a delivery that is over",
			about: "It replaces the note before; null takes it away. A delivery that is not over answers 409.",
			body:  &intake{types: []string{openapi.TypeMergePatch, grapnel.JSONType}}, takes: deliverySettings{},
			gives: map[int]any{200: wire.Delivery{}}},
		{method: "POST", path: "/v1/deliveries/{id}/discard", scope: grapnel.ScopeReplay, handle: discardDelivery,
			name: "discard-delivery", tag: "Dead letters", summary: "Put a dead letter away",
			about: "It is in no list of dead letters any more and replays leave it out. That it failed stays. A delivery that waits, as one that is " +
				"exhausted and blocks its key, ends as discarded, and its key moves on. One that is over and did not fail answers 409.",
			body: &intake{types: []string{grapnel.JSONType}}, takes: newDiscard{},
			gives: map[int]any{200: wire.Delivery{}}},
	}
}

func listDeadLetters(a *api, c *call) (answer, error) {
	s, limit, before := a.selection(c, ""), c.query.limit(), c.number()
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	s.DeadLetters, s.Replayed = true, c.query.text("replayed") != ""
	out, err := some(a, c, s, before, limit, (*look).view)
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, out), nil
}

// deliverySettings are what can be changed about a delivery: nothing but what is noted on it.
type deliverySettings struct {
	Note *string `json:"note" maxLength:"2000" doc:"for whoever looks at it next"`
}

func noteDelivery(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[deliverySettings](c.body, &f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
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

// newDiscard is how a dead letter is put away.
type newDiscard struct {
	Reason string `json:"reason" required:"true" minLength:"1" maxLength:"500" doc:"kept with the delivery, and in the audit"`
}

func discardDelivery(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newDiscard](c.body, &f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	d, err := a.delivery(c, c.PathValue("id"))
	switch {
	case err != nil:
		return answer{}, err
	case !d.Status.Final():
		return discardWaiting(a, c, d, in.Reason)
	case d.Status != grapnel.Failed:
		return answer{}, grapnel.Errorf(grapnel.CodeConflict, "The delivery is no dead letter: it is %s.", d.Status)
	}
	return annotate(a, c, store.Annotation{Delivery: d.Seq, Discard: in.Reason, At: c.now, Audit: c.about(grapnel.VerbDiscard, d, in.Reason)})
}

// discardWaiting gives up what waits: mostly what is exhausted under a policy that blocks its key.
func discardWaiting(a *api, c *call, d *grapnel.Delivery, reason string) (answer, error) {
	if err := a.Engine.Discard(c.Context(), c.scope, d.Seq, grapnel.By{Actor: c.key.ID, Reason: reason}); err != nil {
		return answer{}, err
	}
	over, err := a.delivery(c, c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return a.showDelivery(c, over)
}

// annotate notes something on a delivery and shows how it is then.
func annotate(a *api, c *call, n store.Annotation) (answer, error) {
	if err := a.History.Annotate(c.Context(), c.scope, n); err != nil {
		return answer{}, err
	}
	d, err := a.delivery(c, c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return a.showDelivery(c, d)
}
