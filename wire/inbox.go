package wire

import (
	"encoding/json"
	"time"

	"github.com/grapnelhq/grapnel"
)

// IntakeOutcome is the result of a request to a source.
type IntakeOutcome string

// The outcomes of requests to sources.
const (
	IntakeAccepted   IntakeOutcome = "accepted"
	IntakeUnverified IntakeOutcome = "unverified"
	IntakeConflict   IntakeOutcome = "conflict"
	IntakeRefused    IntakeOutcome = "refused"
)

// InboxRequest is a request that a source received, as it is listed.
type InboxRequest struct {
	ID          string        `json:"id" doc:"of the event; req_… if it is none"`
	SourceID    string        `json:"source_id"`
	Tenant      string        `json:"tenant"`
	Outcome     IntakeOutcome `json:"outcome" enum:"accepted,unverified,conflict,refused"`
	Reason      string        `json:"reason" doc:"one sentence"`
	ReceivedAt  time.Time     `json:"received_at"`
	EventID     string        `json:"event_id" nullable:"true" doc:"that it became or, for a conflict, that it contradicts"`
	Type        string        `json:"type" nullable:"true" doc:"of the event that it became"`
	Key         string        `json:"key" nullable:"true"`
	ContentType string        `json:"content_type"`
	Size        int           `json:"size" doc:"bytes of its body"`
}

// MarshalJSON writes the request as the API does.
func (r InboxRequest) MarshalJSON() ([]byte, error) { return Encode(r) }

// Intake is a request with all that is known of it. Lists have only what InboxRequest has.
type Intake struct {
	Raw
	InboxRequest
	Method     string           `json:"method"`
	Path       string           `json:"path" doc:"with its query"`
	Remote     string           `json:"remote" doc:"address of who sent it"`
	Headers    []grapnel.Header `json:"headers" doc:"as received; secrets are [redacted]"`
	Checks     []grapnel.Check  `json:"checks" doc:"what verifying found, step by step"`
	KnownBy    *KnownBy         `json:"known_by" nullable:"true" doc:"null: it is not known by anything"`
	Body       json.RawMessage  `json:"body,omitempty" doc:"when it is JSON"`
	BodyText   *string          `json:"body_text,omitempty" doc:"when it is other text"`
	BodyBase64 []byte           `json:"body_base64,omitempty" doc:"when it is neither"`
}

// MarshalJSON writes the request as the API does.
func (r Intake) MarshalJSON() ([]byte, error) { return Encode(r) }

// Content is the body of a request, whatever it is.
func (r *Intake) Content() []byte {
	switch {
	case r.Body != nil:
		return r.Body
	case r.BodyText != nil:
		return []byte(*r.BodyText)
	}
	return r.BodyBase64
}

// KnownBy is the identity by which a source deduplicates a request.
type KnownBy struct {
	By    grapnel.DedupeBy `json:"by" enum:"event_id,delivery_id,content"`
	Value string           `json:"value" doc:"the id, or a hash of the content"`
}
