package receive

import (
	"encoding/json"
	"net/http"
	"time"
)

// unasked is the Retry-After of an answer whose sender should come again soon.
const unasked = 5 * time.Second

// Outcome is the end of a request. It is the text of the header Webhook-Outcome and of the store's
// column outcome.
type Outcome string

// The outcomes. Status has the answer of each.
const (
	Processed    Outcome = "processed"     // the handler ran and its effect is committed
	Accepted     Outcome = "accepted"      // the request is in the inbox
	Duplicate    Outcome = "duplicate"     // the key was processed before; the handler did not run
	Stale        Outcome = "stale"         // a gate found a newer version; nothing was changed
	Parked       Outcome = "parked"        // a gate found a gap and keeps the event until the gap closes
	Conflict     Outcome = "conflict"      // the key was processed with another body
	InProgress   Outcome = "in_progress"   // another worker holds the claim
	Failed       Outcome = "retryable"     // the handler failed in a way that passes
	DeadLettered Outcome = "dead_lettered" // the handler failed for good; the request is a dead letter
	Rejected     Outcome = "permanent"     // the handler failed for good; no dead letters are stored
	Gone         Outcome = "gone"          // the handler wants no more events
	Unverified   Outcome = "unverified"    // bad or missing signature
	Expired      Outcome = "expired"       // the signature's time is outside of the tolerance
	Malformed    Outcome = "malformed"     // no id, or a header that cannot be read
	TooLarge     Outcome = "too_large"     // the body is larger than MaxBody
	Overloaded   Outcome = "overloaded"    // more requests at once than Concurrency
)

// answers has the status of every outcome, and the sentence of the answer to a failure. It contains
// no data of the event.
var answers = map[Outcome]struct {
	status int
	reason string
	after  time.Duration // of Retry-After, if nothing better is known; 0: none
}{
	Processed:    {http.StatusOK, "", 0},
	Accepted:     {http.StatusAccepted, "", 0},
	Duplicate:    {http.StatusOK, "", 0},
	Stale:        {http.StatusOK, "", 0},
	Parked:       {http.StatusAccepted, "", 0},
	Conflict:     {http.StatusOK, "The event id was processed with another body.", 0},
	InProgress:   {http.StatusServiceUnavailable, "Another request with this event id is being processed.", unasked},
	Failed:       {http.StatusServiceUnavailable, "Processing failed and may succeed later.", 0},
	DeadLettered: {http.StatusOK, "Processing failed for good; the receiver has stored the request.", 0},
	Rejected:     {http.StatusUnprocessableEntity, "Processing failed for good.", 0},
	Gone:         {http.StatusGone, "The receiver wants no more events.", 0},
	Unverified:   {http.StatusUnauthorized, "The signature is missing or does not match.", 0},
	Expired:      {http.StatusBadRequest, "The signature's time is outside of the tolerance.", 0},
	Malformed:    {http.StatusBadRequest, "The event id or a header is missing or cannot be read.", 0},
	TooLarge:     {http.StatusRequestEntityTooLarge, "The body is larger than the receiver reads.", 0},
	Overloaded:   {http.StatusTooManyRequests, "The receiver has more requests at once than it takes.", unasked},
}

// bodies are the bodies of the answers.
var bodies = func() map[Outcome][]byte {
	all := map[Outcome][]byte{}
	for o, answer := range answers {
		all[o], _ = json.Marshal(struct { // of strings alone: it cannot fail
			Outcome Outcome `json:"outcome"`
			Reason  string  `json:"reason,omitempty"`
		}{o, answer.reason})
	}
	return all
}()

// Status is the HTTP status that answers an outcome; 0: no outcome.
func (o Outcome) Status() int { return answers[o].status }
