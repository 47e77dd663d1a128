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
	ID          string        `json:"id" doc:"id of the event; req_… if it did not become one"`
	SourceID    string        `json:"source_id"`
	SourceName  string        `json:"source_name" nullable:"true" doc:"null: the source is deleted"`
	Tenant      string        `json:"tenant"`
	Outcome     IntakeOutcome `json:"outcome" enum:"accepted,unverified,conflict,refused"`
	Reason      string        `json:"reason" doc:"one sentence"`
	ReceivedAt  time.Time     `json:"received_at"`
	EventID     string        `json:"event_id" nullable:"true" doc:"id of the event that it became or, for a conflict, contradicts"`
	Type        string        `json:"type" nullable:"true" doc:"type of the event that it became"`
	Key         string        `json:"key" nullable:"true"`
	ContentType string        `json:"content_type"`
	Size        int           `json:"size" doc:"size of the body in bytes"`
}

// MarshalJSON writes the request as the API does.
func (r InboxRequest) MarshalJSON() ([]byte, error) { return Encode(r) }

// Intake is a request with all that is known of it. Lists have only what InboxRequest has.
type Intake struct {
	Raw
	InboxRequest
	Method        string           `json:"method"`
	Path          string           `json:"path" doc:"path with query"`
	Remote        string           `json:"remote" doc:"address of the sender"`
	Headers       []grapnel.Header `json:"headers" doc:"as received; secrets are [redacted]"`
	Checks        []grapnel.Check  `json:"checks" doc:"steps of the verification"`
	KnownBy       *KnownBy         `json:"known_by" nullable:"true" doc:"null: it has no dedupe key"`
	PayloadHidden bool             `json:"payload_hidden,omitempty" doc:"the caller may not see values of headers and the body"`
	Erased        bool             `json:"erased,omitempty" doc:"the request and its checks were erased, with the data key that had sealed them"`
	Body          json.RawMessage  `json:"body,omitempty" doc:"if the body is JSON"`
	BodyText      *string          `json:"body_text,omitempty" doc:"if the body is text but not JSON"`
	BodyBase64    []byte           `json:"body_base64,omitempty" doc:"all bytes of the body, if it is neither JSON nor text, or is JSON with spaces between or around its parts"`
}

// MarshalJSON writes the request as the API does.
func (r Intake) MarshalJSON() ([]byte, error) { return Encode(r) }

// Content is the body of a request, whatever it is.
func (r *Intake) Content() []byte {
	switch {
	case r.BodyBase64 != nil:
		return r.BodyBase64
	case r.BodyText != nil:
		return []byte(*r.BodyText)
	}
	return r.Body
}

// KnownBy is the identity by which a source deduplicates a request.
type KnownBy struct {
	By    grapnel.DedupeBy `json:"by" enum:"event_id,delivery_id,content"`
	Value string           `json:"value" doc:"the id, or a hash of the content"`
}
