package wire

import "time"

// Duplicate is an event that was published, or received, again.
type Duplicate struct {
	EventID string    `json:"event_id"`
	Tenant  string    `json:"tenant"`
	Source  string    `json:"source" nullable:"true" doc:"that received it the last time; null: it was published through the API"`
	Times   int64     `json:"times" doc:"how often it came again; the first time is not counted"`
	FirstAt time.Time `json:"first_at" doc:"when it came again for the first time"`
	LastAt  time.Time `json:"last_at"`
}

// MarshalJSON writes the duplicate as the API does.
func (d Duplicate) MarshalJSON() ([]byte, error) { return Encode(d) }
