package wire

import "time"

// Meta describes a message of a queue. The URLs are for programs that do not use package client.
type Meta struct {
	Lease          string    `json:"lease" doc:"token to settle it, valid once"`
	EventID        string    `json:"event_id"`
	DeliveryID     string    `json:"delivery_id"`
	Type           string    `json:"type"`
	Key            string    `json:"key" nullable:"true"`
	ContentType    string    `json:"content_type"`
	Attempt        int       `json:"attempt" doc:"1 for the first"`
	FirstSeenAt    time.Time `json:"first_seen_at" doc:"when the event was accepted"`
	LeaseExpiresAt time.Time `json:"lease_expires_at"`
	AckURL         string    `json:"ack_url"`
	NackURL        string    `json:"nack_url"`
	RejectURL      string    `json:"reject_url"`
	ExtendURL      string    `json:"extend_url"`
	Traceparent    string    `json:"traceparent,omitempty" doc:"W3C trace context for the consumer, in the trace of the publish; absent: none"`
}

// PeekedMeta is what can be known of a message without a lease.
type PeekedMeta struct {
	EventID     string    `json:"event_id"`
	DeliveryID  string    `json:"delivery_id"`
	Type        string    `json:"type"`
	Key         string    `json:"key" nullable:"true"`
	ContentType string    `json:"content_type"`
	Attempt     int       `json:"attempt" doc:"attempt number of its next or current lease"`
	FirstSeenAt time.Time `json:"first_seen_at"`
	DueAt       time.Time `json:"due_at" doc:"when it can be leased; of a leased message, the end of the lease"`
}

// Lease is a lease after it was extended.
type Lease struct {
	Lease          string    `json:"lease"`
	QueueID        string    `json:"queue_id"`
	Consumer       string    `json:"consumer"`
	DeliveryID     string    `json:"delivery_id"`
	Attempt        int       `json:"attempt"`
	LeaseExpiresAt time.Time `json:"lease_expires_at"`
}

// MarshalJSON writes the lease as the API does.
func (l Lease) MarshalJSON() ([]byte, error) { return Encode(l) }
