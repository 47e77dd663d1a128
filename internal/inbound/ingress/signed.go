package ingress

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/store"
)

// If an id or a type is not signed, an attacker who has seen a signed request can send it again
// under another one. So the signature is recorded too, in the transaction of the event, and a
// second request with it is examined. Slack signs its ids, but not the Content-Type that says
// whether they are in a form.
//
// However, a provider may rightly sign the same bytes twice, and no event may be lost. GitHub sends
// the same body for two dispatches of a workflow with the same inputs, or when a member is added,
// removed and added; Twilio when a caller presses the same key in the same menu twice; Shopify for
// several topics of one event. There a second id is a second event, unless content is the first of
// dedupe.by. A request that counts as a repetition although its id is new is not dropped but set
// aside: a time in seconds allows two events with one body in one second.

// first is the record of the first request with a signature.
type first struct {
	Event   string `json:"event"`
	Known   []byte `json:"known"`
	Sum     []byte `json:"sum"`
	Type    string `json:"type"` // as the provider says
	Differs bool   `json:"differs"`
}

// once makes the store remember the signature of a request; nil: it does not have to.
func (in *incoming) once(known *store.Known) *store.Once {
	s := in.source
	mac := in.by().MAC
	if s.how.Signs < scheme.SignsType || mac == nil || len(s.Dedupe.By) == 0 {
		return nil
	}
	window := cmp.Or(s.Dedupe.Window, grapnel.DefaultDedupeWindow)
	if s.how.Signs == scheme.SignsOnce {
		// after that it is too old to be verified, however far ahead its time was
		window = 2*s.how.Tolerance + time.Second
	}
	return &store.Once{Key: s.ID + " " + base64.RawURLEncoding.EncodeToString(mac), Expires: in.taken.Add(window), Now: in.taken,
		Answer: func(done any) store.Answer {
			placed := done.(store.Accepted).Events[0]
			// texts and bytes only: it cannot fail
			text, _ := json.Marshal(in.remembered(known, placed))
			return store.Answer{Body: text}
		}}
}

func (in *incoming) remembered(known *store.Known, placed store.Placed) first {
	sum := in.document().Sum
	f := first{Event: placed.ID, Sum: sum[:], Type: in.find(in.source.how.Kind), Differs: placed.Differs}
	if known != nil {
		f.Known = known.By
	}
	return f
}

// repeats classifies a request whose signature was received before. isNew: another event with the
// same signature.
func (in *incoming) repeats(a *store.Answer, how *grapnel.Intake, known *store.Known) (placed store.Placed, isNew bool, err error) {
	var then first
	if err := json.Unmarshal(a.Body, &then); err != nil {
		return placed, false, err
	}
	now := in.remembered(known, store.Placed{})
	placed = store.Placed{ID: then.Event, Duplicate: true, Differs: then.Differs || !slices.Equal(then.Sum, now.Sum)}
	switch {
	case in.source.how.Signs == scheme.SignsType && then.Type == now.Type:
		return placed, true, nil // by its id it may still be a duplicate
	case !slices.Equal(then.Known, now.Known) || then.Type != now.Type:
		placed.Differs = true
		how.By, how.Known = "", "" // its own id is not the reason
	}
	return placed, false, nil
}
