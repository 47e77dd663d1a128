package wire

import (
	"encoding/json"
	"time"
)

// NewEvent is an event to publish. Type and Data are required; Data is JSON and is sent as it is,
// byte for byte.
type NewEvent struct {
	Type          string            `json:"type" required:"true" form:"type" doc:"dotted segments of [A-Za-z0-9_-]"`
	Key           string            `json:"key" form:"key" doc:"the ordering key: events of one key reach an endpoint one after the other. None: no order"`
	AggregateType string            `json:"aggregate_type" form:"type" doc:"with aggregate_id instead of key, which becomes type/id; has no slash"`
	AggregateID   string            `json:"aggregate_id" minLength:"1" maxLength:"254" form:"line" doc:"with its type and a slash, at most 256 bytes"`
	ID            string            `json:"id" form:"id" doc:"makes publishing idempotent: the same id again changes nothing"`
	Tenant        string            `json:"tenant" form:"tenant" doc:"the key's tenant, else default"`
	OccurredAt    *time.Time        `json:"occurred_at" doc:"when it happened; none: when it was accepted"`
	DeliverAt     *time.Time        `json:"deliver_at" doc:"when its deliveries begin, at most 30 days ahead (--max-ahead); none, or a time that has passed: at once. The event is durable now. Later events of its key wait behind it, because order is the promise; a replay does not wait"`
	Metadata      map[string]string `json:"metadata" maxProperties:"32" names:"member" form:"metadata" doc:"at most 32 strings of at most 1024 bytes"`
	Data          json.RawMessage   `json:"data" required:"true" doc:"any JSON; stored and delivered byte for byte"`
}

// MarshalJSON writes the fields that are set. encoding/json reformats Data then; Request does not.
func (e NewEvent) MarshalJSON() ([]byte, error) { return Request(e) }

// Published is the server's word that an event and all its deliveries are durable.
type Published struct {
	Raw
	ID         string    `json:"id"`
	AcceptedAt time.Time `json:"accepted_at"`
	Deliveries int       `json:"deliveries" doc:"number of endpoints that get it"`
	Duplicate  bool      `json:"duplicate" doc:"an event with this id and content exists already; nothing was created"`
}

// MarshalJSON writes the answer as the API does.
func (p Published) MarshalJSON() ([]byte, error) { return Encode(p) }

// Event is an event as stored. Data is JSON as it was published, without spaces between its parts;
// receivers get the bytes with them.
type Event struct {
	Raw
	ID            string            `json:"id"`
	Tenant        string            `json:"tenant"`
	Type          string            `json:"type"`
	Key           string            `json:"key" nullable:"true" doc:"null: the event has no order"`
	Data          json.RawMessage   `json:"data,omitempty" doc:"absent if the data is not JSON"`
	DataBase64    []byte            `json:"data_base64,omitempty" doc:"instead of data, if that is not JSON"`
	PayloadHidden bool              `json:"payload_hidden,omitempty" doc:"the caller may not see data"`
	Damaged       bool              `json:"damaged,omitempty" doc:"only in lists: the stored bytes do not match their checksum, so there is no data; a read of the event is answered with the code damaged"`
	ErasedAt      *time.Time        `json:"erased_at,omitempty" doc:"its content was erased then: there is no data and no metadata, and it is never delivered again"`
	Erased        bool              `json:"erased,omitempty" doc:"data and metadata were erased, with the data key that had sealed them"`
	ContentType   string            `json:"content_type"`
	Metadata      map[string]string `json:"metadata"`
	Source        string            `json:"source" nullable:"true" doc:"id of the source that received it; null: it was published"`
	SourceName    string            `json:"source_name" nullable:"true" doc:"null: it was published, the source is deleted, or the caller may not see sources"`
	OccurredAt    time.Time         `json:"occurred_at"`
	AcceptedAt    time.Time         `json:"accepted_at"`
	RetainedUntil *time.Time        `json:"retained_until,omitempty" doc:"only for a single event: until then retention deletes none of its deliveries; absent: never"`
	Deliveries    []Delivery        `json:"deliveries,omitzero" doc:"only for a single event; without attempts; of redeliveries the newest 256"`
}

// MarshalJSON writes the event as the API does.
func (e Event) MarshalJSON() ([]byte, error) { return Encode(e) }
