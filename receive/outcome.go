package receive

import "net/http"

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

// answers has the status of every outcome, and the sentence that a failure's answer gives. No
// sentence has data of the event in it.
var answers = map[Outcome]struct {
	status int
	reason string
}{
	Processed:    {http.StatusOK, ""},
	Accepted:     {http.StatusAccepted, ""},
	Duplicate:    {http.StatusOK, ""},
	Stale:        {http.StatusOK, ""},
	Parked:       {http.StatusAccepted, ""},
	Conflict:     {http.StatusOK, "The event id was processed with another body."},
	InProgress:   {http.StatusServiceUnavailable, "Another request with this event id is being processed."},
	Failed:       {http.StatusServiceUnavailable, "Processing failed and may succeed later."},
	DeadLettered: {http.StatusOK, "Processing failed for good; the receiver has stored the request."},
	Rejected:     {http.StatusUnprocessableEntity, "Processing failed for good."},
	Gone:         {http.StatusGone, "The receiver wants no more events."},
	Unverified:   {http.StatusUnauthorized, "The signature is missing or does not match."},
	Expired:      {http.StatusBadRequest, "The signature's time is outside of the tolerance."},
	Malformed:    {http.StatusBadRequest, "The event id or a header is missing or cannot be read."},
	TooLarge:     {http.StatusRequestEntityTooLarge, "The body is larger than the receiver reads."},
	Overloaded:   {http.StatusTooManyRequests, "The receiver has more requests at once than it takes."},
}

// Status is the HTTP status that answers an outcome; 0: no outcome.
func (o Outcome) Status() int { return answers[o].status }
