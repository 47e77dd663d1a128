package alert

import (
	"maps"
	"slices"
	"time"
)

// Boxes is the body of a tenant's document of KindMessages: what each recipient has not been sent
// yet, and how much it was sent lately. It is written in every transaction that stores transitions
// of the tenant. So of two nodes that evaluate at the same moment one fails, and starts over.
type Boxes struct {
	Recipients map[string]*Box `json:"recipients,omitempty"` // by endpoint
}

// Box is what one recipient has not been sent yet.
type Box struct {
	Window time.Time `json:"window,omitzero"` // begin of the window in which Sent are counted
	Sent   int       `json:"sent,omitempty"`

	Began    time.Time `json:"began,omitzero"`  // of the first transition in the box
	Event    string    `json:"event,omitempty"` // id of the digest
	Until    time.Time `json:"until,omitzero"`  // the digest is sent then
	Count    int       `json:"count,omitempty"`
	Fired    int       `json:"fired,omitempty"`
	Goes     int       `json:"goes,omitempty"`     // repetitions
	Severity string    `json:"severity,omitempty"` // the gravest
	Titles   []string  `json:"titles,omitempty"`   // of the first, at most Bounds.Titles

	// By the id of a digest: how many of its alerts have not ended. Only of a recipient that Closes,
	// and of the latest digests, at most Bounds.Digests.
	Open map[string]int `json:"open,omitempty"`
}

// DecodeBoxes reads the body of the document.
func DecodeBoxes(body []byte) (Boxes, error) { return decode[Boxes](body, "stored messages") }

// Encode is the body of the document.
func (b *Boxes) Encode() []byte { return encode(b) }

// Due says whether a digest has to be sent.
func (b *Boxes) Due(now time.Time) bool {
	for _, box := range b.Recipients {
		if box.Count > 0 && (!now.Before(box.Until) || now.Before(box.Began)) {
			return true
		}
	}
	return false
}

// counts has the alerts of a digest that begins counted in Open, and forgets digests beyond the
// latest.
func (box *Box) counts(most int) {
	if box.Open == nil {
		box.Open = map[string]int{}
	}
	for len(box.Open) >= most {
		delete(box.Open, slices.Min(slices.Collect(maps.Keys(box.Open)))) // ids sort by time
	}
	box.Open[box.Event] = 0
}

// Held is a digest that waits for its time.
type Held struct {
	Recipient string
	Until     time.Time
}

// Held finds the digest whose event will have the id; nil: none waits for its time.
func (b *Boxes) Held(event string) *Held {
	for id, box := range b.Recipients {
		if box.Count > 0 && box.Event == event {
			return &Held{id, box.Until}
		}
	}
	return nil
}
